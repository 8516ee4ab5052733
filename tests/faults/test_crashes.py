"""Workers and supervisors that end, in every way in which processes do."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.conftest import Matrix, scaled
from faults.ledger import Comparison, Outcome
from faults.traffic import Traffic, exchange
from support.client import Connection
from support.server import Server, Start, wait_for_end
from support.waiting import wait_until

pytestmark = pytest.mark.alone


def wait_responses(matrix: Matrix, more: int) -> None:
    """Wait until clients have so many more complete responses."""
    entries = matrix.ledger.entries

    def complete() -> int:
        return sum(entry.outcome is Outcome.COMPLETE for entry in list(entries))

    most = complete() + more
    wait_until(lambda: complete() >= most, patience_s=30)


def responds_to_a_new_client(server: Server, matrix: Matrix, known: set[int]) -> bool:
    """Return whether another process than those responds to a new client."""
    with server.connect() as client:
        [entry] = exchange(client, matrix.ledger, "/quick")
    return entry.responder not in known | {None}


def lost_by(compared: Comparison, killed: set[int]) -> int:
    """Return how many were lost to workers that were not killed, as far as that is known."""
    return sum(entry.responder not in killed | {None} for entry in compared.lost)


@pytest.mark.timeout(180)
def test_a_worker_is_killed_every_two_seconds(matrix: Matrix) -> None:
    """Row 1: each kill costs what that worker had begun, and nothing else."""
    server = matrix.start("native", "--workers", "4")
    kills, killed, back_s = scaled(20, 3), set[int](), []
    clients = 16
    with Traffic(server, matrix.ledger) as traffic:
        traffic.add(clients, "/work?ms=20", pause_s=0.005)
        for kill in range(kills):
            next_s = time.monotonic() + 2
            wait_responses(matrix, 50)
            victim = random.Random(kill).choice(server.workers())  # noqa: S311
            before, begun = set(server.workers()), time.monotonic()
            os.kill(victim, signal.SIGKILL)
            killed.add(victim)
            known = before | killed
            wait_until(lambda known=known: responds_to_a_new_client(server, matrix, known))
            back_s.append(time.monotonic() - begun)
            traffic.over.wait(max(0, next_s - time.monotonic()))
        wait_responses(matrix, 50)
    compared = matrix.compare()
    gone = len(compared.lost) + compared.reset
    matrix.record(
        1,
        f"{kills} kills; {compared}; the next one has responded after {max(back_s):.2f} s",
        len(compared.lost),
    )
    assert not compared.wrong
    assert gone <= kills * clients, "more than could be in flight"
    begun_by = dict(line.split()[1:] for line in matrix.path.read_text().splitlines())
    assert {begun_by[e.identity] for e in compared.lost if e.identity in begun_by} <= {
        str(pid) for pid in killed
    }
    assert max(back_s) < 1


HANGS = {
    "loop": "its event loop has been blocked",
    "gil": "GIL",
    "sleep": "its event loop has been blocked",
    "deadlock": "its event loop has been blocked",
    "segfault": "signal",
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("interface", ["native", "asgi"])
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind in ("gil", "segfault") else pytest.mark.matrix)
        for kind in HANGS
    ],
)
def test_an_application_that_does_not_come_back(matrix: Matrix, interface: str, kind: str) -> None:
    """Row 6: others are served, the worker is replaced, its request ends without a response."""
    if interface == "asgi" and scaled(1, 0) == 0:
        pytest.skip("in `make faults`")
    server = matrix.start(interface, "--workers", "2", "--worker-timeout-ms", "1500")
    before = set(server.workers())
    with server.connect() as victim, Traffic(server, matrix.ledger) as traffic:
        entry = matrix.ledger.begin()
        victim.send(f"GET /hang/{kind}?id={entry.identity} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        entry.outcome = Outcome.CLOSED
        wait_until(
            lambda: entry.identity in matrix.path.read_text() if matrix.path.exists() else False
        )
        traffic.add(4, "/work?ms=5", pause_s=0.01)
        server.wait_line(HANGS[kind], timeout_s=30)
        wait_until(lambda: len(before & set(server.workers())) == 1, patience_s=30)
        wait_until(lambda: len(server.workers()) == 2, patience_s=30)
        wait_responses(matrix, 200)
        assert victim.is_closed()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    compared = matrix.compare()
    matrix.record(6, f"{interface}, {kind}: {compared} (the one that hangs)", len(compared.lost))
    assert [each.identity for each in compared.lost] == [entry.identity]
    assert not compared.wrong


def test_a_broken_application_is_started_ever_later_and_serves_once_it_is_fixed(
    start: Start, matrix: Matrix, tmp_path: Path
) -> None:
    """Row 7: after its import fails, starts follow with growing delays; the sibling serves."""
    (tmp_path / "app.py").write_text(
        "import sys\nfrom pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[1] / 'applications/faults')!r})\n"
        "if Path('broken').exists(): raise ValueError('of the test')\n"
        "from native import app\n"
    )
    server = matrix.start("app", "--workers", "2", cwd=tmp_path)
    with Traffic(server, matrix.ledger) as traffic:
        traffic.add(4, "/quick", pause_s=0.01)
        wait_responses(matrix, 20)
        traffic.over.set()
        delays_s = failures(server, tmp_path)
    with Traffic(server, matrix.ledger) as traffic:
        traffic.add(4, "/quick", pause_s=0.01)
        wait_responses(matrix, 50)
        (tmp_path / "broken").unlink()
        wait_until(lambda: len(server.workers()) == 2, patience_s=40)
        wait_responses(matrix, 50)
    compared = matrix.compare()
    shown = ", ".join(f"{each:.1f}" for each in delays_s)
    matrix.record(7, f"{compared}; delays of {shown} s", len(compared.lost))
    assert not compared.lost and not compared.wrong
    assert delays_s == sorted(delays_s) and delays_s[-1] > delays_s[0]


def failures(server: Server, folder: Path) -> list[float]:
    """Kill a worker whose successors cannot be imported; return the announced delays."""
    (folder / "broken").touch()
    os.kill(server.workers()[0], signal.SIGKILL)
    return [float(server.wait_line(r"in (\d+\.\d) s")[1]) for _ in range(4)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_supervisor_that_is_killed_takes_its_workers_with_it(
    matrix: Matrix, number: signal.Signals
) -> None:
    """Row 8: workers notice that their supervisor has ended, drain, and free the port."""
    server = matrix.start("native", "--workers", "2")
    workers = server.workers()
    with Traffic(server, matrix.ledger) as traffic:
        traffic.add(8, "/work?ms=50", pause_s=0.01)
        wait_responses(matrix, 50)
        begun = time.monotonic()
        server.signal(number)
        assert all(wait_for_end(pid) for pid in workers)
        ended_s = time.monotonic() - begun
    compared = matrix.compare()
    matrix.record(
        8, f"{number.name}: {compared}; workers ended in {ended_s:.1f} s", len(compared.lost)
    )
    assert not compared.lost and not compared.wrong
    with pytest.raises(ConnectionRefusedError):
        server.connect()


@pytest.fixture
def refused(matrix: Matrix) -> Iterator[Connection]:
    server = matrix.start("native")
    with server.connect() as connection:
        yield connection


def test_a_ledger_notices_what_is_lost(matrix: Matrix, refused: Connection) -> None:
    """The comparison itself: an entry without a response that the application has begun."""
    [entry] = exchange(refused, matrix.ledger, "/quick")
    assert not matrix.compare().lost
    entry.outcome = Outcome.CLOSED
    assert matrix.compare().lost == [entry]
    entry.outcome, entry.status = Outcome.COMPLETE, 503
    assert matrix.compare().wrong
