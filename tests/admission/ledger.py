"""What the application that is served has begun and finished."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from support.server import Server, Start
from support.waiting import wait_until


class Ledger:
    """The file that the application writes to."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger"
        self.path.touch()

    def serve(self, start: Start, *options: str) -> Server:
        """Start a server for it."""
        return start("admission/ledger.py", *options, env=self.env)

    @property
    def env(self) -> dict[str, str]:
        """The variable that names the file."""
        return {"LEDGER": str(self.path)}

    def all(self, what: str) -> Counter[str]:
        """Return how often each request was begun, or finished."""
        lines = [line.split(" ", 1) for line in self.path.read_text().splitlines()]
        return Counter(name for word, name in lines if word == what)

    def wait_begun(self, *names: str) -> None:
        """Wait until these requests run."""
        wait_until(lambda: not {*names} - self.all("begun").keys())
