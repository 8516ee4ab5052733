"""Lines of the access log about requests whose heads are refused."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from support.server import Start

pytestmark = pytest.mark.slow

HOST = b"Host: test\r\n"
REFUSED = (
    (b"GET /nohost?a=1 HTTP/1.1\r\n\r\n", "GET /nohost?a=1 HTTP/1.1", 400),
    (b"\r\nGET /space HTTP/1.0\r\nHost : test\r\n\r\n", "GET /space HTTP/1.0", 400),
    (b"GET /long HTTP/1.1\r\n" + b"a: " + b"a" * 70_000, "GET /long HTTP/1.1", 431),
    (b"GET /expect HTTP/1.1\r\nExpect: a\r\n" + HOST + b"\r\n", "GET /expect HTTP/1.1", 417),
    (
        b"POST /coding HTTP/1.1\r\nTransfer-Encoding: gzip\r\n" + HOST + b"\r\n",
        "POST /coding HTTP/1.1",
        501,
    ),
    (b"GET /version HTTP/3.0\r\n" + HOST + b"\r\n", "GET /version -", 505),
    (b'GET /\x1b"\xff HTTP/1.1\r\n' + HOST + b"\r\n", r"GET /\x1b\"\xff HTTP/1.1", 400),
    (b"GET /" + b"a" * 20_000, f"GET /{'a' * (8192 - 5)} -", 414),
    (b"G\x1b / HTTP/1.1\r\n\r\n", "-", 400),
    (b"nonsense\r\n\r\n", "-", 400),
    (b"one two three\r\n\r\n", "-", 400),
)


@pytest.mark.parametrize("form", ["combined", "json"])
def test_the_request_line_is_kept(start: Start, tmp_path: Path, form: str) -> None:
    log = tmp_path / "access.log"
    server = start("basic.py", "--access-log", str(log), "--access-log-format", form)
    for sent, _, status in REFUSED:
        with server.connect() as client:
            client.send(sent)
            assert client.read().status == status
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    lines = log.read_text("ascii").splitlines()
    assert len(lines) == len(REFUSED)
    for line, (_, request, status) in zip(lines, REFUSED, strict=True):
        if form == "combined":
            assert f' "{request}" {status} ' in line
            continue
        shown = json.loads(line)
        words = request.encode().decode("unicode_escape").split(" ") if request != "-" else []
        method, target, version = words or ("", "", "-")
        assert [shown[key] for key in ("method", "target", "version", "status")] == [
            method,
            target,
            version,
            status,
        ]
