"""What is mounted below a prefix of a native application, and which prefixes are valid.

A mounted application is stored as it is: its interface is detected when it is served.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from bolide.errors import RegistrationError

__all__ = ["Mount", "MountInterface", "checked"]

MountInterface = Literal["auto", "asgi", "wsgi"]

_NOT_LITERAL = re.compile(r"[{}%?#\s\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Mount:
    """An ASGI or WSGI application below a prefix: "/x", "/x/y", or "/" for all paths."""

    prefix: str
    application: Any
    interface: MountInterface


def checked(mount: Mount) -> Mount:
    """Return a mount after checking its prefix and interface.

    Raises:
        RegistrationError: one of them is not valid.
    """
    prefix = mount.prefix
    if not isinstance(prefix, str) or not prefix.startswith("/"):
        raise RegistrationError(f"the prefix {prefix!r} of a mount must begin with a slash")
    if prefix != "/" and "" in prefix[1:].split("/"):
        remedy = "use '/a/b', or '/' for every path without a route"
        raise RegistrationError(f"the prefix {prefix!r} of a mount has an empty segment; {remedy}")
    if _NOT_LITERAL.search(prefix):
        rule = "must be literal and decoded, without a parameter, %, ?, # or space"
        raise RegistrationError(f"the prefix {prefix!r} of a mount {rule}")
    if mount.interface not in get_args(MountInterface):
        expected = "'auto', 'asgi' or 'wsgi'"
        raise RegistrationError(
            f"the mount at {prefix} has the interface {mount.interface!r}; use {expected}"
        )
    return mount
