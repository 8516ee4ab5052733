"""The studies, and contestants and tools here: what is ready, how the rest is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from bolide.errors import ConfigError
from bolide.lab.matching import fits
from bolide.lab.plan import contestant, environments, how, packages, study
from bolide.lab.plan.contestant import Contestant
from bolide.lab.plan.environments import SetupError
from bolide.lab.record.schema import State
from bolide.lab.tools import TOOLS, Tool


class ToolState(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="tool"):
    """A load generator, and whether it can run here."""

    name: str
    version: str | None
    state: State
    reason: str


class StudyEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="study"):
    """A study, as `bolide race list --json` prints it."""

    name: str
    title: str
    document: str
    rounds: int
    workloads: tuple[str, ...]
    contestants: tuple[str, ...]


def studies() -> list[StudyEntry]:
    """Return the studies that come with Bolide, by name."""
    found = []
    for name in study.names():
        plan = study.load(name)
        entry = StudyEntry(
            name=name,
            title=plan.study.title,
            document=plan.study.document,
            rounds=plan.study.rounds,
            workloads=tuple(each.name for each in plan.study.workloads),
            contestants=tuple(
                each.name for each in contestant.chosen(plan.contestants, contestant.own())
            ),
        )
        found.append(entry)
    return found


def state_of(tool: Tool) -> ToolState:
    """Return whether a tool can run here."""
    state, reason = how.state_of(tool)
    return ToolState(name=tool.name, version=tool.version(), state=state, reason=reason)


def chosen(names: Sequence[str]) -> tuple[list[Contestant], list[Tool]]:
    """Return the contestants and tools of these names, each NAME or PREFIX*; all without a name.

    Raises:
        ConfigError: a name matches none of either.
    """
    known = contestant.own()
    if not names:
        return list(known.values()), list(TOOLS.values())
    tools = [tool for name, tool in TOOLS.items() if any(fits(name, each) for each in names)]
    others = [
        each
        for each in names
        if not any(fits(tool.name, each) for tool in tools) or any(fits(key, each) for key in known)
    ]
    return contestant.chosen(others, known), tools


def instructions(names: Sequence[str]) -> list[str]:
    """Return how contestants or tools are installed and started, line by line.

    Raises:
        ConfigError: a name matches none.
    """
    contestants, tools = chosen(names)
    found = [how.of_contestant(each) for each in contestants] + [how.of_tool(t) for t in tools]
    return [line for each in found for line in each]


def set_up(
    contestants: Sequence[Contestant],
    tools: Sequence[Tool],
    *,
    is_system: bool,
    say: Callable[[str], None],
) -> int:
    """Install what is missing; `is_system` also installs packages of the distribution.

    Returns the number of contestants whose set-up failed; `say` gets the progress and the reasons.

    Raises:
        ConfigError: the packages cannot be installed.
    """
    needed = packages.lacking(contestants, tools)
    if needed and is_system:
        try:
            packages.install(needed, say)
        except SetupError as error:
            raise ConfigError(str(error)) from None
    left = list({each.key: each for each in contestants if _is_to_make(each)}.values())
    failed = 0
    for place, each in enumerate(left, 1):
        say(f"[{place}/{len(left)}] {each.key}")
        try:
            environments.prepare(each, say)
        except SetupError as error:
            failed += 1
            say(f"{each.name}: {error}")
    return failed


def _is_to_make(found: Contestant) -> bool:
    """Return whether it has an environment that does not exist yet, and all that is needed."""
    setup = found.setup
    has_environment = setup.requirements or setup.go or setup.cargo or setup.npm
    is_ready = environments.examine(found).state == "ready"
    return bool(has_environment) and not is_ready and not packages.lacks_packages(found)


def missing(contestants: Sequence[Contestant], tools: Sequence[Tool]) -> list[str]:
    """Return what is not ready, and why, one line each."""
    found = []
    for each in contestants:
        status = environments.examine(each)
        if status.state != "ready":
            found.append(f"{each.name}: {status.state}, {status.reason}")
    states = [state_of(each) for each in tools]
    return found + [f"{t.name}: {t.state}, {t.reason}" for t in states if t.state != "ready"]
