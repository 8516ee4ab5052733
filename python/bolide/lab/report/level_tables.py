"""Tables over the levels of a group: a column for each number of connections.

A group with many of them has a table for each of six figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from bolide.lab.report import quantity
from bolide.lab.report.summary import Figure, Group, Result
from bolide.lab.report.table import (
    LATENCY_DOUBT,
    Cell,
    Line,
    Table,
    about_saturation,
    latency_cell,
    plain_rate_cell,
    served_cell,
)

Pick: TypeAlias = Callable[[Figure], Cell]

LEVELS_MIN = 4
"""Smallest number of levels of connections for which a group has tables over the levels."""

LATENCY = "Latency (p50)"
BLOCKS: dict[str, Pick] = {
    "Requests per second": plain_rate_cell,
    LATENCY: lambda figure: latency_cell(figure, "p50"),
    "Connections served, or in flight (≈)": lambda figure: replace(
        served_cell(figure), text=served_cell(figure).text.removesuffix(" in flight")
    ),
    "Memory": lambda figure: Cell(
        quantity.size(figure.memory_bytes), figure.memory_bytes, kind="num"
    ),
    "Processors busy": lambda figure: Cell(
        quantity.share(figure.server_cpu), figure.server_cpu, kind="num"
    ),
    "Errors": lambda figure: Cell(
        quantity.count(figure.failed), figure.failed, kind="num bad" if figure.failed else "num"
    ),
}
"""The figures with a table over levels: those of the study of WSGI servers, and fairness."""


def has_levels(group: Group) -> bool:
    """Return whether a group has enough levels for tables over them."""
    return len(group.workloads) >= LEVELS_MIN


def over_levels(result: Result, group: Group) -> list[tuple[str, Table]]:
    """Return a table for each of six figures, with a column for each number of connections."""
    if not has_levels(group):
        return []
    best = [figure.contestant for figure in result.of(group.workloads[0].name)]
    names = {each.name for each in group.workloads}
    there = {name for workload, name in result.figures if workload in names}
    order = list(dict.fromkeys(contestant.name for contestant in [*best, *result.contestants]))
    titles = {contestant.name: contestant.title for contestant in result.contestants}
    columns = ["contestant", *(f"{each.connections:,}" for each in group.workloads)]
    found = []
    for title, pick in BLOCKS.items():
        lines = [
            Line(
                [Cell(titles[name], kind="contestant"), *_level_cells(result, name, group, pick)],
                name,
            )
            for name in order
            if name in there
        ]
        workloads = ("", *(each.name for each in group.workloads))
        shown = (each for (name, _), each in result.figures.items() if name in names)
        note = _about_latencies([*shown]) if title == LATENCY else ""
        found.append((title, Table(columns, lines, note=note, workloads=workloads)))
    return found


def _about_latencies(figures: list[Figure]) -> str:
    """Return what the marks of latencies mean; "" if none has one."""
    doubt = LATENCY_DOUBT if any(each.contradiction for each in figures) else ""
    return " ".join(each for each in (about_saturation(figures), doubt) if each)


def _level_cells(result: Result, name: str, group: Group, pick: Pick) -> list[Cell]:
    figures = (result.figures.get((each.name, name)) for each in group.workloads)
    return [pick(each) if each else Cell(quantity.NONE, kind="num quiet") for each in figures]


def failures(result: Result, group: Group) -> list[str]:
    """Return at which levels of a group each contestant failed, and why."""
    found = []
    for contestant in result.contestants:
        lost = [result.figures.get((each.name, contestant.name)) for each in group.workloads]
        failed = [each for each in lost if each and each.rate is None]
        if failed:
            levels = ", ".join(f"{each.workload.connections:,}" for each in failed)
            what = "failed" if failed[0].absence == "failed" else "has no figure"
            found.append(f"{contestant.title} {what} at {levels} connections: {failed[0].reason}")
    return found
