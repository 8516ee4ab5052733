"""What an agent may load: set where the agent is started, and checked there for every order.

A target's name is resolved here, and the address that is checked is the one that the generator
connects to, so that no other resolution comes between.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from bolide.config.address import Address
from bolide.errors import ConfigError, Error
from bolide.fleet import wire
from bolide.fleet.wire import Order

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LOOPBACK: tuple[Network, ...] = (
    ipaddress.ip_network("127.0.0.0/8"),
    ipaddress.ip_network("::1/128"),
)
CONNECTIONS_MAX = 10_000
DURATION_S_MAX = 600.0
CONNECT_S = 5.0


class RefusedError(Error):
    """An order that exceeds the limits, in one line."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one agent, for each run."""

    allowed: tuple[Network, ...] = LOOPBACK
    connections_max: int = CONNECTIONS_MAX
    duration_s_max: float = DURATION_S_MAX

    def as_message(self) -> wire.Limits:
        """Return them for the coordinator, which shows them."""
        return wire.Limits(
            allowed=[str(each) for each in self.allowed],
            connections_max=self.connections_max,
            duration_s_max=self.duration_s_max,
        )

    def check(self, order: Order) -> None:
        """Check everything except the target.

        Raises:
            RefusedError: the order exceeds a limit.
        """
        if order.own_connections > self.connections_max:
            raise RefusedError(
                f"{order.own_connections:,} connections are more than its --connections-max "
                f"{self.connections_max:,}"
            )
        length_s = order.length_s
        if length_s is not None and length_s > self.duration_s_max:
            raise RefusedError(
                f"{length_s:,.1f} s are longer than its --duration-max {self.duration_s_max:,.1f} s"
            )

    def allows(self, text: str) -> bool:
        """Return whether an IP address is in an allowed network."""
        address = ipaddress.ip_address(text)
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return any(address.version == each.version and address in each for each in self.allowed)

    def address_of(self, host: str, port: int) -> Address:
        """Resolve a target; return the first allowed address that accepts a connection.

        This blocks for some seconds.

        Raises:
            RefusedError: none of its addresses is allowed, or the name is unknown.
            Error: nobody listens there.
        """
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a host name"
            raise RefusedError(f"no address for {host!r}: {reason}") from None
        allowed = [each for each in found if self.allows(str(each[4][0]))]
        if not allowed:
            addresses = ", ".join(dict.fromkeys(str(each[4][0]) for each in found))
            networks = ", ".join(map(str, self.allowed))
            raise RefusedError(f"{addresses} is not in what it may load (--allow): {networks}")
        reason = ""
        for family, kind, _, _, where in allowed:
            with socket.socket(family, kind) as probe:
                probe.settimeout(CONNECT_S)
                try:
                    probe.connect(where)
                    return Address(str(where[0]), port)
                except OSError as error:
                    reason = error.strerror or str(error)
        raise Error(f"cannot connect to {Address(str(allowed[-1][4][0]), port)}: {reason}")


def network(text: str) -> Network:
    """Parse a network, or an address.

    Raises:
        ConfigError: it is neither.
    """
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ConfigError(
            f"--allow: {text!r} is not a network: {error}; give one like 10.0.0.0/8"
        ) from None
