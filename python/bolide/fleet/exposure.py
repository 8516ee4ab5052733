"""Who can reach an address: only this machine, or others too."""

from __future__ import annotations

import ipaddress
import re
import socket

from bolide.errors import ConfigError

REMEDY = (
    "give the --secret-file of `bolide load` ((umask 077; openssl rand -hex 32 > FILE) makes one), "
    "or use tls://"
)
_SCHEDULER = re.compile(r"(?:tcp|tls)://(?:\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^\s:/@\[\]]+):([0-9]{1,5})")
PORT_MAX = 0xFFFF


def is_scheduler(text: str) -> bool:
    """Return whether a text is `tcp://HOST:PORT`, or the same with `tls`."""
    found = _SCHEDULER.fullmatch(text)
    return found is not None and 0 < int(found[1]) <= PORT_MAX


def host_of(address: str) -> str:
    """Return the host of `tcp://HOST:PORT`, without brackets."""
    return address.partition("://")[2].rpartition(":")[0].strip("[]")


def is_loopback(host: str) -> bool:
    """Return whether a name or an address is only of this machine.

    A name is resolved; one that is unknown is not of this machine.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(str(each[4][0])).is_loopback for each in found)


def refuse_exposed(host: str) -> None:
    """Refuse to listen where others reach an agent without a secret.

    Raises:
        ConfigError: it is not a loopback address.
    """
    if not is_loopback(host):
        raise ConfigError(
            f"everybody who reaches {host} could use this agent, because it has no secret: {REMEDY}"
        )


def refuse_exposed_scheduler(given: str, address: str) -> None:
    """Refuse a scheduler that others reach, and through it an agent without a secret.

    Raises:
        ConfigError: the address that it has itself is not a loopback address.
    """
    if not is_loopback(host_of(address)):
        raise ConfigError(
            f"the scheduler at {given} listens at {address} too, so others could use this agent, "
            f"because it has no secret: {REMEDY}, or start the scheduler with --host 127.0.0.1"
        )
