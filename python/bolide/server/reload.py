"""What a reload can change: every option but those whose sockets and files the supervisor has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bolide.errors import ConfigError
from bolide.server.logs import logger

if TYPE_CHECKING:
    from bolide.config.settings import Settings

BOUND = (
    "host",
    "port",
    "uds",
    "uds_mode",
    "uds_owner",
    "uds_group",
    "bind",
    "redirect_to_https",
    "pid_file",
    "management",
    "preload",
)
"""Options that say where the server listens, and what it does before its first worker."""


def unchangeable_kept(now: Settings, read: Settings) -> Settings:
    """Return the options that were read, with the addresses of now.

    Options that stay although they were changed are logged.

    Raises:
        ConfigError: TLS was switched on or off, which changes what is at an address.
    """
    if read.scheme != now.scheme:
        state = "on" if read.scheme == "https" else "off"
        raise ConfigError(f"TLS was switched {state}, which needs a restart")
    kept = {name: getattr(now, name) for name in BOUND}
    changed = [name for name, value in kept.items() if getattr(read, name) != value]
    if changed:
        verb = "was changed, which takes" if len(changed) == 1 else "were changed, which take"
        logger.warning("%s %s effect after a restart", " and ".join(changed), verb)
    return replace(read, **kept)
