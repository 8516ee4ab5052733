"""To whom a traceback is shown, and what of a request is shown with it.

Only to clients of this machine that name it by its address or as localhost, and not through a
proxy: a proxy on this machine may serve anybody, and the name of a page that a browser shows can be
made to resolve to this machine (DNS rebinding), so that the page reads the response. A proxy that
adds no field, uses HTTP/1.1 and passes `localhost` on as the host cannot be noticed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

MASK: Final = "(hidden)"
SECRET: Final = re.compile(
    r"auth|cookie|csrf|key|passw|pwd|secret|session|signature|token|credential|jwt", re.IGNORECASE
)
"""Names of fields and of parameters in a query whose values are not shown."""
OF_PROXIES: Final = re.compile(
    r"forwarded(-.*)?|x-forwarded-.*|x-real-ip|via|.*-client-ip|.*-connecting-ip"
)
OLD: Final = "1.0"
"""The version that nginx uses by default, without any field by which it could be noticed."""
PORT: Final = re.compile(r":[0-9]{0,5}")
LOCAL_NAMES: Final = ("localhost", "localhost.")


@dataclass(frozen=True, slots=True)
class Shown:
    """A request, as far as it may be shown."""

    method: str
    target: str
    """As it was sent, with its query."""
    client: str
    """The address of the client; "" if it is not known."""
    fields: Sequence[tuple[str, str]]
    """In the order in which they were sent."""
    version: str = "1.1"
    """Of HTTP."""

    @property
    def is_local(self) -> bool:
        """Whether a traceback may be shown to who has sent it."""
        is_of_proxy = self.version == OLD or any(
            OF_PROXIES.fullmatch(name.lower()) for name, _ in self.fields
        )
        if is_of_proxy or not is_loopback(self.client):
            return False
        hosts = [value for name, value in self.fields if name.lower() in ("host", ":authority")]
        return bool(hosts) and all(is_local_host(each) for each in hosts)

    @property
    def wants_html(self) -> bool:
        """Whether it is a browser's."""
        accept = ",".join(value for name, value in self.fields if name.lower() == "accept")
        return any(each.strip().split(";")[0].lower() == "text/html" for each in accept.split(","))

    def masked(self) -> Shown:
        """Return it without what looks like a secret."""
        fields = [(name, masked(name, value)) for name, value in self.fields]
        return replace(self, target=masked_target(self.target), fields=fields)


def masked(name: str, value: str) -> str:
    """Return the value of a field as it may be shown."""
    if SECRET.search(name):
        return MASK
    return masked_target(value) if name.lower() == "referer" else value


def masked_target(target: str) -> str:
    """Hide the values of parameters in the query whose names look like those of secrets."""
    path, mark, query = target.partition("?")
    pairs = [each.partition("=") for each in query.split("&")]
    shown = [name + sep + (MASK if SECRET.search(name) else value) for name, sep, value in pairs]
    return path + mark + "&".join(shown)


def is_loopback(address: str) -> bool:
    """Return whether an address is of this machine only; a name is not one."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


def is_local_host(authority: str) -> bool:
    """Return whether the Host of a request is localhost or a loopback address, with any port."""
    if authority.startswith("["):
        host, bracket, port = authority[1:].partition("]")
        is_whole = bool(bracket) and (not port or PORT.fullmatch(port) is not None)
        return is_whole and is_loopback(host)
    host, colon, port = authority.partition(":")
    if PORT.fullmatch(colon + port or ":") is None:
        return False
    return host.lower() in LOCAL_NAMES or is_loopback(host)
