"""The sockets of a supervisor: those that serve, those that redirect, and the management listener.

They are bound all or none, or come from systemd or from an old process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bolide.server import listener, systemd
from bolide.server.development import disclosure
from bolide.server.logs import logger
from bolide.server.management.management import Management
from bolide.server.process import socket_access

if TYPE_CHECKING:
    from bolide.config.address import Address
    from bolide.config.settings import Settings
    from bolide.server.process.takeover import Inherited


class Sockets:
    """What listens, or will."""

    def __init__(self, settings: Settings, inherited: Inherited | None) -> None:
        """Bind every address.

        Args:
            settings: the options.
            inherited: what an old process has passed, whose sockets are used.

        Raises:
            ConfigError: an address is in use, or not allowed; then none stays bound.
        """
        self.served: list[listener.Listener] = []
        self.redirecting: list[listener.Listener] = []
        self.management = Management()
        access = socket_access.SocketAccess.of(settings)
        try:
            self.served += listener.open_all(_addresses(settings, inherited), access)
            disclosure.check(settings, self.served)
            redirecting: Sequence[Address] = settings.redirect_to_https
            if inherited is not None:
                redirecting = inherited.redirecting
            self.redirecting += listener.open_all(redirecting, access)
            served = (*self.served, *self.redirecting)
            if inherited is None and (line := socket_access.unused(settings, served)):
                logger.warning(line)
            self.management.bind(settings.management, served, inherited)
        except BaseException:
            self.close()
            raise

    def served_fds(self) -> Iterator[int]:
        """Yield the descriptors that workers need."""
        yield from (each.socket.fileno() for each in (*self.served, *self.redirecting))

    def take_files(self, inherited: Inherited) -> None:
        """Own the files of UNIX sockets, because the old process does not any more."""
        for listeners in (self.served, self.redirecting, self.management.bound):
            inherited.take_files(listeners)

    def report_lost_files(self) -> None:
        """Warn of UNIX sockets that no client can find any more."""
        for each in (*self.served, *self.redirecting):
            if each.is_lost:
                text = "the UNIX socket's file %s was removed or replaced, so that no client can "
                logger.warning(text + "connect to it: restart the server", each.address.path)

    def leave(self) -> None:
        """Leave the files, and the management listener, to the process that has taken over."""
        for listeners in (self.served, self.redirecting):
            listeners[:] = [each.disowned() for each in listeners]
        self.management.leave()

    def refuse(self) -> None:
        """Refuse clients from now on, but not those of the management listener."""
        listener.close_all(self.served)
        listener.close_all(self.redirecting)

    def close(self) -> None:
        """Close all of them."""
        self.management.close()
        self.refuse()


def _addresses(settings: Settings, inherited: Inherited | None) -> Sequence[Address]:
    if inherited is not None:
        return inherited.addresses
    passed = [replace(each, scheme=settings.scheme) for each in systemd.passed(os.environ)]
    return passed or settings.addresses
