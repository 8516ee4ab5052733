"""50 changes under load: what clients sent and got, and what the application began and ended."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from support.client import Connection
from support.server import Server, Start, clean_environ

pytestmark = pytest.mark.alone

CHANGES = 50
APP = """
import asyncio, os
import bolide

app = bolide.App()
LEDGER = os.open("ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

@app.get("/")
def index(request):
    return "hello"

@app.post("/count/{{number}}")
async def count(request, number):
    os.write(LEDGER, f"began {{number}}\\n".encode())
    length = len(await request.body())
    await asyncio.sleep(0.01)
    os.write(LEDGER, f"ended {{number}}\\n".encode())
    return f"{version} {{number}} {{length}}"
"""


class Client:
    """Sends one numbered request after the other, none of them twice."""

    def __init__(self, server: Server, name: str, *, is_kept: bool) -> None:
        self.server, self.name, self.is_kept = server, name, is_kept
        self.sent: list[str] = []
        self.responded: list[str] = []
        self.versions: list[int] = []
        self.failures: list[str] = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        try:
            while not self.over.is_set():
                with Connection(self.server.address) as connection:
                    while self.exchange(connection) and self.is_kept and not self.over.is_set():
                        pass
        except Exception as error:
            self.failures.append(repr(error))

    def exchange(self, connection: Connection) -> bool:
        """Send one request; return whether the connection can take another."""
        number = f"{self.name}{len(self.sent)}"
        self.sent.append(number)
        reply = connection.post(f"/count/{number}", b"x" * 1000)
        version, *rest = reply.content.decode().split()
        assert (reply.status, rest) == (200, [number, "1000"]), reply
        self.versions.append(int(version))
        self.responded.append(number)
        return not reply.is_last


def loaded(server: Server, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bolide", "load", server.urls[0], "--rate", "50", *options]
        + ["--duration", "25s", "--json"],
        env=clean_environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_50_changes_under_load_lose_nothing(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(APP.format(version=0))
    server = start("app:app", "--reload", "--h2c", cwd=tmp_path)
    server.wait_line("reload: watching")
    clients = [Client(server, name, is_kept=name in "ab") for name in "abcd"]
    loads = [loaded(server, "--connections", "2", *each) for each in ((), ("--http2",))]
    try:
        for version in range(1, CHANGES + 1):
            other = tmp_path / ".app.py.swp"
            other.write_text(APP.format(version=version))
            other.replace(path)
            server.wait_line("app.py changed$")
            server.wait_line(r"reloaded in \d+\.\d s: 1 worker$")
    finally:
        for client in clients:
            client.over.set()
        for client in clients:
            client.thread.join()
        outputs = [load.communicate(timeout=60) for load in loads]
    for output, errors in outputs:
        assert '"failed": 0' in output, (output, errors)
    assert not [failure for client in clients for failure in client.failures]
    lines = [line.split() for line in (tmp_path / "ledger").read_text().splitlines()]
    began, ended = (Counter(n for what, n in lines if what == kind) for kind in ("began", "ended"))
    sent = Counter(number for client in clients for number in client.sent)
    assert began == ended == sent == Counter(n for client in clients for n in client.responded)
    for client in clients:  # nothing that was replaced comes back
        assert client.versions == sorted(client.versions)
    assert "ERROR" not in "".join(server.lines) and "WARN" not in "".join(server.lines)
