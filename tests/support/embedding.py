"""A program that serves the plain WSGI application inside an event loop of its own."""

from __future__ import annotations

from support.server import Server


class EmbeddingProgram(Server):
    """A running program; its arguments are the number of threads and the event loop."""

    program = ("wsgi_embedding.py",)

    def wait_ready(self) -> Server:
        """Wait until it says that it serves."""
        self.urls = [self.wait_line(r"serving the application on (\S+)$")[1]]
        return self
