"""A ledger of requests: what clients sent and got, against what the application began and finished.

A client whose kept connection ends before a byte of its next response asks once more on a new
one, as browsers and proxies do (RFC 9110 section 9.2.2). The application's ledger shows if such a
request had begun before: then it has begun twice, and the ledgers differ.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.client import Connection

Address = tuple[str, int] | str
APP = """
import asyncio, os
import bolide

app = bolide.App()
LEDGER = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

@app.get("/work/{id}")
async def work(request, id):
    os.write(LEDGER, f"began {id}\\n".encode())
    await asyncio.sleep(1 if id.startswith("slow") else 0.02)
    os.write(LEDGER, f"finished {id}\\n".encode())
    return id
"""


class Client(threading.Thread):
    """Makes one request after the other, on kept connections or on new ones, or slow ones."""

    def __init__(self, name: str, where: Callable[[], Address], over: threading.Event) -> None:
        super().__init__()
        self.name = name
        self.sent = 0
        self.repeated = 0
        self.lost: list[str] = []
        self._where = where
        self._over = over
        self._is_kept = name.startswith("kept")
        self._connection: Connection | None = None

    def run(self) -> None:
        """Go on until it is over."""
        while not self._over.is_set():
            number = f"{self.name}-{self.sent}"
            self.sent += 1
            try:
                self._ask(number)
            except (OSError, AssertionError, ValueError) as error:
                self.lost.append(f"{number}: {error!r}")
                self._close()
        self._close()

    def _ask(self, number: str) -> None:
        is_new = self._connection is None
        if self._connection is None:
            self._connection = Connection(self._where(), timeout_s=30)
        line = f"GET /work/{number} HTTP/1.1\r\nHost: test\r\n"
        end = "\r\n" if self._is_kept else "Connection: close\r\n\r\n"
        try:
            self._connection.send((line + end).encode())
            is_over = self._connection.is_at_end()
        except (ConnectionResetError, BrokenPipeError):
            is_over = True
        if is_over:
            self._close()
            assert not is_new, "a new connection was closed"
            self.repeated += 1
            self._ask(number)
            return
        reply = self._connection.read()
        if (reply.status, reply.content) != (200, number.encode()):
            self.lost.append(f"{number}: {reply.status} {reply.content!r}")
        if not self._is_kept or (reply.get("connection") or "").lower() == "close":
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.socket.close()
            self._connection = None


class Ledger:
    """Both sides' books."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger"
        self.path.touch()
        os.chmod(self.path, 0o666)  # noqa: S103 - an application without rights writes it
        (folder / "shop.py").write_text(APP)
        self.environ = {"LEDGER": str(self.path)}
        self.clients: list[Client] = []

    @contextmanager
    def load(self, where: Callable[[], Address], each: int = 3) -> Iterator[None]:
        """Have clients of both kinds make requests meanwhile."""
        over = threading.Event()
        names = [f"{kind}{number}" for kind in ("kept", "new", "slow") for number in range(each)]
        self.clients = [Client(name, where, over) for name in names]
        for client in self.clients:
            client.start()
        try:
            yield
        finally:
            over.set()
            for client in self.clients:
                client.join()

    def finished(self) -> int:
        """Return how many requests the application has finished."""
        return self.path.read_text().count("finished ")

    def check(self) -> None:
        """Compare what clients got with what the application did: nothing is lost or done twice."""
        lost = [each for client in self.clients for each in client.lost]
        assert not lost, lost
        sent = {f"{each.name}-{number}" for each in self.clients for number in range(each.sent)}
        written = Counter(self.path.read_text().splitlines())
        assert written == Counter(
            f"{word} {each}" for each in sent for word in ("began", "finished")
        )
