"""Starts a program that serves the plain WSGI application inside a loop of its own."""

from __future__ import annotations

from running import Server


class Guest(Server):
    """A program that serves inside a loop of its own."""

    program = ("wsgi_guest.py",)

    def wait_ready(self) -> Server:
        """Wait until it says that it serves."""
        self.urls = [self.wait_line(r"serving the application on (\S+)$")[1]]
        return self
