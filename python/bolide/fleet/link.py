"""What carries messages between the coordinator and the agents, as the coordinator sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

REPLY_S = 5.0
"""An agent that does not respond for this time is lost."""
PREPARE_S = 30.0
"""Resolving and connecting to a target takes some seconds where packets are lost, and so does the
start of a generator on a busy machine."""


class Link(Protocol):
    """A way to agents, which are known by their addresses."""

    def agents(self) -> list[str]:
        """Return the addresses of all agents.

        Raises:
            Error: nobody knows them any more.
        """

    def call(
        self, messages: Mapping[str, bytes], timeout_s: float = REPLY_S
    ) -> dict[str, bytes | Exception]:
        """Send each agent its message at the same time; return the replies, or what went wrong.

        Raises:
            Error: no message can be sent any more.
        """

    def close(self) -> None:
        """Let go of the agents."""
