"""How a contestant or a tool is installed and started: `bolide race list --how NAME`."""

from __future__ import annotations

import shlex

from bolide.lab.plan import environments
from bolide.lab.plan.contestant import Contestant
from bolide.lab.record.schema import State
from bolide.lab.tools import Tool


def of_contestant(contestant: Contestant) -> list[str]:
    """Return its state, the commands that install it, and how it is started."""
    status, setup = environments.examine(contestant), contestant.setup
    found = [f"{contestant.name}: {contestant.entry.title}", f"  {_state(status)}"]
    if setup.apt:
        found.append(f"  packages: {environments.apt_line(setup.apt)}")
    if setup.how:
        found += ["  commands:", *(f"    {each}" for each in setup.how)]
    if steps := _steps(contestant):
        found += [f"  bolide race setup {contestant.name}:", *(f"    {each}" for each in steps)]
    if not (setup.apt or setup.how or steps):
        found.append("  nothing has to be installed")
    found.append(f"  started as: {shlex.join(contestant.entry.command)}")
    return [*found, *(f"  note: {each}" for each in contestant.entry.remarks)]


def of_tool(tool: Tool) -> list[str]:
    """Return a tool's state and the commands that install it."""
    state, reason = state_of(tool)
    found = [f"{tool.name}: a load generator", f"  {state}{f', {reason}' if reason else ''}"]
    if tool.apt:
        found.append(f"  packages: {environments.apt_line(tool.apt)}")
    if tool.how:
        found += ["  commands:", *(f"    {each}" for each in tool.how)]
    return found


def state_of(tool: Tool) -> tuple[State, str]:
    """Return whether a tool can run here, and if not, what to do."""
    if tool.version() is not None:
        return "ready", ""
    if tool.apt:
        return "needs set-up", environments.apt_line(tool.apt)
    return ("needs set-up", "; ".join(tool.how)) if tool.how else ("cannot run here", tool.missing)


def _state(status: environments.Status) -> str:
    words = [status.state, *([status.version] if status.version else [])]
    return ", ".join([*words, *([status.reason] if status.reason else [])])


def _steps(contestant: Contestant) -> list[str]:
    """Return what `bolide race setup` runs, without this machine's folders."""
    setup = contestant.setup
    found = []
    if setup.requirements:
        found.append(f"python{setup.interpreter or '3'} -m venv FOLDER")
        runs = setup.install or (setup.requirements,)
        words = [f"{name}={shlex.quote(value)}" for name, value in setup.variables.items()]
        pip = " ".join([*words, "FOLDER/bin/python -m pip install"])
        found += [f"{pip} {' '.join(each)}" for each in runs]
    if setup.go:
        found.append(f"go build -o FOLDER/bin/server .   # in {setup.go}")
    if setup.npm:
        found.append(f"npm ci   # in {setup.npm}")
    if setup.cargo:
        found.append(f"cargo install --path . --root FOLDER   # in {setup.cargo}")
    return found
