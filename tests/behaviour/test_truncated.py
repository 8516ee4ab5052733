"""A file that becomes shorter while it is sent."""

from __future__ import annotations

import re

import pytest

from support.server import Start

pytestmark = pytest.mark.slow

SENT = [
    ("truncated.py:app", ("--asgi-extensions", "pathsend")),
    ("truncated.py:wsgi", ("--threads", "1")),
    ("truncated.py:wsgi", ("--threads", "2")),
]


@pytest.mark.parametrize(("app", "options"), SENT, ids=["asgi", "wsgi-inline", "wsgi-pool"])
def test_truncated_file_is_a_warning_with_its_name(
    start: Start, app: str, options: tuple[str, ...]
) -> None:
    server = start(f"behaviour/{app}", *options)
    with server.connect() as client:
        client.send(b"GET /file HTTP/1.1\r\nHost: test\r\n\r\n")
        assert client.read_head().get("content-length") == str(64 << 20)
        with server.connect() as other:
            path = other.get("/cut").content.decode()
        assert len(client.read_to_end()) < 64 << 20
    # A name may hold anything, also what would look like another line.
    name = re.escape(path.replace("\n", "\\n"))
    server.wait_line(
        rf"WARN.* the file {name} ended [1-9][0-9]* bytes too early, or could not be read; "
        r"it has 1000 bytes: its response is truncated"
    )
