"""Finds the agents of a fleet before a race: each of them loads a server of this machine.

Nothing else shows that they reach it, through firewalls and their own limits. What the first load
reports also describes their machines.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec

from bolide import temporary
from bolide.errors import ConfigError, Error
from bolide.lab.plan.fleet import Joined
from bolide.lab.record import schema
from bolide.lab.record.redaction import TRIAL_PREFIX
from bolide.lab.tools import Load, ToolError, find
from bolide.lab.tools.fleet import Fleet, use_of
from bolide.lab.trial.process import NotReadyError, Process, free_port, port_range

CONNECTIONS = 64
"""Connections of the first load, with a request on each; a fleet has at most as many agents."""
LOAD_S_MAX = 180.0
"""How long it may take: a minute for agents that join, and some time for each to connect."""


def joined(
    fleet: Fleet, address: str, server_cpus: tuple[int, ...], load_cpus: tuple[int, ...]
) -> Joined:
    """Have the agents load a fixed response at an address of this machine; return who they are.

    Raises:
        ConfigError: the fleet cannot be used, or an agent does not reach the address.
        Error: the load does not end.
    """
    port = free_port(address)
    where = ["--host", address, "--port", str(port)]
    with temporary.new(TRIAL_PREFIX) as folder:
        ceiling = [sys.executable, "-m", "bolide", "ceiling", *where]
        with _process(ceiling, server_cpus, folder, "server") as server:
            try:
                server.wait_ready((address, port))
            except NotReadyError as error:
                raise ConfigError(f"no server can listen at {address}:{port}: {error}") from None
            load = Load(
                url=f"http://{address}:{port}/",
                connections=CONNECTIONS,
                requests_total=CONNECTIONS,
                duration_s=None,
                fleet=fleet,
            )
            return _loaded(fleet, address, load, load_cpus, folder)


def _loaded(
    fleet: Fleet, address: str, load: Load, load_cpus: tuple[int, ...], folder: Path
) -> Joined:
    tool = find("bolide")
    with _process(tool.command(load), load_cpus, folder, "tool") as process:
        end = time.monotonic() + LOAD_S_MAX
        while process.exit_code is None:
            if time.monotonic() > end:
                raise Error(f"the agents did not load {load.url} within {LOAD_S_MAX:.0f} s")
            process.wait(1.0)
        code = process.exit_code
    errors = (folder / "tool-errors").read_text(encoding="utf-8", errors="replace")
    try:
        report = tool.parsed(
            (folder / "tool").read_text(encoding="utf-8", errors="replace"), errors, code
        )
    except ToolError:
        raise ConfigError(_refused(errors, address)) from None
    use = msgspec.convert(use_of(report), schema.FleetUse)
    silent = [each for each in use.agents if not each.ok]
    if silent:
        names = ", ".join(each.machine.name for each in silent)
        reasons = "; ".join(each.lost for each in silent if each.lost)
        said = f"; {reasons}" if reasons else ""
        raise ConfigError(
            _refused(f"agents without a response from {load.url}: {names}{said}", address)
        )
    agents = tuple(each.machine for each in use.agents)
    known = replace(fleet, count=len(agents))
    return Joined(known, schema.Fleet(where=fleet.where, server_address=address, agents=agents))


def _refused(said: str, address: str) -> str:
    """Return what `bolide load` said in its last line, with the remedy if agents cannot connect."""
    lines = [line for line in said.splitlines() if line.strip()] or ["it said nothing"]
    reason = lines[-1].removeprefix("bolide: error: ")
    if address not in reason or not reason.startswith("agent"):
        return reason
    first, last = port_range()
    return (
        f"the load of a first request failed: {reason}. Servers of a race listen at {address} on"
        f" ports from {first:,} to {last - 1:,}: its firewall has to let agents connect there, and"
        " each agent has to be started with an --allow (and --port) that contains it"
    )


def _process(command: list[str], cpus: tuple[int, ...], folder: Path, name: str) -> Process:
    return Process(
        command,
        cpus=cpus,
        folder=folder,
        log=folder / name,
        errors=folder / f"{name}-errors",
        variables={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
