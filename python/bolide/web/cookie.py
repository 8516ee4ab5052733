"""Cookies: reads leniently what clients send, and writes strictly.

RFC 6265 requires both: §5.4 for the request's field, whose content is whatever some server once
set, and §4.1.1 for the response's.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

__all__ = ["SameSite", "cookie_value", "parse_cookies"]

SameSite = Literal["lax", "strict", "none"]

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 6265 §4.1.1: token
_OCTETS = re.compile(r"[!#-+\--:<-\[\]-~]*")  # RFC 6265 §4.1.1: cookie-octet
_ATTRIBUTE = re.compile(r"[ -:<-~]*")  # RFC 6265 §4.1.1: any CHAR except CTLs or ";"
_SAME_SITE = {"lax": "Lax", "strict": "Strict", "none": "None"}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def parse_cookies(values: Iterable[str]) -> dict[str, str]:
    """Parse the values of a request's cookie field lines into names and values.

    If two cookies have the same name, the first wins: a client lists the more specific path first
    (RFC 6265 §5.4). Quotes around a value are dropped, nothing is decoded, and a part without "="
    is skipped.
    """
    cookies: dict[str, str] = {}
    for value in values:
        for part in value.split(";"):
            name, is_pair, content = part.partition("=")
            name, content = name.strip(" \t"), content.strip(" \t")
            if not is_pair or not name:
                continue
            if len(content) >= 2 and content[0] == content[-1] == '"':
                content = content[1:-1]
            cookies.setdefault(name, content)
    return cookies


def cookie_value(
    name: str,
    value: str,
    *,
    max_age: int | None,
    expires: datetime | None,
    path: str | None,
    domain: str | None,
    secure: bool,
    http_only: bool,
    same_site: SameSite | None,
) -> str:
    """Write the value of a set-cookie field line.

    RFC 6265 §4.1.1. `max_age` is in seconds. The draft of its successor (RFC 6265bis) defines
    `same_site`, "none" only with `secure`, and the prefixes of names.

    Raises:
        ValueError: name, value or an attribute contains an invalid character, `expires` has no time
            zone, same_site is "none" without `secure`, or the name's prefix needs other attributes.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a cookie name: only letters, digits and !#$%&'*+-.^_`|~ are allowed"
        )
    if not _OCTETS.fullmatch(value):
        raise ValueError(
            f"the value of cookie {name} contains an invalid character: "
            f"percent-encode it ({value!r})"
        )
    if same_site == "none" and not secure:
        raise ValueError(f"clients reject cookie {name} with same_site='none': add secure=True")
    _check_prefix(name, path, domain, secure)
    parts = [f"{name}={value}"]
    if max_age is not None:
        parts.append(f"Max-Age={int(max_age)}")
    if expires is not None:
        parts.append(f"Expires={_imf_fixdate(expires)}")
    parts += [
        f"{key}={_checked(key, text)}" for key, text in (("Domain", domain), ("Path", path)) if text
    ]
    parts += [flag for flag, is_set in (("Secure", secure), ("HttpOnly", http_only)) if is_set]
    if same_site is not None:
        if same_site not in _SAME_SITE:
            raise ValueError(f"same_site is 'lax', 'strict' or 'none', not {same_site!r}")
        parts.append(f"SameSite={_SAME_SITE[same_site]}")
    return "; ".join(parts)


def _check_prefix(name: str, path: str | None, domain: str | None, secure: bool) -> None:
    """Check what a name promises to servers; clients compare its prefix without regard to case."""
    is_of_host = name.lower().startswith("__host-")
    if not is_of_host and not name.lower().startswith("__secure-"):
        return
    if not secure:
        raise ValueError(f"clients reject cookie {name} without Secure: add secure=True")
    if is_of_host and (domain or path != "/"):
        raise ValueError(f"clients reject cookie {name} unless path is '/' and domain is not set")


def _checked(key: str, text: str) -> str:
    if not _ATTRIBUTE.fullmatch(text):
        raise ValueError(f"a cookie's {key} takes printable ASCII without ';', not {text!r}")
    return text


def _imf_fixdate(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise ValueError(
            "a cookie's expires needs a time zone: datetime.now(UTC), not datetime.now()"
        )
    utc = moment.astimezone(UTC)
    day, month = _DAYS[utc.weekday()], _MONTHS[utc.month - 1]  # strftime depends on the locale
    return f"{day}, {utc.day:02} {month} {utc.year:04} {utc:%H:%M:%S} GMT"
