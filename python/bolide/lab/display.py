"""Shows a race on the terminal: its progress, and the tables at the end."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from bolide.lab.inventory import ToolState
from bolide.lab.plan.schedule import Slot
from bolide.lab.record.schema import Contestant, Trial
from bolide.lab.report.summary import Figure, Result

PIPE_COLUMNS = 160
"""Width of tables if the output is not a terminal."""
COLOURS = {"ready": "green", "needs set-up": "yellow", "cannot run here": "red"}
"""Colours of states."""


def console(*, is_error: bool = False) -> Console:
    """Return a console on a standard stream; tables in a pipe are not truncated."""
    found = Console(stderr=is_error, highlight=False)
    if not found.is_terminal and "COLUMNS" not in os.environ:
        found.width = PIPE_COLUMNS
    return found


class Terminal:
    """The progress of a race; lines of text if standard error is not a terminal."""

    def __init__(self) -> None:
        self.console = console(is_error=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._task = self._progress.add_task("", total=None)

    def note(self, text: str) -> None:
        """Show a remark."""
        self._progress.console.print(Text(text, "dim"), soft_wrap=True)

    def start(self, slots: Sequence[Slot], done: int) -> None:
        """Show the progress bar."""
        if done:
            self.note(f"{done} trials have already been run")
        self._progress.update(self._task, total=len(slots) + done, completed=done)
        self._progress.start()

    def running(self, slot: Slot) -> None:
        """Show that a trial starts."""
        name = f"{slot.contestant.name}, {slot.workload.name}, round {slot.round}"
        self._progress.update(self._task, description=name)

    def ended(self, found: Trial) -> None:
        """Show how a trial ended."""
        name = f"{found.contestant:28} {found.workload:24} {found.round:2}"
        if found.failure is not None:
            failure = found.failure
            line = Text.assemble(name, "  ", (failure.class_, "red"), f": {failure.message}")
        else:
            rate = "?" if found.requests_per_s is None else f"{found.requests_per_s:,.0f}"
            colour = "red" if found.verdict == "errors" else "yellow"
            verdict = (found.verdict, "" if found.is_valid else colour)
            why = f": {found.evidence[0]}" if found.evidence and not found.is_valid else ""
            line = Text.assemble(f"{name} {rate:>12}/s  ", verdict, why)
        self._progress.console.print(line, soft_wrap=True)
        self._progress.advance(self._task)

    def stop(self) -> None:
        """Remove the progress bar."""
        self._progress.stop()


def contestants_table(found: Iterable[Contestant]) -> Table:
    """Return the table of `bolide race list`."""
    name = Column("contestant", no_wrap=True)
    table = Table(name, "interface", "version", "state", "reason", box=None)
    for each in found:
        state, reason = Text(each.state, COLOURS[each.state]), Text(each.reason)
        table.add_row(each.name, each.interface, each.version or "", state, reason)
    return table


def tools_table(found: Iterable[ToolState]) -> Table:
    """Return the table of load generators of `bolide race list`."""
    table = Table(Column("load generator", no_wrap=True), "version", "state", "reason", box=None)
    for each in found:
        state = Text(each.state, COLOURS[each.state])
        table.add_row(each.name, each.version or "", state, Text(each.reason))
    return table


def league_table(result: Result) -> Table:
    """Return a table of the medians, with the share of the ceiling if that was measured.

    A ~ marks unstable figures, whose rounds differ too much, and noisy ones. The report (`bolide
    race report`) has intervals.
    """
    measured = result.study.workloads
    workloads = [each for each in measured if any(one.rate for one in result.of(each.name))]
    headings = (Column(Text(each.name)) for each in workloads)
    title = Text(result.study.title, "table.title")
    table = Table("requests/s", *headings, box=None, title=title)
    best = {each.name: _best(result, each.name) for each in result.contestants}
    for name in sorted(best, key=lambda name: -best[name]):
        figures = (result.figures.get((each.name, name)) for each in workloads)
        table.add_row(Text(name), *(_cell(result, each) for each in figures))
    return table


def _best(result: Result, name: str) -> float:
    figures = (figure for (_, who), figure in result.figures.items() if who == name)
    return max((figure.rate.middle for figure in figures if figure.rate), default=0.0)


def _cell(result: Result, figure: Figure | None) -> Text:
    if figure is None:
        return Text("-", "red")
    if figure.rate is None:
        causes = {each.failure.class_ if each.failure else figure.verdict for each in figure.trials}
        return Text(", ".join(sorted(causes)), "red")
    of = result.of_ceiling(figure)
    share = f" {of.middle:5.0%}" if of else ""
    mark = "~" if {"unstable", "noisy"} & {*figure.marks} else ""
    return Text.assemble((mark, "yellow"), f"{figure.rate.middle:,.0f}{share}")
