"""One row of the option table, and the groups of rows in the documentation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from bolide.config.option import Kind, Number

PREFIX = "BOLIDE_"
APPLICATION, LISTENING, PROCESSES = "Application", "Listening", "Processes"
LOGGING, RESPONDING, TLS, WEBSOCKET = "Logging", "Responding", "TLS", "WebSocket"
PROXIES, REQUESTS, DEVELOPMENT = "Proxies", "Requests", "Development"
GROUPS = (
    APPLICATION,
    LISTENING,
    TLS,
    PROXIES,
    PROCESSES,
    LOGGING,
    REQUESTS,
    RESPONDING,
    WEBSOCKET,
    DEVELOPMENT,
)
"""In the order of the documentation; limits and timeouts follow."""
CORE_NUMBER_MAX = 2**40
"""A tebibyte, or 35 years in milliseconds: more than anyone needs, and sums fit into 64 bits."""
CORE_GROUPS = {
    "limit": "Limits",
    "optional limit": "Limits that are off by default",
    "timeout": "Timeouts",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table."""

    name: str
    kind: Kind
    default: object
    group: str
    help: str
    unit: str = ""

    @property
    def flag(self) -> str:
        """The command's flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.name.upper()


def row(default: object, kind: Kind, group: str, help: str, *, unit: str = "") -> Any:
    """Declare an option as a field of `Settings`."""
    if isinstance(kind, Number):
        kind = replace(kind, unit=unit)
    return field(
        default=default, metadata={"kind": kind, "group": group, "help": help, "unit": unit}
    )


def core_option(name: str, kind: str, default: int, unit: str, help: str) -> Option:
    """Create the row of a number that the core enforces; a limit cannot be switched off."""
    least, note = (1, "") if kind == "limit" else (0, "0 = off")
    number = Number(least, CORE_NUMBER_MAX, note, unit=unit)
    return Option(name, number, default, CORE_GROUPS[kind], help, unit)
