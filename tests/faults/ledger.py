"""Two ledgers, of the clients and of the application, and what their comparison says.

A request is lost if a client sent all of it, and got neither a complete response nor a refusal
after which it may safely send it again: a 503, or the end of its connection before the first byte
of a response, for a request that the application has never begun. A refusal is clean if the
connection was closed, not reset.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class Outcome(Enum):
    """How a request ended for its client."""

    COMPLETE = "complete"
    CLOSED = "closed before the first byte"
    RESET = "reset before the first byte"
    CUT = "cut within the response"
    SILENT = "no response in time"
    NOT_SENT = "the request could not be sent as a whole"


@dataclass
class Entry:
    """One request, as its client saw it."""

    identity: str
    sent_bytes: int = 0
    outcome: Outcome = Outcome.NOT_SENT
    status: int | None = None
    errno: int | None = None
    responder: int | None = None
    """The process that responded, or that served the same connection before."""
    content: bytes = b""


class Ledger:
    """What all clients of a test write down."""

    _ledgers = itertools.count(1)

    def __init__(self, prefix: str = "r") -> None:
        self.entries: list[Entry] = []
        self._prefix = f"{prefix}{next(self._ledgers)}-"
        self._count = itertools.count(1)
        self._lock = threading.Lock()

    def begin(self) -> Entry:
        """Write down a request that is about to be sent."""
        with self._lock:
            entry = Entry(f"{self._prefix}{next(self._count)}")
            self.entries.append(entry)
            return entry


@dataclass
class Comparison:
    """What both ledgers together say."""

    sent: int = 0
    complete: int = 0
    refused: int = 0
    """Refused with 503, or closed, and never begun: the client may send it again."""
    reset: int = 0
    """The connection was reset before the application had begun the request."""
    lost: list[Entry] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """What must never be: run twice, a response that the application has not made."""

    def __str__(self) -> str:
        return (
            f"{self.sent:,} sent, {self.complete:,} complete, {self.refused:,} refused, "
            f"{self.reset:,} reset, {len(self.lost):,} lost"
        )


def written(path: Path) -> tuple[Counter[str], Counter[str]]:
    """Read the application's ledger: how often each request was begun, and ended."""
    counts: dict[str, Counter[str]] = {"begun": Counter(), "ended": Counter()}
    for line in path.read_text().splitlines() if path.exists() else ():
        word, identity, _ = line.split(" ")
        counts[word][identity] += 1
    return counts["begun"], counts["ended"]


def compare(clients: Ledger, application: Path, runs_to_end: bool = True) -> Comparison:
    """Compare the ledgers of the clients and of the application.

    `runs_to_end`: a request with a status 200 must have ended in the application.
    """
    begun, ended = written(application)
    result = Comparison()
    for entry in clients.entries:
        name = entry.identity
        if begun[name] > 1:
            result.wrong.append(f"{name} was begun {begun[name]} times")
        if entry.outcome is Outcome.NOT_SENT and not begun[name]:
            continue
        result.sent += 1
        if entry.outcome is Outcome.COMPLETE:
            judge_complete(entry, begun[name], ended[name] or not runs_to_end, result)
        elif begun[name] or entry.outcome in (Outcome.CUT, Outcome.SILENT):
            result.lost.append(entry)
        elif entry.outcome is Outcome.RESET:
            result.reset += 1
        else:
            result.refused += 1
    return result


def judge_complete(entry: Entry, begun: int, is_ended: int, result: Comparison) -> None:
    """Compare a complete response with what the application wrote down."""
    if entry.status == 503:
        result.refused += 1
        if begun:
            result.wrong.append(f"{entry.identity} was refused with 503 and begun")
        return
    result.complete += 1
    if entry.status == 200 and not (begun and is_ended):
        result.wrong.append(f"{entry.identity} has a response and was not begun and ended")
    if entry.status == 200 and entry.identity.encode() not in entry.content.split(b" ")[:1]:
        result.wrong.append(f"{entry.identity} has the response of another: {entry.content[:40]!r}")
