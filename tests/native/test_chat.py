"""The example of a chat, in a real Chromium."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.browser import BROWSER
from support.server import Start
from support.waiting import wait_until
from support.websocket import PING, PONG, WebSocket, connect, frame, handshake

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="chromium is not installed"),
    pytest.mark.timeout(120),
    pytest.mark.browser,
]
PATIENCE_S = 60


def said(socket: WebSocket) -> dict[str, str]:
    """Return the next line; a client that listens for long is pinged."""
    while (arrived := socket.frame()).opcode == PING:
        socket.send(frame(PONG, arrived.content))
    line: dict[str, str] = json.loads(arrived.content)
    return line


def test_a_page_and_another_client_chat(start: Start, tmp_path: Path) -> None:
    server = start("sockets/driven_chat.py", "--websocket-origins", "same")

    def last() -> dict[str, object]:
        with server.connect() as client:
            reports = client.get("/reports").json()
            return reports[-1] if reports else {}

    with connect(server) as other:
        other.open("/chat/lobby?name=other")
        assert said(other) == {"name": "other", "text": "joined"}
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
        page = f"{server.urls[0]}/driven"
        browser = subprocess.Popen(
            [str(BROWSER), *options, f"--user-data-dir={tmp_path}", page],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            other.socket.settimeout(PATIENCE_S)
            assert said(other) == {"name": "page", "text": "joined"}
            assert said(other) == {"name": "page", "text": "hello € <b>"}
            other.say("bye")
            assert said(other) == {"name": "other", "text": "bye"}
            assert said(other) == {"name": "page", "text": "left"}
            expected = {
                "status": "closed (1005)",
                "lines": ["page: joined", "page: hello € <b>", "other: bye"],
            }
            wait_until(lambda: last() == expected, PATIENCE_S)
        finally:
            browser.terminate()
            browser.wait()


def test_a_page_of_another_site_is_refused(start: Start) -> None:
    server = start("sockets/driven_chat.py", "--websocket-origins", "same")
    with connect(server) as socket:
        socket.send(handshake("/chat/lobby", "Origin: http://elsewhere.example"))
        assert socket.read().status == 403
