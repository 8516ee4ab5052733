"""The server under load: URLs with weights, and the address to which they resolve."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from bolide.config.address import Address
from bolide.errors import ConfigError, Error

CONNECT_S = 5.0
FORMS = "http://HOST:PORT/PATH, https://..., ws://..., wss://... or unix:PATH"
PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
"""The schemes and their ports."""
_Parts = tuple[str, str, int, tuple[str, int]]
"""Scheme, host, port, and the target with its weight."""
_WEIGHT = re.compile(r"(.+?)\*([0-9]{1,9})")
_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F))


@dataclass(frozen=True, slots=True)
class Destination:
    """One server and the request targets.

    `address` is where to connect ("127.0.0.1:80", "unix:PATH"), `host` the value of Host, `name`
    and `port` what the user wrote (port 0 for a UNIX socket), `targets` pairs of a request target
    and its weight, `url` the first URL without its weight. `is_secure` means https or wss,
    `is_websocket` ws or wss.
    """

    address: str
    host: str
    name: str
    port: int
    targets: tuple[tuple[str, int], ...]
    url: str
    is_secure: bool = False
    is_websocket: bool = False


def listening(name: str, port: int, url: str) -> str:
    """Return the first address of a name that accepts a connection; `url` is for messages.

    Raises:
        ConfigError: the name is unknown.
        Error: no server listens there.
    """
    try:
        with socket.create_connection((name, port), CONNECT_S) as probe:
            return str(Address(*probe.getpeername()[:2]))
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a host name"
        raise ConfigError(f"{url}: no address for {name!r}: {reason}") from None
    except OSError as error:
        raise Error(f"{url}: cannot connect: {error.strerror or error}") from None


def find(
    urls: tuple[str, ...],
    target: str = "",
    proxy: str = "",
    locate: Callable[[str, int, str], str] = listening,
) -> Destination:
    """Parse the URLs and find the address at which their server listens.

    A name may have several addresses; the first that accepts a connection is used. `locate` finds
    it, from the name, the port and the URL.

    Raises:
        ConfigError: a URL is malformed, a name is unknown, or the URLs name several servers.
        Error: no server listens there.
    """
    if not urls:
        raise ConfigError(f"no URL to load; give {FORMS}")
    for url in urls:
        if any(ord(character) < 0x20 for character in url):
            raise ConfigError(f"{url!r} contains a control character; percent-encode it")
    if urls[0].startswith("unix:"):
        return _local(urls, target, proxy)
    if target:
        raise ConfigError("--target is for unix:PATH; write the target into the URL instead")
    first, *others = (_internet(url) for url in urls)
    _refuse_others(urls, [first, *others])
    scheme, name, port, _ = first
    is_secure, is_websocket = scheme in ("https", "wss"), scheme in ("ws", "wss")
    host = f"[{name}]" if ":" in name else name
    targets = tuple(each[3] for each in (first, *others))
    via = (name, port)
    if proxy and (is_secure or is_websocket):
        raise ConfigError(f"{urls[0]!r} needs a tunnel through the proxy; give an http:// URL")
    if proxy:
        via = _proxy(proxy)
        targets = tuple((f"http://{host}:{port}{path}", weight) for path, weight in targets)
    return Destination(
        address=locate(*via, urls[0]),
        host=host if port == PORTS[scheme] else f"{host}:{port}",
        name=name,
        port=port,
        targets=targets,
        url=_without_weight(urls[0])[0],
        is_secure=is_secure,
        is_websocket=is_websocket,
    )


def _refuse_others(urls: tuple[str, ...], found: list[_Parts]) -> None:
    """Refuse URLs of several servers, and several of WebSockets."""
    for url, other in zip(urls, found, strict=True):
        if other[:3] != found[0][:3]:
            raise ConfigError(
                f"{url!r} names another server than {urls[0]!r}; a run loads only one server"
            )
    if found[0][0] in ("ws", "wss") and len(urls) > 1:
        raise ConfigError(f"{urls[1]!r} is one URL too many: every connection opens one WebSocket")


def _local(urls: tuple[str, ...], target: str, proxy: str) -> Destination:
    if len(urls) > 1 or proxy:
        raise ConfigError(f"{urls[0]!r} must be the only URL; see --request-file for several")
    path = urls[0].removeprefix("unix:")
    if not path:
        raise ConfigError(f"{urls[0]!r} names no path; give unix:PATH")
    if target and not target.startswith("/"):
        raise ConfigError(f"--target: {target!r} does not start with a slash; give one like /index")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CONNECT_S)
        try:
            probe.connect(path)
        except OSError as error:
            raise Error(f"{urls[0]}: cannot connect: {error.strerror or error}") from None
    return Destination(
        address=urls[0],
        host="localhost",
        name=path,
        port=0,
        targets=((_quoted(target or "/"), 1),),
        url=urls[0],
    )


def _internet(url: str) -> _Parts:
    """Return the scheme, the host, the port, and the target with its weight."""
    plain, weight = _without_weight(url)
    try:
        parts = urlsplit(plain)
        port = PORTS.get(parts.scheme, 0) if parts.port is None else parts.port
    except ValueError:
        raise ConfigError(f"{url!r} is not a URL to load; give {FORMS}") from None
    if parts.scheme not in PORTS or not parts.hostname or not 0 < port < 65536:
        raise ConfigError(f"{url!r} is not a URL to load; give {FORMS}")
    if "@" in parts.netloc:
        raise ConfigError(f"{url!r} contains a user; give -H 'Authorization: ...' instead")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return parts.scheme, parts.hostname, port, (_quoted(target), weight)


def _without_weight(url: str) -> tuple[str, int]:
    """Split `URL*3` into the URL and 3."""
    match = _WEIGHT.fullmatch(url)
    if match is None:
        return url, 1
    if int(match[2]) == 0:
        raise ConfigError(f"{url!r} has weight 0; give a whole number from 1 on, or leave it out")
    return match[1], int(match[2])


def _quoted(target: str) -> str:
    """Percent-encode characters that a request target cannot contain (RFC 3986 section 2.1)."""
    try:
        octets = target.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ConfigError(f"{target!a} contains a surrogate; write it as %XX") from None
    return quote(octets, safe=_PRINTABLE)


def _proxy(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise ConfigError(f"{text!r} is not a proxy; give HOST:PORT")
    return host.strip("[]"), int(port)
