"""What applications raise, at every point of a response."""

from __future__ import annotations

import re

import pytest

from faults.conftest import Matrix
from faults.ledger import Outcome
from faults.traffic import Traffic, exchange
from support.server import Server
from support.waiting import wait_until

pytestmark = pytest.mark.slow

KINDS = (
    "Exception",
    "BaseException",
    "SystemExit",
    "KeyboardInterrupt",
    "MemoryError",
    "RecursionError",
)
MOMENTS = {
    "native": ("before", "middle", "close"),
    "asgi": ("before", "start", "middle", "close"),
    "wsgi": ("before", "start", "middle", "close"),
}
COMPLETE = {"before": 500, "start": 500, "close": 200}
"""Where a whole response is possible: nothing is sent before the first part of the content."""


@pytest.mark.parametrize("interface", MOMENTS)
def test_each_exception_ends_its_request_only(matrix: Matrix, interface: str) -> None:
    """Row 5: 500 or a cut response, one traceback, the same worker; others are served."""
    server = matrix.start(interface, "--threads", "8")
    [worker] = server.workers()
    failed = 0
    with Traffic(server, matrix.ledger) as traffic:
        traffic.add(4, "/work?ms=5", pause_s=0.01)
        for kind in KINDS:
            for moment in MOMENTS[interface]:
                seen = failing(matrix, server, f"/raise/{kind}/{moment}")
                expected = COMPLETE.get(moment)
                if interface == "native" and moment == "close":
                    assert seen in (200, Outcome.CUT), (kind, moment, seen)
                else:
                    assert seen == (expected or Outcome.CUT), (kind, moment, seen)
                failed += 1
    wait_until(lambda: "".join(server.lines).count("Traceback") >= failed)
    assert server.workers() == [worker]
    tracebacks = len(re.findall(r"^Traceback", "".join(server.lines), re.M))
    assert tracebacks == failed
    compared = matrix.compare()
    matrix.record(
        5,
        f"{interface}: {failed} exceptions, {tracebacks} tracebacks; {compared}",
        len(compared.lost),
    )
    assert not compared.lost and not compared.wrong and not compared.refused


def failing(matrix: Matrix, server: Server, path: str) -> int | Outcome:
    """Return the status of a whole response, or how the request ended."""
    with server.connect() as connection:
        [entry] = exchange(connection, matrix.ledger, path)
    matrix.ledger.entries.remove(entry)
    assert entry.outcome in (Outcome.COMPLETE, Outcome.CUT), entry
    return entry.status or entry.outcome
