"""One run of the engine: starts it, shows its progress, and returns its report.

An interrupt (Ctrl-C) ends the run early; what was measured until then is still reported, also if a
second one arrives meanwhile. A third one gives it up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from bolide import _core
from bolide.errors import ConfigError, Error
from bolide.load.plan import Plan

Report = dict[str, Any]
Result = TypeVar("Result")
END_S = 10.0
"""How long a stopped engine may take to end before it counts as stuck."""


class Engine(Protocol):
    """The interface of `bolide._core.Load`."""

    def start(self) -> None:
        """Start the threads and return."""

    def wait(self, timeout_s: float) -> bool:
        """Wait; return whether the run has ended."""

    def stop(self) -> None:
        """End the run early."""

    def progress(self) -> str:
        """Return the progress since the last call, as JSON."""

    def report(self) -> str:
        """Return the report, as JSON."""


class Display(Protocol):
    """Shows the progress of a run."""

    interval_s: float

    def show(self, progress: dict[str, Any]) -> None:
        """Show the progress."""

    def close(self) -> None:
        """Erase everything that is not a complete line."""


MakeEngine = Callable[[Plan], Engine]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A report, and whether an interrupt ended the run."""

    report: Report
    was_interrupted: bool = False


def run(
    plan: Plan,
    display: Display,
    make_engine: MakeEngine = _core.Load,
    stop_after_s: float | None = None,
) -> Outcome:
    """Run the plan to its end, to an interrupt, or until `stop_after_s` seconds have passed.

    Raises:
        ConfigError: the engine rejects the plan, or the machine cannot execute it.
        Error: the engine does not end.
    """
    try:
        engine = make_engine(plan)
        engine.start()
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(_sentence(error)) from None
    interrupts = []
    try:
        interrupts.append(_watch(engine, display, stop_after_s))
    finally:
        try:
            interrupts.append(_insist(engine.stop)[1])
        finally:
            display.close()
    has_ended, was_interrupted = _insist(lambda: engine.wait(END_S))
    if not has_ended:
        raise Error(f"the load engine did not end within {END_S:.0f} s")
    try:
        return Outcome(json.loads(engine.report()), was_interrupted or any(interrupts))
    except OSError as error:  # of a thread that could not start
        raise ConfigError(_sentence(error)) from None


def _watch(engine: Engine, display: Display, stop_after_s: float | None) -> bool:
    """Show the run until it ends; return whether it was interrupted."""
    end = None if stop_after_s is None else time.monotonic() + stop_after_s
    try:
        while True:
            left_s = display.interval_s if end is None else end - time.monotonic()
            if left_s <= 0 or engine.wait(min(display.interval_s, left_s)):
                return False
            display.show(json.loads(engine.progress()))
    except KeyboardInterrupt:
        return True


def _insist(call: Callable[[], Result]) -> tuple[Result, bool]:
    """Call once more if an interrupt ends the call; return the result, and whether one did."""
    try:
        return call(), False
    except KeyboardInterrupt:
        return call(), True


def _sentence(error: Exception) -> str:
    """Describe in one line what the engine or the machine rejected."""
    if isinstance(error, OSError) and error.strerror:
        return f"cannot start the load: {error.strerror}"
    return str(error).replace("\n", " ")
