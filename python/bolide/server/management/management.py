"""The management listener of a supervisor: its sockets are bound first, and closed last."""

from __future__ import annotations

import selectors
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from bolide.config.address import Address
from bolide.errors import ConfigError
from bolide.server import listener
from bolide.server.logs import logger
from bolide.server.management.counts import Tally
from bolide.server.management.listening import Listening
from bolide.server.management.pages import Pages, Server
from bolide.server.management.request import is_loopback
from bolide.server.process.socket_access import SocketAccess

if TYPE_CHECKING:
    from bolide.server.listener import Listener
    from bolide.server.process.takeover import Inherited

OWNER_ONLY = SocketAccess(mode=0o600)
"""Of a UNIX socket: who can connect can stop the server."""
EVERY = ("0.0.0.0", "::")  # noqa: S104 - compared only
LOCAL = ("localhost", "127.0.0.1", "::1")


class Management:
    """Nothing, if the options name no address for it."""

    def __init__(self) -> None:
        self.tally: Tally | None = None
        self.bound: list[Listener] = []
        self._name = ""
        self._listening: Listening | None = None

    def bind(
        self, address: Address | None, served: Iterable[Listener], inherited: Inherited | None
    ) -> None:
        """Bind the address.

        Args:
            address: where to listen; None for nowhere.
            served: where the application is served.
            inherited: what an old process has passed, whose sockets are used if there are any.

        Raises:
            ConfigError: the address is one of those, or in use.
        """
        passed = inherited.management if inherited is not None else ()
        if address is None:
            listener.close_all(listener.open_all(passed))
            return
        if address.fd is not None:
            raise ConfigError(f"management: {address} is a descriptor; give HOST:PORT or unix:PATH")
        for each in served:
            if _is_same(address, each.address):
                public = each.address
                remedy = "choose another one, because clients must not reach it"
                text = f"management: {address} is where the application is served ({public})"
                raise ConfigError(f"{text}; {remedy}")
        self._name = address.host
        self.bound = listener.open_all(passed or [address], OWNER_ONLY)
        self.tally = Tally()

    def open(self, selector: selectors.BaseSelector, server: Server) -> None:
        """Serve, in the loop of this selector.

        Raises:
            ConfigError: another process listens at the address.
        """
        if not self.bound:
            return
        for each in self.bound:
            if each.address.host and not is_loopback(each.address.host):
                text = "everyone who can connect to %s can read the server's metrics and status"
                logger.warning(text, each.address.url)
        self._listening = Listening([*self.bound], Pages(server).serve, self._name)
        self._listening.open(selector)
        logger.info("management on %s", ", ".join(each.address.url for each in self.bound))

    def leave(self) -> None:
        """Leave the sockets to the process that has taken over; requests in flight finish."""
        self.bound[:] = [each.disowned() for each in self.bound]
        if self._listening is not None:
            self._listening.leave()

    def close(self) -> None:
        """Stop listening, and remove the file of a UNIX socket."""
        if self._listening is not None:
            self._listening.close()
        listener.close_all(self.bound)

    def bound_fds(self) -> Iterator[int]:
        """Yield the descriptors of the sockets that listen."""
        yield from (each.socket.fileno() for each in self.bound)

    def fds(self) -> Iterator[int]:
        """Yield the descriptors that a worker closes."""
        yield from self.bound_fds()
        if self._listening is not None:
            yield from self._listening.fds()

    @property
    def due(self) -> float | None:
        """When `do_what_is_due` has something to do."""
        return self._listening.due if self._listening is not None else None

    def do_what_is_due(self, now: float) -> None:
        """Close connections whose time is over."""
        if self._listening is not None:
            self._listening.do_what_is_due(now)


def _is_same(one: Address, other: Address) -> bool:
    """Return whether clients of one address can reach the other."""
    if one.path or other.path:
        return bool(one.path) and listener.is_same_file(one.path, other.path)
    if one.port != other.port or not one.port:
        return False
    hosts = {one.host, other.host}
    return len(hosts) == 1 or bool(hosts & set(EVERY)) or hosts <= set(LOCAL)
