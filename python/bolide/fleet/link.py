"""What carries messages between the coordinator and the agents, as the coordinator sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

REPLY_S = 5.0
"""How long a reply may take. One that is late is no loss yet."""
PREPARE_S = 8.0
"""The same for the start of a run: an agent may have to end an earlier one first."""
FETCH_S = 30.0
"""The same for a piece of a result, of which those of all agents may pass through one machine."""


class Link(Protocol):
    """A way to agents, which are known by their addresses."""

    def agents(self) -> dict[str, str]:
        """Return the addresses of all agents with their names, in the order of the names.

        Raises:
            Error: nobody knows them any more.
        """

    def call(
        self, messages: Mapping[str, bytes], timeout_s: float = REPLY_S
    ) -> dict[str, bytes | Exception]:
        """Send each agent its message at the same time; return the replies, or what went wrong.

        A `ConfigError` is what no repetition changes.

        Raises:
            Error: no message can be sent any more.
        """

    def close(self) -> None:
        """Let go of the agents."""
