"""Idle connections: each makes one request and stays open, which shows the memory that it needs."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

from bolide.lab.tools.load import Load, Reading
from bolide.lab.tools.tool import Tool, ToolError

PROGRAM = Path(__file__).with_name("hold_open.py")


class Hold(Tool):
    """Our own program (`hold_open.py`), which opens connections one after another."""

    name = "hold"
    warms_up = False  # memory is measured from the start

    def version(self) -> str | None:
        """Return the version of its interpreter: it comes with Bolide."""
        return sys.version.split()[0]

    def command(self, load: Load) -> list[str]:
        """Return the command line.

        Raises:
            ToolError: the load is not one request on each connection that stays open.
        """
        self.refuse(load, "pipelining", "a rate", "one request per connection", "HTTP/1.0")
        if load.requests_total != load.connections:
            raise ToolError("hold makes one request on each connection: requests_total differs")
        url = urlsplit(load.url)
        content = (load.expected_content or b"").hex()
        words = [url.hostname or "", str(url.port), url.path, str(load.connections), content]
        return [sys.executable, "-I", "-S", str(PROGRAM), *words]

    def read(self, stdout: str, stderr: str, exit_code: int, load: Load) -> Reading:
        """Read what it has counted."""
        report = self.parsed(stdout, stderr, exit_code)
        lost = load.connections - report["ok"]
        return Reading(
            ok=report["ok"],
            failed=lost,
            errors={"not_held": lost} if lost else {},
            requests_per_s=report["ok"] / report["seconds"],
            seconds=report["seconds"],
            requests_sent=load.connections,
        )
