"""Objects of one request are used for the next, unless that is turned off."""

from __future__ import annotations

import pytest

from support.server import Start

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("switch", "objects"), [("1", b"2"), ("0", b"1")])
def test_a_request_object_is_kept_for_the_next_request(
    start: Start, switch: str, objects: bytes
) -> None:
    server = start("behaviour/reuse.py", env={"BOLIDE_REUSE": switch})
    with server.connect() as first, server.connect() as second:
        first.send(b"GET /count HTTP/1.1\r\nHost: test\r\n\r\n")
        assert second.get("/serve").content == b"served"
        assert first.read().content == objects


@pytest.mark.parametrize(
    "target", ["behaviour/native.py", "behaviour/asgi.py", "behaviour/wsgi.py"]
)
def test_nothing_else_depends_on_it(start: Start, target: str) -> None:
    server = start(target, env={"BOLIDE_REUSE": "0"})
    with server.connect() as client:
        replies = [client.get("/") for _ in range(50)]
    assert len({(reply.status, reply.content) for reply in replies}) == 1
