"""What an agent may load: set where the agent is started, and checked there for every order.

A target's name is resolved here, and the address that is checked is the one that the generator
connects to, so that no other resolution comes between.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass, field

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
RUN_HOURS_MAX = 12
RUN_S_MAX = RUN_HOURS_MAX * 3600.0
"""No run is longer: its result has a histogram for each second, and would be too long to send."""
THREADS_A_PROCESSOR = 4
"""More threads than this only take each other's time."""
OUTSTANDING_MAX = 1_000
"""Requests of one connection at a time, in a pipeline or in streams."""
CONTENT_BYTES_MAX = 64 << 20
"""Content of all requests of an order together."""
CONNECT_S = 5.0


class RefusedError(Error):
    """An order that exceeds the limits, in one line."""


def default_threads_max() -> int:
    """Return how many threads a load may have on this machine, without an option."""
    return THREADS_A_PROCESSOR * len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one agent, for each run."""

    allowed: tuple[Network, ...] = LOOPBACK
    connections_max: int = CONNECTIONS_MAX
    duration_s_max: float = DURATION_S_MAX
    threads_max: int = field(default_factory=default_threads_max)
    ports: frozenset[int] = frozenset()
    """The ports that may be loaded; empty: all."""
    rate_per_s_max: float | None = None

    def as_message(self) -> wire.Limits:
        """Return them for the coordinator, which shows them."""
        return wire.Limits(
            allowed=[str(each) for each in self.allowed],
            ports=sorted(self.ports),
            connections_max=self.connections_max,
            threads_max=self.threads_max,
            duration_s_max=self.duration_s_max,
            rate_per_s_max=self.rate_per_s_max,
        )

    def check(self, order: Order) -> None:
        """Check everything except the target's address.

        Raises:
            RefusedError: the order exceeds a limit.
        """
        if self.ports and order.port not in self.ports:
            ports = ", ".join(map(str, sorted(self.ports)))
            raise RefusedError(f"port {order.port} is not one that it may load (--port): {ports}")
        self._check_size(order)
        self._check_rate(order)

    def _check_size(self, order: Order) -> None:
        """Check what the order takes of this machine."""
        if order.own_connections > self.connections_max:
            raise RefusedError(
                f"{order.own_connections:,} connections are more than its --connections-max "
                f"{self.connections_max:,}"
            )
        if order.least_s > self.duration_s_max:
            raise RefusedError(
                f"{order.least_s:,.1f} s are longer than its --duration-max "
                f"{self.duration_s_max:,.1f} s"
            )
        if order.threads > self.threads_max:
            raise RefusedError(
                f"{order.threads:,} threads are more than its --threads-max {self.threads_max:,}"
            )
        depth = order.websocket.depth if order.websocket else 1
        outstanding = max(order.pipeline_depth, order.streams, depth)
        if outstanding > OUTSTANDING_MAX:
            raise RefusedError(
                f"{outstanding:,} requests at a time on a connection are more than the "
                f"{OUTSTANDING_MAX:,} of an agent"
            )
        content_bytes = sum(len(each.content or b"") for each in order.requests)
        if order.websocket:
            content_bytes += order.websocket.message_bytes
        if content_bytes > CONTENT_BYTES_MAX:
            raise RefusedError(
                f"{content_bytes:,} bytes of content are more than the {CONTENT_BYTES_MAX:,} of an "
                "agent"
            )

    def _check_rate(self, order: Order) -> None:
        """Check the agent's own rate, which a load without a rate does not have."""
        if self.rate_per_s_max is None:
            return
        rate_per_s = order.own_rate_per_s
        if rate_per_s is None:
            raise RefusedError(
                "a load without a rate may exceed its --rate-max; give --rate, or stages of rates"
            )
        if rate_per_s > self.rate_per_s_max:
            raise RefusedError(
                f"{rate_per_s:,.1f} requests/s are more than its --rate-max "
                f"{self.rate_per_s_max:,.1f}"
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
