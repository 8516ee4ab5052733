"""Platforms as a service: their port, and their way to stop an application."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path

import pytest

from deploy.files import DEPLOY
from deploy.ledger import Ledger
from support.client import Connection
from support.server import Server, as_address
from support.waiting import wait_until

pytestmark = pytest.mark.slow

BATCH = 100


def test_term_to_every_process_finishes_requests(tmp_path: Path) -> None:
    """Heroku sends TERM to each process of a dyno at once, workers included."""
    ledger = Ledger(tmp_path)
    words = shlex.split((DEPLOY / "paas" / "Procfile").read_text().removeprefix("web: "))
    server = Server(
        [*words[2:], "--workers", "2"], tmp_path, {**ledger.environ, "PORT": "0"}
    ).wait_ready()
    try:
        assert server.urls[0].startswith("http://0.0.0.0:")
        address = as_address(server.urls[0])
        requests = [Connection(address) for _ in range(8)]
        for number, client in enumerate(requests):
            client.send(f"GET /work/slow-{number} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        wait_until(lambda: ledger.path.read_text().count("began ") == len(requests))
        for pid in (server.pid, *server.workers()):
            os.kill(pid, signal.SIGTERM)
        for number, client in enumerate(requests):
            reply = client.read()
            assert (reply.status, reply.content) == (200, f"slow-{number}".encode())
            client.socket.close()
        assert server.wait() == 0, server.errors
    finally:
        server.close()
