"""Turns: the servers of a session run at the same time, and are loaded one after another, again.

The speed of a shared machine changes within seconds. Neighbours in time see the same speed, so
their ratio is more exact than their rates.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

from bolide.lab.plan.schedule import Session, Slot
from bolide.lab.record.redaction import redacted
from bolide.lab.record.schema import Trial
from bolide.lab.tools.fleet import InvalidLoadError
from bolide.lab.trial.repeats import Repeats
from bolide.lab.trial.trial import PROBLEMS, Conditions, Run

WARM_UP_S = 0.2
"""How long the tool loads a server before it measures: others ran since its last turn."""
REPEATS_MAX = 2
"""How often a disturbed turn is repeated."""

Runs: TypeAlias = dict[tuple[str, str], Run | Exception]
"""What runs, or why it does not, by workload and contestant."""


def run(
    session: Session,
    conditions: Conditions,
    repeats: Repeats,
    keep: Callable[[Slot, Trial], None],
    ended: Callable[[Trial], None],
) -> None:
    """Run a session. `keep` gets every trial, `ended` the last one of each turn."""
    with ExitStack() as stack:
        runs: Runs = {}
        for slot in session.slots:
            key = (slot.workload.name, slot.contestant.name)
            if key not in runs:
                runs[key] = _started(stack, slot, conditions)
        last = {(slot.workload.name, slot.contestant.name): slot.round for slot in session.slots}
        for slot in session.slots:
            is_last = slot.round == last[slot.workload.name, slot.contestant.name]
            found = _turn(slot, conditions, runs, is_last=is_last)
            keep(slot, found)
            for _ in range(REPEATS_MAX):
                if not found.is_disturbed or not repeats.take():
                    break
                found = _turn(slot, conditions, runs, is_last=is_last)
                keep(slot, found)
            ended(found)


def _started(stack: ExitStack, slot: Slot, conditions: Conditions) -> Run | Exception:
    """Start a server until the stack ends; return why not if it cannot be measured."""
    found = Run(slot, conditions)
    try:
        stack.enter_context(found.running())
    except PROBLEMS as error:
        return error
    if slot.contestant.entry.is_busy_when_idle:
        found.signal(signal.SIGSTOP)
        stack.callback(found.signal, signal.SIGCONT)
    return found


def _turn(slot: Slot, conditions: Conditions, runs: Runs, *, is_last: bool) -> Trial:
    """Load a server once, and verify its responses again after its last turn.

    One that has failed in an earlier turn fails for the same reason.
    """
    key = (slot.workload.name, slot.contestant.name)
    running = runs[key]
    folder = conditions.application.folder if conditions.application else None
    if isinstance(running, Exception):
        return redacted(Run(slot, conditions).failed(running), folder)
    try:
        with _resumed(running, is_busy=slot.contestant.entry.is_busy_when_idle):
            found = running.measured(slot.round)
            if is_last:
                running.check_alive()
    except InvalidLoadError as error:  # which is no failure of the server
        found = Run(slot, conditions).failed(error)
    except PROBLEMS as error:
        runs[key] = error
        found = Run(slot, conditions).failed(error)
    return redacted(found, folder)


@contextmanager
def _resumed(running: Run, *, is_busy: bool) -> Iterator[None]:
    """Resume a server that is stopped between its turns."""
    if not is_busy:
        yield
        return
    running.signal(signal.SIGCONT)
    try:
        yield
    finally:
        running.signal(signal.SIGSTOP)
