"""What a supervisor is doing, and what it accepts then.

| phase | reload (HUP) | upgrade (USR2) | scale (TTIN, TTOU) | stop |
| --- | --- | --- | --- | --- |
| STARTING | later | later | refused | ENDING |
| SERVING | RELOADING | UPGRADING | SERVING | ENDING |
| RELOADING | RELOADING, from the beginning | later | RELOADING | ENDING |
| UPGRADING | later | refused | refused | ENDING |
| ENDING | refused | refused | refused | ENDING |

STARTING ends when all workers serve and, in an upgrade, when the old process has handed over.
RELOADING and UPGRADING end with SERVING, whether they have succeeded or not; but an old process
that has handed over is ENDING. What is accepted for later begins when the phase is SERVING: an
upgrade first, which reads everything again; if it fails, the reload. What waits when an old process
hands over is passed to the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto


class Phase(Enum):
    """What a supervisor is doing."""

    STARTING = auto()
    SERVING = auto()
    RELOADING = auto()
    UPGRADING = auto()
    """A new process is starting, to take over."""
    ENDING = auto()


class Event(Enum):
    """What is asked of a supervisor, and what happens in it."""

    RELOAD = auto()
    UPGRADE = auto()
    SCALE = auto()
    STOP = auto()
    """Asked for, or because a new process serves."""
    STARTED = auto()
    RELOADED = auto()
    """The reload has ended, whether it failed or not."""
    NOT_UPGRADED = auto()
    """The new process has ended before it has taken over."""


class When(Enum):
    """Whether what is asked is done."""

    NOW = auto()
    LATER = auto()
    """When what the supervisor is doing has ended."""
    NEVER = auto()


TRANSITIONS: Mapping[tuple[Phase, Event], Phase] = {
    (Phase.STARTING, Event.STARTED): Phase.SERVING,
    (Phase.SERVING, Event.RELOAD): Phase.RELOADING,
    (Phase.SERVING, Event.UPGRADE): Phase.UPGRADING,
    (Phase.SERVING, Event.SCALE): Phase.SERVING,
    (Phase.RELOADING, Event.RELOAD): Phase.RELOADING,
    (Phase.RELOADING, Event.SCALE): Phase.RELOADING,
    (Phase.RELOADING, Event.RELOADED): Phase.SERVING,
    (Phase.UPGRADING, Event.NOT_UPGRADED): Phase.SERVING,
    **{(phase, Event.STOP): Phase.ENDING for phase in Phase},
}
LATER = {
    (Phase.STARTING, Event.RELOAD),
    (Phase.STARTING, Event.UPGRADE),
    (Phase.RELOADING, Event.UPGRADE),
    (Phase.UPGRADING, Event.RELOAD),
}
FIRST_OF_LATER = (Event.UPGRADE, Event.RELOAD)
"""In this order they begin."""


class Course:
    """The phase of one supervisor, and what it has accepted for later."""

    def __init__(self) -> None:
        self.phase = Phase.STARTING
        self._later: set[Event] = set()

    @property
    def is_ending(self) -> bool:
        """Whether no worker is started any more."""
        return self.phase is Phase.ENDING

    def when(self, event: Event) -> When:
        """Return whether an event is accepted now. One that is accepted for later is kept."""
        if (self.phase, event) in TRANSITIONS:
            return When.NOW
        if (self.phase, event) in LATER:
            self._later.add(event)
            return When.LATER
        return When.NEVER

    def enter(self, event: Event) -> None:
        """Change the phase, because an event has happened.

        Raises:
            ValueError: it cannot happen in this phase.
        """
        after = TRANSITIONS.get((self.phase, event))
        if after is None:
            raise ValueError(f"{event} cannot happen while {self.phase}")
        self.phase = after

    def waits(self, event: Event) -> bool:
        """Return whether an event was accepted for later and has not begun."""
        return event in self._later

    def take_later(self) -> Event | None:
        """Return what was accepted for later and can begin now, and forget it."""
        for event in FIRST_OF_LATER:
            if event in self._later and (self.phase, event) in TRANSITIONS:
                self._later.remove(event)
                return event
        return None
