"""Shows a race on the terminal: its progress, and the tables at the end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column, Table
from rich.text import Text

from bolide.lab.inventory import ToolState
from bolide.lab.plan import duration
from bolide.lab.plan.duration import Remaining
from bolide.lab.plan.schedule import Slot
from bolide.lab.record.schema import Contestant, Trial
from bolide.lab.report.summary import Figure, Race, Result
from bolide.lab.report.table import NOISY, above_ceiling
from bolide.lab.report.terminal import (
    of_document,
    of_fleet,
    of_noise,
    of_open_loop,
    of_requirements,
)
from bolide.lab.stats.noise import UNSTABLE_SHARE

LINE_S = 60.0
"""How often a line shows the remaining time."""
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
    """The progress of a race; lines of text if standard error is not a terminal.

    With `is_quiet` it shows only remarks.
    """

    def __init__(
        self, *, is_quiet: bool = False, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._now_s = now_s
        self.console = console(is_error=True)
        self._is_quiet = is_quiet
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=self.console,
            disable=is_quiet or not self.console.is_terminal,
        )
        self._task = self._progress.add_task("", total=None, left="")
        self._remaining = Remaining([], 0.0)
        self._number = self._total = 0
        self._shown_s = 0.0

    def note(self, text: str) -> None:
        """Show a remark."""
        self._progress.console.print(Text(text, "dim"), soft_wrap=True)

    def start(self, slots: Sequence[Slot], done: int) -> None:
        """Show the progress bar."""
        if done:
            self.note(f"{done} trials have already been run")
        self._number, self._total = done, len(slots) + done
        self._progress.update(self._task, total=self._total, completed=done)
        self._remaining, self._shown_s = Remaining(slots, self._now_s()), self._now_s()
        self._progress.start()

    def running(self, slot: Slot) -> None:
        """Show that a trial starts."""
        name = f"{slot.contestant.name}, {slot.workload.name}, round {slot.round}"
        self._progress.update(self._task, description=name)

    def ended(self, found: Trial) -> None:
        """Show how a trial ended."""
        if self._is_quiet:
            return
        name = f"{found.contestant:28} {found.workload:24} {found.round:2}"
        if found.failure is not None:
            failure = found.failure
            line = Text.assemble(name, "  ", (failure.class_, "red"), f": {failure.message}")
        else:
            line = Text.assemble(name, *_ending(found))
        self._progress.console.print(line, soft_wrap=True)
        self._progress.advance(self._task)
        self._show_remaining()

    def _show_remaining(self) -> None:
        """Show the remaining time beside the bar; without a bar, as a line each minute."""
        now_s = self._now_s()
        self._number += 1
        self._remaining.end_trial()
        left_s = self._remaining.seconds(now_s)
        if not left_s:
            return
        left = f"{duration.text(left_s)} left"
        self._progress.update(self._task, left=left)
        if not self.console.is_terminal and now_s - self._shown_s >= LINE_S:
            self._shown_s = now_s
            end = duration.clock(datetime.now(), left_s)
            self.note(f"{self._number} of {self._total} trials, {left}, until about {end}")

    def stop(self) -> None:
        """Remove the progress bar."""
        self._progress.stop()


def _ending(found: Trial) -> list[str | tuple[str, str]]:
    """Return the rate of a trial with its verdict; the reason alone if it has no valid rate."""
    if not found.is_valid:
        return ["  ", (found.verdict, "red"), f": {found.evidence[0] if found.evidence else '?'}"]
    rate = "?" if found.requests_per_s is None else f"{found.requests_per_s:,.0f}"
    return [f" {rate:>12}/s  ", (found.verdict, "yellow" if found.verdict == "noisy" else "")]


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


def show_results(race: Race, console: Console) -> None:
    """Print a warning of noise, and the tables of a race.

    These are rates, open loop, document and requirements; with requirements, no other rates.
    """
    for each in of_noise(race):
        console.print(each)
    for result in race.results:
        if not result.study.requirements:
            console.print(league_table(result))
        for each in (*of_open_loop(result), *of_document(result), *of_requirements(result)):
            console.print(each)
    for each in of_fleet(race):
        console.print(each)


def league_table(result: Result) -> Group:
    """Return a table of the medians, with the share of the ceiling if that was measured.

    A ~ marks unstable figures, whose rounds differ too much, a ! noisy ones. The report (`bolide
    race report`) has intervals. Below the table is what the marks mean.
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
    return Group(table, *_legend(result))


def _best(result: Result, name: str) -> float:
    figures = (figure for (_, who), figure in result.figures.items() if who == name)
    return max((figure.rate.middle for figure in figures if figure.rate), default=0.0)


def _legend(result: Result) -> list[Text]:
    """Explain the marks and shares above 100 % that a table of medians has."""
    shown = [*result.figures.values()]
    marks = {mark for each in shown for mark in each.marks}
    said = []
    if "unstable" in marks:
        said.append(f"~ the rounds vary by more than {UNSTABLE_SHARE:.0%}")
    if NOISY in marks:
        said.append("! noisy: other work took processor time, so do not rely on it")
    if above := above_ceiling(result, shown):
        said.append(above)
    return [Text(each, "dim") for each in said]


def _cell(result: Result, figure: Figure | None) -> Text:
    if figure is None:
        return Text("-", "red")
    if figure.rate is None:
        causes = {each.failure.class_ if each.failure else figure.verdict for each in figure.trials}
        return Text(", ".join(sorted(causes)), "red")
    of = result.of_ceiling(figure)
    share = f" {of.middle:5.0%}" if of else ""
    mark = "!" if figure.is_noisy else "~" if "unstable" in figure.marks else ""
    return Text.assemble((mark, "yellow"), f"{figure.rate.middle:,.0f}{share}")
