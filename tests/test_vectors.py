"""Runs the protocol cases of HTTP/1 in vectors/ against the real server, over a raw socket.

Each case is sent whole, and again cut in two at a few points that a seed chooses. What comes back
is read by `reply.py`, which shares no code with the server; an echo application reports what the
handler saw. The keys of a case are described in vectors/README.md.
"""

from __future__ import annotations

import random
import re
import select
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.client import Connection, Reply
from support.server import APPLICATIONS, Server

VECTORS = Path(__file__).parents[1] / "vectors"
HTTP_1 = ("rfc9110", "rfc9112")
"""The folders whose cases are bytes of a connection; the others have header blocks of HTTP/2."""
CUTS = 3
GAP_S = 0.004
"""Between the two parts of a cut case: enough for the server to read them apart."""
PROBE = b"GET /probe HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True)
class Case:
    """One protocol case, with the bytes that a client sends."""

    file: str
    facts: dict[str, Any]

    @property
    def sent(self) -> bytes:
        """The bytes of the request or requests."""
        return octets(self.facts["send"])

    def method(self, index: int) -> str:
        """Return the method of the request to which the response of that index belongs."""
        requests = self.facts.get("requests", [])
        if index < len(requests):
            return str(requests[index]["method"])
        return "HEAD" if index == 0 and self.sent.startswith(b"HEAD ") else "GET"


def octets(pieces: str | list[Any]) -> bytes:
    """Join the pieces in which a case gives bytes: text, repeated text, hexadecimal digits."""
    joined = b""
    for piece in [pieces] if isinstance(pieces, str) else pieces:
        if isinstance(piece, str):
            joined += piece.encode("ascii")
        elif "hex" in piece:
            joined += bytes.fromhex(piece["hex"])
        else:
            joined += piece["text"].encode("ascii") * piece.get("times", 1)
    return joined


def read_cases() -> list[Any]:
    """Read every case that concerns a live server."""
    found = []
    for path in sorted(path for rfc in HTTP_1 for path in (VECTORS / rfc).glob("*.toml")):
        name = str(path.relative_to(VECTORS))
        for facts in tomllib.loads(path.read_text())["case"]:
            if facts.get("live", True):
                found.append(pytest.param(Case(name, facts), id=f"{name}:{facts['id']}"))
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Return the server with the echo application, one for all cases."""
    running = Server(["echo.py", "--port", "0", "--log-level", "info"], APPLICATIONS).wait_ready()
    yield running
    running.close()


@pytest.mark.parametrize("case", read_cases())
def test_case(server: Server, case: Case) -> None:
    sent = case.sent
    points = range(1, len(sent))
    chosen = random.Random(case.facts["id"]).sample(points, min(CUTS, len(points)))  # noqa: S311
    for cut in (0, *sorted(chosen)):
        try:
            exchange(server, case, sent[:cut], sent[cut:])
        except (AssertionError, TimeoutError) as error:
            how = f"cut after {cut} of {len(sent)} bytes" if cut else "sent whole"
            raise AssertionError(f"{how} ({case.facts.get('why', '')}): {error}") from error


def exchange(server: Server, case: Case, first: bytes, second: bytes) -> None:
    """Send the two parts on a new connection and judge what comes back."""
    with Connection(server.address, timeout_s=5) as client:
        if first:
            send(client, first)
            select.select([client.socket], [], [], GAP_S)
        send(client, second)
        if case.facts.get("half_close"):
            client.socket.shutdown(1)
        expected = case.facts.get("status", [])
        replies = [client.read(case.method(index)) for index in range(len(expected))]
        assert [reply.status for reply in replies] == expected
        judge_interim(client, case, replies)
        judge_requests(case, replies)
        judge_end(client, case, replies)


def send(client: Connection, data: bytes) -> None:
    """Send, unless the server has closed already: then the response is there to be judged."""
    try:
        client.send(data)
    except (BrokenPipeError, ConnectionResetError):
        pass


def judge_interim(client: Connection, case: Case, replies: list[Reply]) -> None:
    """Check the interim responses; a 100 that a client asked for may come though it need not."""
    expected = case.facts.get("interim", [])
    seen = [status for reply in replies for status in reply.interim]
    if not replies:
        seen = [client.read_head().status for _ in expected]
    may_come = b"HTTP/1.1" in case.sent and b"100-continue" in case.sent.lower()
    assert seen == expected or (may_come and set(seen) == {100}), f"interim responses {seen}"


def judge_requests(case: Case, replies: list[Reply]) -> None:
    """Compare what the handler saw with what the case says that was sent."""
    for request, reply in zip(case.facts.get("requests", []), replies, strict=False):
        if "persistent" in request:
            assert reply.is_last != request["persistent"], "persistence is announced wrongly"
        if reply.status != 200 or not reply.content:
            continue
        seen = reply.json()
        assert seen["method"] == request["method"]
        assert seen["target"] == seen_target(octets(request["target"])).decode("latin-1")
        content = octets(request.get("content", "")).decode("latin-1")
        assert seen["content"] == content, f"{len(seen['content'])} bytes of content, or others"
        if "authority" in request:
            assert seen["authority"] == request["authority"]


def seen_target(target: bytes) -> bytes:
    """Return what a handler sees of a target: path and query, the latter only if there is any."""
    path = re.sub(b"^[a-zA-Z]+://[^/?]*", b"", target)
    if path != target and not path.startswith(b"/"):
        path = b"/" + path
    return path.removesuffix(b"?")


def judge_end(client: Connection, case: Case, replies: list[Reply]) -> None:
    """Check that the connection ended, or that it still serves, as the case says."""
    if case.facts["close"]:
        if not replies and not client.is_at_end():
            assert client.read().status in (400, 408)
        assert not replies or replies[-1].is_last, "the last response does not announce the end"
        assert client.is_closed(), "bytes after the last response"
    elif replies and not case.facts.get("half_close"):
        client.send(PROBE)
        reply = client.read()
        assert reply.json()["target"] == "/probe", "the connection lost its place"
        assert client.is_closed()
    else:
        assert not select.select([client.socket], [], [], GAP_S)[0], "a response, or the end"
