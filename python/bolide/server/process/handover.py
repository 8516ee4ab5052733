"""What two processes do in an upgrade, as tables: the old one that serves, and the new one.

They exchange messages over a pair of sockets. Each of them can end, hang or be stopped at any
moment, and the clients have a server in any case: the old one drains only when the new one has
everything that could fail, and has just said so.

The old process:

| stage | what happens | then | it |
| --- | --- | --- | --- |
| ALONE | USR2 | STARTING | starts the new one |
| STARTING | `serves` arrives | CONFIRMING | sends `yours` |
| STARTING, CONFIRMING | the time is over, or it is to stop | GIVEN_UP | sends `no` and TERM |
| STARTING, CONFIRMING | the new one closes its socket | GIVEN_UP | waits for its end |
| CONFIRMING | `owns` arrives | LEFT | sends `main`, and drains |
| GIVEN_UP | the time is over, or this process ends | GIVEN_UP | sends KILL |
| STARTING, CONFIRMING, GIVEN_UP | the new one ends | ALONE | goes on |
| LEFT | the new one ends | ALONE | reports that nobody serves |

The new process:

| stage | what happens | then | it |
| --- | --- | --- | --- |
| STARTING | all of its workers serve | OFFERING | sends `serves` |
| OFFERING | `yours` arrives | OWNING | writes the pid file, sends `owns` |
| OFFERING | the time is over | FAILED | stops |
| OFFERING, OWNING | `no` arrives, or it is to stop | FAILED | stops |
| OWNING | `main` arrives, or the time is over | MAIN | owns the files, notifies systemd |
| OFFERING, OWNING | the old one ends | MAIN | the same |

An old process that gives up says so before it ends, so an end without that is a crash: somebody has
to serve then. A new one that owns everything waits for `main` only so that systemd is notified by
one process at a time; the old one reads what has arrived before it gives up.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from enum import Enum, auto

SERVES, OWNS = b"serves", b"owns"
YOURS, NO, MAIN = b"yours", b"no", b"main"
MESSAGE_BYTES_MAX = 64
MESSAGE_S = 10.0
"""Time for the other process to send what takes it milliseconds; a machine that swaps needs more.
"""
REOPEN, RELOAD = ("reopen", "reload")
"""What the old process was asked for meanwhile, and passes on with `main`."""
SIGNALS = {REOPEN: signal.SIGUSR1, RELOAD: signal.SIGHUP}
"""By which it passes that on to a process that has not waited for `main`."""


class Old(Enum):
    """How far the old process is."""

    ALONE = auto()
    STARTING = auto()
    CONFIRMING = auto()
    GIVEN_UP = auto()
    LEFT = auto()


class New(Enum):
    """How far the new process is."""

    STARTING = auto()
    OFFERING = auto()
    OWNING = auto()
    MAIN = auto()
    FAILED = auto()


class Event(Enum):
    """What happens to either of them."""

    BEGUN = auto()
    """The new process was started, or all of its workers serve."""
    SERVES = auto()
    OWNS = auto()
    YOURS = auto()
    NO = auto()
    MAIN = auto()
    CLOSED = auto()
    """The other one has closed its socket."""
    ENDED = auto()
    """The new process has ended."""
    LATE = auto()
    STOPPED = auto()
    """This process is to stop."""


OLD: Mapping[tuple[Old, Event], Old] = {
    (Old.ALONE, Event.BEGUN): Old.STARTING,
    (Old.STARTING, Event.SERVES): Old.CONFIRMING,
    (Old.CONFIRMING, Event.OWNS): Old.LEFT,
    (Old.GIVEN_UP, Event.LATE): Old.GIVEN_UP,
    **{
        (stage, event): Old.GIVEN_UP
        for stage in (Old.STARTING, Old.CONFIRMING)
        for event in (Event.LATE, Event.STOPPED, Event.CLOSED)
    },
    **{
        (stage, Event.ENDED): Old.ALONE
        for stage in (Old.STARTING, Old.CONFIRMING, Old.GIVEN_UP, Old.LEFT)
    },
}
NEW: Mapping[tuple[New, Event], New] = {
    (New.STARTING, Event.BEGUN): New.OFFERING,
    (New.STARTING, Event.STOPPED): New.FAILED,
    (New.OFFERING, Event.YOURS): New.OWNING,
    (New.OFFERING, Event.LATE): New.FAILED,
    (New.OWNING, Event.MAIN): New.MAIN,
    (New.OWNING, Event.LATE): New.MAIN,
    **{
        (stage, event): New.FAILED
        for stage in (New.OFFERING, New.OWNING)
        for event in (Event.NO, Event.STOPPED)
    },
    **{(stage, Event.CLOSED): New.MAIN for stage in (New.OFFERING, New.OWNING)},
}


def main_message(waiting: Iterable[str]) -> bytes:
    """Return the message with which the old process leaves, and what is left to do."""
    return b" ".join([MAIN, *(each.encode() for each in waiting)])


def event_of(message: bytes) -> tuple[Event | None, frozenset[str]]:
    """Return what a message means, and what is left to do; None if it means nothing."""
    events = {
        SERVES: Event.SERVES,
        OWNS: Event.OWNS,
        YOURS: Event.YOURS,
        NO: Event.NO,
        MAIN: Event.MAIN,
        b"": Event.CLOSED,
    }
    first, *rest = message.split(b" ")
    return events.get(first), frozenset(each.decode(errors="replace") for each in rest)
