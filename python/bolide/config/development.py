"""The options for development, and what belongs together of them."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bolide.config.option import Paths, Switch
from bolide.config.row import DEVELOPMENT, row
from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.config.settings import Settings

GRACEFUL_MS = 1000
"""The graceful time of a server that reloads changed files, if none is set: a developer waits."""
DRAINING_IDLE_MS = 100
"""How long a drain keeps idle connections then. Meanwhile a browser could get what was changed."""


@dataclass(frozen=True, kw_only=True)  # of several bases, one may have slots
class DevelopmentOptions:
    """The options for development."""

    debug: bool = row(
        False,
        Switch(),
        DEVELOPMENT,
        "Show tracebacks and source to clients on this machine, and switch asyncio's debug mode "
        "on, for development. Only with addresses of loopback: no other TCP address, no UNIX "
        "socket.",
    )
    reload: bool = row(
        False,
        Switch(),
        DEVELOPMENT,
        "Restart the workers when a Python file changes, for development; needs watchfiles: pip "
        "install 'bolide[reload]'. Clients that connect meanwhile wait. graceful_timeout_ms is "
        "then 1000 unless it is set.",
    )
    reload_dir: tuple[str, ...] = row(
        (),
        Paths("DIR"),
        DEVELOPMENT,
        "Folder to watch for `reload`, with those in it, instead of the current one. The flag may "
        "be repeated; the variable separates folders by commas.",
    )
    reload_include: tuple[str, ...] = row(
        (),
        Paths("PATTERN"),
        DEVELOPMENT,
        "Files that restart the workers, besides *.py: a pattern for names such as *.html, for the "
        "end of a path (templates/*.html), or a folder. A name without * is watched even if it is "
        "hidden, such as .env.",
    )
    reload_exclude: tuple[str, ...] = row(
        (),
        Paths("PATTERN"),
        DEVELOPMENT,
        "Files or folders whose changes have no effect, as patterns like those of "
        "`reload_include`. Hidden files, virtual environments, caches, node_modules and the "
        "temporary files of editors are always left out.",
    )


def check(settings: Settings) -> None:
    """Check what belongs together.

    Raises:
        ConfigError: a proxy could not be noticed, whose clients must not see tracebacks.
    """
    if not settings.debug:
        return
    if settings.untrusted_forwarded == "remove":
        text = "debug does not go with untrusted_forwarded=remove"
        raise ConfigError(f"{text}: it needs those fields to notice proxies; leave one of them out")
    if settings.proxy_protocol:
        text = "debug does not go with proxy_protocol"
        raise ConfigError(f"{text}: a proxy's clients would see tracebacks; leave one of them out")


def implied(values: dict[str, Any], given: Collection[str]) -> dict[str, Any]:
    """Return the values that `reload` changes, of those that are not given.

    Raises:
        ConfigError: an option does not fit, or there is no such folder.
    """
    if not values["reload"]:
        return {}
    if values["preload"]:
        text = "reload and preload are both set, but what is imported once cannot change"
        raise ConfigError(f"{text}; leave one of them out")
    for folder in values["reload_dir"]:
        if not os.path.isdir(folder):
            raise ConfigError(f"reload_dir: {folder!r} is not a folder; create it, or give another")
    return {} if "graceful_timeout_ms" in given else {"graceful_timeout_ms": GRACEFUL_MS}
