"""Shows a race on the terminal: its progress, and the tables at the end."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from bolide.lab.inventory import ToolState
from bolide.lab.plan.schedule import Slot
from bolide.lab.record.schema import Contestant, Study, Trial, Workload
from bolide.lab.stats.noise import is_unstable

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
            line = Text.assemble(f"{name} {rate:>12}/s  ", verdict)
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


def league_table(study: Study, trials: Sequence[Trial]) -> Table:
    """Return a table of the medians, with the ratio to the ceiling if that was measured.

    A ~ marks unstable figures, whose rounds differ too much. The report (`bolide race report`) has
    intervals.
    """
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    marks: dict[tuple[str, str], set[str]] = defaultdict(set)
    names: dict[str, None] = {}
    latest = {(each.contestant, each.workload, each.round): each for each in trials}
    for each in latest.values():
        key = (each.contestant, each.workload)
        names[each.contestant] = None
        if each.is_valid and each.requests_per_s is not None:
            rates[key].append(each.requests_per_s)
        else:
            marks[key].add(each.failure.class_ if each.failure else each.verdict)
    measured = {workload for _, workload in rates}
    workloads = [w for w in study.workloads if w.name in measured and not w.maximum]
    headings = (Column(Text(each.name)) for each in workloads)
    table = Table("requests/s", *headings, box=None, title=Text(study.title, "table.title"))
    order = sorted(names, key=lambda name: -_best(rates, name, workloads))
    for name in order:
        table.add_row(Text(name), *(_cell(rates, marks, name, each.name) for each in workloads))
    return table


def _best(
    rates: dict[tuple[str, str], list[float]], name: str, workloads: Sequence[Workload]
) -> float:
    return max(
        (median(rates[name, each.name]) for each in workloads if rates[name, each.name]), default=0
    )


def _cell(
    rates: dict[tuple[str, str], list[float]],
    marks: dict[tuple[str, str], set[str]],
    name: str,
    workload: str,
) -> Text:
    if not rates[name, workload]:
        return Text(", ".join(sorted(marks[name, workload])) or "-", "red")
    rate = median(rates[name, workload])
    ceiling = rates.get(("ceiling", workload))
    share = f" {rate / median(ceiling):5.0%}" if ceiling and name != "ceiling" else ""
    mark = "~" if is_unstable(rates[name, workload]) else ""
    return Text.assemble((mark, "yellow"), f"{rate:,.0f}{share}")
