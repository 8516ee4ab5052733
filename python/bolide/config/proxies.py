"""Proxies in front of the server: who they are, and which of their fields are believed."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.config.settings import Settings

FORMS = 'networks such as 10.0.0.0/8, addresses, "unix", "*" for every peer, or "none"'
LOOPBACK = ("127.0.0.0/8", "::1", "unix")
"""Peers on the same machine, as uvicorn and gunicorn trust them."""
FIELDS = ("for", "proto", "host", "port", "prefix", "forwarded")
NAMES = {field: f"X-Forwarded-{field.capitalize()}" for field in FIELDS}
NAMES["forwarded"] = "Forwarded"


@dataclass(frozen=True, slots=True)
class Peers:
    """Peers that are trusted: networks, addresses, `unix`; text separates them by commas.

    `*` is every peer, `none` no peer.
    """

    metavar: str = "NETWORKS"

    def parse(self, value: object) -> tuple[str, ...]:
        """Parse peers; return networks in their usual form."""
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
            if not value:
                raise ValueError(f"names no peer; give {FORMS}")
        if not isinstance(value, list | tuple):
            raise ValueError(f"is not a list of peers; give {FORMS}")
        words = [str(each) for each in value]
        if "none" in words and len(words) > 1:
            raise ValueError('has "none" beside others; give it alone')
        return tuple(dict.fromkeys(_peer(word) for word in words if word != "none"))


def _peer(word: str) -> str:
    if word in ("*", "unix"):
        return word
    try:
        network = ipaddress.ip_network(word, strict=False)
    except ValueError:
        raise ValueError(f"has {word!r}, which is not a peer; give {FORMS}") from None
    host = word.partition("/")[0]
    if ipaddress.ip_address(host) != network.network_address:
        remedy = f"give {network} for the network, or {host} for the host"
        raise ValueError(f"has {word!r}, which is a host with the length of a network; {remedy}")
    if network.version == 6 and network.network_address.ipv4_mapped:
        remedy = f"give {network.network_address.ipv4_mapped}, which stands for both forms"
        raise ValueError(f"has {word!r}, which is an address of IPv4 in the form of IPv6; {remedy}")
    return host if network.prefixlen == network.max_prefixlen else str(network)


def check(settings: Settings) -> None:
    """Check what belongs together.

    Raises:
        ConfigError: an option needs another one, or does not go with it.
    """
    if not settings.proxy_protocol:
        return
    if not settings.trusted_proxies:
        raise ConfigError(
            "proxy_protocol needs trusted_proxies: only they may connect; name the proxy's address"
        )
    if settings.redirect_to_https:
        raise ConfigError(
            "proxy_protocol does not go with redirect_to_https, whose addresses do not read it; "
            "have the proxy redirect to https"
        )


def described(settings: Settings) -> str:
    """Say in one line who is trusted, and with what."""
    names = {"unix": "UNIX sockets", "*": "every peer"}
    peers = _listed([names.get(each, each) for each in settings.trusted_proxies])
    fields = _listed([NAMES[each] for each in settings.forwarded_fields])
    if not peers:
        return "no proxy is trusted: Forwarded and X-Forwarded-* are not read"
    believed = f"{fields} are read" if len(settings.forwarded_fields) > 1 else f"{fields} is read"
    if not fields:
        believed = "Forwarded and X-Forwarded-* are not read"
    if settings.proxy_protocol:
        return f"only {peers} may connect, with the PROXY protocol; {believed}"
    return f"{believed} from {peers}" if fields else believed


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
