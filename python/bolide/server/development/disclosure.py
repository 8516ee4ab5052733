"""Where `--debug` is allowed: at addresses that only this machine reaches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from bolide.errors import ConfigError
from bolide.interface.debugging.disclosure import is_loopback

if TYPE_CHECKING:
    from bolide.config.settings import Settings
    from bolide.server.listener import Listener

WARNING = (
    "debug is on: clients on this machine see tracebacks and source (--debug, BOLIDE_DEBUG or the "
    "configuration file); not for production"
)


def check(settings: Settings, listeners: Iterable[Listener]) -> None:
    """Refuse debug at other addresses than those of loopback.

    A UNIX socket is refused too: browsers do not connect to one, but proxies do, and their clients
    may be anywhere.

    Raises:
        ConfigError: there is such an address.
    """
    if not settings.debug:
        return
    for each in listeners:
        if each.address.path or not is_loopback(each.address.host):
            raise ConfigError(
                f"debug shows tracebacks and source, so it is only for addresses of loopback, not "
                f"for {each.address}; listen on 127.0.0.1, or leave debug out"
            )
