"""A request to the management listener, and whether it is allowed.

A browser must not reach it on behalf of a page: neither by a name that resolves to this machine
(DNS rebinding), nor by a form or script that posts from elsewhere (CSRF).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

HEAD_BYTES_MAX = 8192
"""Of a request. Monitoring sends a few hundred."""
REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (/[!-~]*) HTTP/1\.([01])")
FIELD_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
FIELD_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
"""With the whitespace around it. One class: a match takes linear time, also when it fails."""
COMMAND_FIELD = "bolide-command"
"""A page cannot send it without asking first, and nothing here allows it."""
NUMBER_FIELD = "Bolide-Number"
"""Has the number of what a command begins, by which the status has its result."""
REASONS = {
    200: "OK",
    202: "Accepted",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Content Too Large",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class RefusedError(Exception):
    """A request that is not served."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """A request without content."""

    method: str
    path: str
    fields: Mapping[str, str]
    """By name in lower case."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response, after which the connection is closed."""

    status: int
    content: bytes
    content_type: str = "text/plain; charset=utf-8"
    fields: Mapping[str, str] = field(default_factory=dict)

    def encoded(self, method: str) -> bytes:
        """Return the whole response to a request with this method."""
        lines = [
            f"HTTP/1.1 {self.status} {REASONS[self.status]}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.content)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            *(f"{name}: {value}" for name, value in self.fields.items()),
            "Connection: close",
            "\r\n",
        ]
        content = b"" if method == "HEAD" else self.content
        return "\r\n".join(lines).encode() + content


def sentence(status: int, text: str, **fields: str) -> Reply:
    """Return a response that consists of a sentence."""
    return Reply(status, f"{text}\n".encode(), fields=fields)


def parse(head: bytes) -> Request:
    """Parse a head, without the empty line after it.

    Raises:
        RefusedError: it is malformed, or announces content.
    """
    first, *rest = head.split(b"\r\n")
    line = REQUEST_LINE.fullmatch(first)
    if line is None:
        raise RefusedError(400, "this is not an HTTP/1.1 request")
    fields: dict[str, str] = {}
    for each in rest:
        raw_name, colon, raw_value = each.partition(b":")
        is_valid = FIELD_NAME.fullmatch(raw_name) and FIELD_VALUE.fullmatch(raw_value)
        if not (colon and is_valid):
            raise RefusedError(400, "a field line is malformed")
        name, value = raw_name.decode().lower(), raw_value.strip(b" \t").decode("latin-1")
        if name == "host" and name in fields:
            raise RefusedError(400, "there are two Host fields")
        fields[name] = value
    if "host" not in fields and line[3] == b"1":
        raise RefusedError(400, "there is no Host field")
    if "transfer-encoding" in fields or fields.get("content-length", "0") != "0":
        raise RefusedError(413, "requests here have no content")
    return Request(line[1].decode(), line[2].decode().partition("?")[0], fields)


def check(request: Request, client: str, server: str, name: str = "") -> None:
    """Refuse a request that a page in a browser may have caused, or a command from elsewhere.

    Args:
        request: the request.
        client: the IP address of the client; "" on a UNIX socket.
        server: the IP address at which it was received; "" on a UNIX socket.
        name: the host of the option `management`.

    Raises:
        RefusedError: it is refused.
    """
    host = request.fields.get("host")
    # A browser always sends one. Some checks of health do not.
    if server and host is not None and not _is_own(host, name):
        text = "the Host is neither an IP address, nor localhost, nor the host of --management"
        raise RefusedError(421, text)
    site = request.fields.get("sec-fetch-site", "none")
    if "origin" in request.fields or site not in ("none", "same-origin"):
        raise RefusedError(403, "pages of browsers are not served here")
    if request.method != "POST":
        return
    if client and not is_loopback(client):
        raise RefusedError(403, "commands are taken from this machine only")
    if COMMAND_FIELD not in request.fields:
        raise RefusedError(403, "a command has the field Bolide-Command, with any value")


def is_loopback(address: str) -> bool:
    """Return whether an IP address is one of this machine alone."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _is_own(host: str, own_name: str) -> bool:
    """Return whether a Host cannot be a rebound name: an IP address, localhost, or `own_name`."""
    name = re.sub(r":[0-9]*$", "", host) if host.count(":") == 1 or "]" in host else host
    if name and name.lower() in ("localhost", own_name.lower()):
        return True
    if name.startswith("[") != name.endswith("]"):
        return False
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
