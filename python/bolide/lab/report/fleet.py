"""The agents that generated the load of a race: their machines, and what each of them did."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median

from bolide.lab.record.schema import Agent, AgentUse, FleetUse
from bolide.lab.report import quantity
from bolide.lab.report.summary import Race
from bolide.lab.report.table import Cell, Line, Table

COLUMNS = [
    "agent",
    "machine",
    "processors",
    "memory",
    "kernel",
    "Python",
    "trials",
    "lost",
    "CPU",
    "waited",
    "start",
]
NOTE = (
    "Of all trials: the greatest share of the time in which one of its threads worked, or waited"
    " for a processor, and how long after the common start its load started at the latest."
)


def path_of(race: Race) -> str:
    """Return what is between the load and the servers."""
    fleet = race.machine.fleet if race.machine else None
    if fleet is None:
        return "loopback: no network"
    if fleet.is_local:
        return f"{fleet.server_address}, from agents on the same machine: no network"
    return f"a network, to {fleet.server_address}"


def sentence(race: Race) -> str:
    """Return where the load came from, and how well the agents started together; "" if from here.

    The time between their starts is that of the trials in which all of them started.
    """
    fleet = race.machine.fleet if race.machine else None
    if fleet is None:
        return ""
    number = len(fleet.agents)
    said = f"The load came from {number} agent{'s' * (number != 1)} ({fleet.where})."
    uses = [each for each in _uses(race) if each.start_skew_us is not None]
    if not uses:
        return said
    apart = [each.start_skew_us or 0.0 for each in uses]
    known = max(each.start_skew_uncertainty_us or 0.0 for each in uses)
    return (
        f"{said} Their starts were {quantity.time_us(median(apart))} apart at the median of the"
        f" trials and {quantity.time_us(max(apart))} at most, as far as the clocks are known (to"
        f" {quantity.time_us(known)})."
    )


def table(race: Race) -> Table | None:
    """Return a row for each agent of a race, also for one that was started again by another name.

    None if the load came from the race's own machine.
    """
    if race.machine is None or race.machine.fleet is None:
        return None
    known: dict[str, Agent] = {each.name: each for each in race.machine.fleet.agents}
    did: dict[str, list[AgentUse]] = {name: [] for name in known}
    for use in _uses(race):
        for each in use.agents:
            known.setdefault(each.machine.name, each.machine)
            did.setdefault(each.machine.name, []).append(each)
    return Table(COLUMNS, [_line(known[name], uses) for name, uses in did.items()], note=NOTE)


def remarks(race: Race) -> list[tuple[str, str]]:
    """Return what a fleet did not generate, or with another tool, and the study's title."""
    return [(each.study.title, text) for each in race.results for text in each.study.remarks]


def _uses(race: Race) -> list[FleetUse]:
    return [each.fleet for each in race.trials if each.fleet is not None]


def _line(agent: Agent, uses: list[AgentUse]) -> Line:
    lost = sum(each.lost is not None for each in uses)
    model = agent.cpu_model or "unknown"
    return Line(
        [
            Cell(agent.name),
            Cell(agent.host),
            Cell(f"{agent.cpus} × {model}" if agent.cpus else model),
            Cell(quantity.size(agent.memory_bytes)),
            Cell(agent.kernel or "unknown"),
            Cell(agent.python or "unknown"),
            Cell(quantity.count(len(uses)), len(uses), kind="num"),
            Cell(quantity.count(lost), lost, kind="num bad" if lost else "num"),
            _greatest((each.cpu_share for each in uses), quantity.share),
            _greatest((each.waited_share for each in uses), quantity.share),
            _greatest((each.start_late_us for each in uses), quantity.time_us),
        ]
    )


def _greatest(values: Iterable[float | None], text: Callable[[float | None], str]) -> Cell:
    most = max((each for each in values if each is not None), default=None)
    return Cell(text(most), most, kind="num quiet" if most is None else "num")
