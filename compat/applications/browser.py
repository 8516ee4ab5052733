"""Drives a page in headless Chromium by its debugging protocol, as a person would."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE_S = 60


class Page:
    """A page of the browser."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._asked = 0
        self.websockets: list[str] = []
        """The addresses of the WebSockets that the page has opened."""
        self._ask("Network.enable")

    def open(self, url: str) -> None:
        """Go to an address."""
        self._ask("Page.navigate", url=url)

    def wait(self, expression: str) -> Any:
        """Wait until an expression of JavaScript is true; return its value, or False."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
            if value := found["result"].get("value"):
                return value
            time.sleep(0.1)
        return False

    def run(self, script: str) -> None:
        """Run JavaScript."""
        self._ask("Runtime.evaluate", expression=script)

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._asked += 1
        question = {"id": self._asked, "method": method, "params": parameters}
        self._connection.send(json.dumps(question))
        while (message := json.loads(self._connection.recv(PATIENCE_S))).get("id") != self._asked:
            if message.get("method") == "Network.webSocketCreated":
                self.websockets.append(message["params"]["url"])
        return dict(message.get("result", {}))


@contextmanager
def opened(url: str) -> Iterator[Page]:
    """Open a page in a browser of its own while the block runs."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(
            [str(BROWSER), *options, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port = _port(Path(profile) / "DevToolsActivePort")
            pages = httpx.get(f"http://127.0.0.1:{port}/json/list", timeout=PATIENCE_S).json()
            address = next(each for each in pages if each["type"] == "page")
            address = address["webSocketDebuggerUrl"]
            with connect(address, max_size=None, open_timeout=PATIENCE_S) as connection:
                page = Page(connection)
                page.open(url)
                yield page
        finally:
            browser.terminate()
            browser.wait()


def _port(file: Path) -> int:
    """Wait for the file in which the browser writes its port."""
    end = time.monotonic() + PATIENCE_S
    while not (file.exists() and (lines := file.read_text().splitlines())):
        if time.monotonic() > end:
            raise TimeoutError("Chromium did not start")
        time.sleep(0.1)
    return int(lines[0])
