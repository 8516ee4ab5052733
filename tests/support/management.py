"""Reads the management listener of a server."""

from __future__ import annotations

import re
from typing import Any

from support.client import Connection, Reply
from support.server import Server, Start, as_address

COMMAND = b"Bolide-Command: test\r\n"


class Managed:
    """A server with a management listener."""

    def __init__(self, start: Start, target: str = "basic.py", *options: str, **more: Any) -> None:
        address = more.pop("address", "127.0.0.1:0")
        is_ready = more.get("ready", True)
        self.server: Server = start(
            target, "--management", address, *options, **{**more, "ready": False}
        )
        self.address = as_address(self.server.wait_line(r"management on (\S+)$")[1])
        if is_ready:
            self.server.wait_ready()

    def ask(self, path: str, method: str = "GET", fields: bytes = b"") -> Reply:
        """Make a request."""
        with Connection(self.address) as client:
            host = b"Host: localhost\r\n"
            client.send(f"{method} {path} HTTP/1.1\r\n".encode() + host + fields + b"\r\n")
            reply = client.read(method)
            assert client.is_closed()
            return reply

    def metrics(self) -> dict[str, float]:
        """Return each sample by its name and labels."""
        reply = self.ask("/metrics")
        assert reply.status == 200
        lines = [line for line in reply.content.decode().splitlines() if line[0] != "#"]
        return {name: float(value) for name, value in (re.split(" ", line) for line in lines)}

    def status(self) -> Any:
        """Return the status."""
        return self.ask("/status").json()
