"""What the terminal shows at the end of a race: a warning of noise, and the document's table."""

from __future__ import annotations

from typing import Literal

from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Column
from rich.table import Table as Grid
from rich.text import Text

from bolide.lab.report import claims, document_tables, fleet, open_loop
from bolide.lab.report.requirement import rows
from bolide.lab.report.summary import Race, Result
from bolide.lab.report.table import Cell, Table

STYLES = {"bad": "red", "struck": "strike", "quiet": "dim"}
"""Styles of kinds of cells."""


def of_document(result: Result) -> list[RenderableType]:
    """Return the document's table, remarks on it, and the verdict on its claims.

    There is no table if nothing published was run.

    The terminal shows only the first table in which something was measured. The report has all of
    them, with intervals and charts.
    """
    said = claims.sentence(claims.verdicts(result))
    verdict: list[RenderableType] = [Text(), Text(said, "bold")] if said else []
    published = {(each.workload, each.contestant) for each in result.study.published}
    if published.isdisjoint(result.figures):
        return verdict
    tables = document_tables.tables(result)
    caption, first = next((each for each in tables if _has_figures(each[1])), tables[0])
    title = f"The document's table: {caption}" if caption else "The document's table"
    found: list[RenderableType] = [Text(), *_grid(first, title)]
    for heading, lines in document_tables.sentences(result):
        found += [Text(f"\n{heading}:"), *(Text(f"- {name}{text}") for name, text in lines)]
    return [*found, *verdict]


def of_open_loop(result: Result) -> list[RenderableType]:
    """Return the tables of the open loop; nothing if it was not run."""
    return [
        part
        for caption, each in open_loop.tables(result)
        for part in (Text(), *_grid(each, caption))
    ]


def of_requirements(result: Result) -> list[RenderableType]:
    """Return the table of what must be reached; nothing if the study has no such rows."""
    tables = rows.tables(result)
    return [part for caption, each in tables for part in _grid(each, caption)]


def of_fleet(race: Race) -> list[RenderableType]:
    """Return the table of the agents that generated the load; nothing if there are none."""
    table = fleet.table(race)
    if table is None:
        return []
    return [Text(), *_grid(table, "Agents"), Text(fleet.sentence(race), "dim")]


def _has_figures(table: Table) -> bool:
    return any(cell.value is not None for line in table.lines for cell in line.cells)


def of_noise(race: Race) -> list[RenderableType]:
    """Return the banner of a race with many noisy trials; nothing if there are few."""
    if not race.warning:
        return []
    return [Panel(Text(race.warning, "bold red"), border_style="red", expand=False)]


def _grid(table: Table, title: str) -> list[RenderableType]:
    columns = []
    for place, name in enumerate(table.columns):
        heading = Text(name.replace("/", "/\n").replace(": ", ":\n"))
        side: Literal["right", "left"] = "right" if table.numeric[place] else "left"
        columns.append(Column(heading, justify=side, overflow="fold"))
    grid = Grid(*columns, box=None, title=Text(title, "table.title"))
    for line in table.lines:
        grid.add_row(*map(_text, line.cells))
    return [grid, Text(table.note, "dim")] if table.note else [grid]


def _text(cell: Cell) -> Text:
    style = next((STYLES[word] for word in cell.kind.split() if word in STYLES), "")
    return Text.assemble((cell.text, style), (f"\n{cell.under}" if cell.under else "", "dim"))
