"""What is mounted below a prefix of a native application, and where it may be.

A mounted application is kept as it was given: what it is finds out who serves it.
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
    """Give a mount back whose prefix and interface can be what they are.

    Raises:
        RegistrationError: one of them cannot.
    """
    prefix = mount.prefix
    if not isinstance(prefix, str) or not prefix.startswith("/"):
        raise RegistrationError(f"the prefix {prefix!r} of a mount must begin with a slash")
    if prefix != "/" and "" in prefix[1:].split("/"):
        mend = "'/a/b' for one, '/' for all that no route takes"
        raise RegistrationError(f"the prefix {prefix!r} of a mount has an empty segment; {mend}")
    if _NOT_LITERAL.search(prefix):
        rule = "is literal and decoded: no parameter, %, ?, # or space"
        raise RegistrationError(f"the prefix {prefix!r} of a mount {rule}")
    if mount.interface not in get_args(MountInterface):
        expected = "'auto', 'asgi' or 'wsgi'"
        raise RegistrationError(
            f"the mount at {prefix} has the interface {mount.interface!r}; give {expected}"
        )
    return mount
