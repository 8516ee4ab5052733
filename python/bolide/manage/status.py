"""The status of a server, as far as these commands know it.

The server may be of another version, or another program: what it does not say is None, a value of
another type is refused, and texts are shown with escapes (`visible`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec


class MalformedError(Exception):
    """What a server sent is no status."""


class SlowRoute(msgspec.Struct, frozen=True):
    """A route, and those of its requests that were slow."""

    route: str
    requests: int
    total_s: float
    since_s: float
    """Since when both are counted, in the server's monotonic time."""


class WorkerStatus(msgspec.Struct, frozen=True):
    """One worker."""

    number: int | None = None
    pid: int | None = None
    state: str | None = None
    age_s: float | None = None
    rss_bytes: int | None = None
    requests: int | None = None
    connections: int | None = None
    busy_s: float | None = None
    slow_routes: tuple[SlowRoute, ...] | None = None


class Results(msgspec.Struct, frozen=True):
    """What became of reloads, or upgrades."""

    results: dict[str, str] = {}
    """`completed` or `failed`, by number."""


class Origin(msgspec.Struct, frozen=True):
    """The process from which this one has taken over."""

    pid: int | None = None
    start_time_s: float | None = None
    upgrade: str | None = None

    @property
    def process(self) -> tuple[int | None, float | None]:
        """Which process it is, as `Status.process`."""
        return self.pid, self.start_time_s


class Status(msgspec.Struct, frozen=True):
    """A server, and its workers."""

    workers: tuple[WorkerStatus, ...]
    version: str | None = None
    pid: int | None = None
    start_time_s: float | None = None
    application: str | None = None
    state: str | None = None
    is_reloading: bool | None = None
    is_upgrading: bool | None = None
    age_s: float | None = None
    exits: dict[str, int] | None = None
    reloads: Results | None = None
    upgrades: Results | None = None
    took_over: Origin | None = None
    options: dict[str, Any] | None = None

    @property
    def process(self) -> tuple[int | None, float | None]:
        """What no two processes have in common; in a container each may have the pid 1."""
        return self.pid, self.start_time_s

    @property
    def requests(self) -> Mapping[int, int]:
        """How many each worker has had, by process id, of those that say so."""
        return {
            each.pid: each.requests
            for each in self.workers
            if each.pid is not None and each.requests is not None
        }


def read(content: bytes) -> Status:
    """Return the status that a server has sent.

    Raises:
        MalformedError: it is none.
    """
    try:
        found = msgspec.json.decode(content, type=Status)
        str(found.options)  # raises RecursionError here, if ever
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedError from error
    return found


def as_json(content: bytes) -> str:
    """Return it as JSON with all that the server has said, also what these commands do not know.

    Raises:
        MalformedError: it is none.
    """
    read(content)
    try:
        return json.dumps(json.loads(content), indent=2)  # which escapes what is not ASCII
    except (ValueError, RecursionError) as error:
        raise MalformedError from error
