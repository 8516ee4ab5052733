"""Options about clients and paths: which bits of an address are a client, and bounds by path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bolide.config.option import Number
from bolide.config.row import CORE_NUMBER_MAX, REQUESTS, row
from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.config.settings import Settings

BOUNDS = {
    "body_bytes_max": Number(1, CORE_NUMBER_MAX, unit="bytes"),
    "handler_timeout_ms": Number(0, CORE_NUMBER_MAX, "0 = off", unit="milliseconds"),
}
"""What a path may have instead of the server's."""
FORM = "a prefix and bounds, such as '/upload body_bytes_max=1G handler_timeout_ms=300000'"


@dataclass(frozen=True, slots=True)
class PathLimit:
    """Bounds of the paths that a prefix covers; None is the server's."""

    prefix: str
    body_bytes_max: int | None = None
    handler_timeout_ms: int | None = None

    def __str__(self) -> str:
        """Return the text that means it."""
        bounds = [(name, getattr(self, name)) for name in BOUNDS]
        given = [f"{name}={value}" for name, value in bounds if value is not None]
        return " ".join((self.prefix, *given))


@dataclass(frozen=True, slots=True)
class PathLimits:
    """Any number of prefixes with bounds; text separates them by commas."""

    metavar: str = "'PREFIX BOUNDS'"

    def parse(self, value: object) -> tuple[PathLimit, ...]:
        """Parse rules, as text or as tables with `prefix`."""
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list | tuple):
            raise ValueError(f"is not a list of limits; give {FORM}")
        limits = tuple(_limit(each) for each in value)
        prefixes = [limit.prefix for limit in limits]
        if twice := [each for each in prefixes if prefixes.count(each) > 1]:
            raise ValueError(f"has {twice[0]} twice; give all its bounds in one place")
        return limits


def _limit(value: object) -> PathLimit:
    if isinstance(value, PathLimit):
        return value
    if isinstance(value, Mapping):
        bounds = {str(name): each for name, each in value.items()}
        prefix = str(bounds.pop("prefix", ""))
    else:
        prefix, *words = str(value).split()
        pairs = [word.partition("=") for word in words]
        bounds = {name.replace("-", "_"): each for name, _, each in pairs}
    if not prefix.startswith("/") or any(character in prefix for character in "?#%\\\0"):
        remedy = "a prefix starts with a slash, and is not percent-encoded"
        raise ValueError(f"has {prefix!r} as a prefix; {remedy}: give {FORM}")
    if any(segment in ("", ".", "..") for segment in prefix.split("/")[1:-1]) or (
        prefix.endswith(("/.", "/..", "//"))
    ):
        raise ValueError(f"has {prefix!r} as a prefix; give one without empty and dot segments")
    if not bounds or bounds.keys() - BOUNDS.keys():
        rule = f"has {prefix} with other bounds than {' and '.join(BOUNDS)}; give {FORM}"
        raise ValueError(rule)
    return PathLimit(prefix, **{name: _bound(name, each) for name, each in bounds.items()})


def _bound(name: str, value: object) -> int:
    try:
        return BOUNDS[name].parse(value)
    except ValueError as error:
        raise ValueError(f"has {name}={value}, which {error}") from None


@dataclass(frozen=True, kw_only=True)  # with slots, it could not be one of several bases
class RequestOptions:
    """The options about single clients and paths."""

    client_ipv6_prefix_bits: int = row(
        64,
        Number(0, 128),
        REQUESTS,
        "How many bits of an IPv6 address are one client, for `client_requests_per_s_max` and "
        "`client_connections_max`. 64 is what a household or a server usually gets; some get 56 "
        "or 48.",
    )
    path_limit: tuple[PathLimit, ...] = row(
        (),
        PathLimits(),
        REQUESTS,
        "Other bounds for a path and those below it, such as '/upload body_bytes_max=1G "
        "handler_timeout_ms=300000'. Each bound is that of the longest prefix that has it. The "
        "flag may be repeated; the variable separates prefixes by commas. Routes of native "
        "applications may have bounds of their own, which come first.",
    )

    def request_options(self) -> dict[str, object]:
        """Return their part of the options of `_core.Server`."""
        return {
            "client_ipv6_prefix_bits": self.client_ipv6_prefix_bits,
            "path_limits": [
                (each.prefix, each.body_bytes_max, each.handler_timeout_ms)
                for each in self.path_limit
            ],
        }


def check(settings: Settings) -> None:
    """Check what belongs together.

    Raises:
        ConfigError: an option does not go with another one.
    """
    limits = ("client_requests_per_s_max", "client_connections_max")
    everyone = [peer for peer in settings.trusted_proxies if peer == "*" or peer.endswith("/0")]
    for name in limits:
        if settings.core[name] and everyone:
            raise ConfigError(
                f"{name} does not go with trusted_proxies {everyone[0]}: any client could name "
                "another address as its own; name the proxies"
            )
    if settings.core["client_burst_max"] and not settings.core["client_requests_per_s_max"]:
        raise ConfigError("client_burst_max needs client_requests_per_s_max")
