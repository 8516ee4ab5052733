"""Handlers do their own I/O on the loop that serves HTTP, by asyncio and by anyio."""

from __future__ import annotations

import pytest

from support.client import Connection
from support.loops import Serving
from support.probe import probes

pytestmark = pytest.mark.slow

STAGES = ("first", "later")
CHECKS = [(file, name) for file in ("aio_io.py", "aio_anyio.py") for name in probes(file)]


def check(client: Connection, stage: str, name: str) -> None:
    reply = client.get(f"/{stage}/{name}")
    assert (reply.status, reply.content.decode()) == (200, "ok")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("file", "name"), CHECKS)
def test_check(serving: Serving, file: str, name: str, stage: str) -> None:
    if file == "aio_anyio.py":
        pytest.importorskip("anyio")
        pytest.importorskip("sniffio")
    with serving(file).connect() as client:
        check(client, stage, name)


def test_checks_do_not_disturb_each_other(serving: Serving) -> None:
    """All that do not change the process run at the same time on connections of their own."""
    names = [name for name in probes("aio_io.py") if name != "signals"] * 3
    clients = [serving("aio_io.py").connect() for _ in names]
    try:
        for name, client in zip(names, clients, strict=True):
            client.send(f"GET /first/{name} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        assert [client.read().content for client in clients] == [b"ok"] * len(names)
    finally:
        for client in clients:
            client.socket.close()
