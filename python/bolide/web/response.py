"""`Response`: a status and field lines, for when a plain value says too little.

The core constructs and keeps it; what is rare or for convenience is here.
"""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any, Final, Self, cast
from urllib.parse import quote

import msgspec

from bolide import _core
from bolide.web.cookie import SameSite, cookie_value
from bolide.web.field import FieldLines, content_type_line, header_pairs, text_type_line
from bolide.web.multidict import Headers

__all__ = ["Response"]

Body = bytes | Iterator[bytes | str] | AsyncIterator[bytes | str] | None

_REDIRECTS: Final = (301, 302, 303, 307, 308)
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class Response(_core.Response):
    """A response to a request.

    Takes at most one of `body` (bytes, a str as with `text`, or an (async) iterable of bytes and
    str, which is streamed), `text` (a str, sent as UTF-8) and `json` (anything msgspec encodes);
    none of them means no content. `status` is 200 to 599. `headers` is a mapping or pairs;
    duplicates are kept. `content_type` replaces the type that goes with the content:
    application/octet-stream, text/plain with charset=utf-8, or application/json.
    A response without an iterator in it may be returned any number of times.

    Raises:
        TypeError: more than one content, or one that cannot be sent; a header that is not a str.
        ValueError: a status out of range, or a header that is malformed or the server's to set.
    """

    __slots__ = ()

    @classmethod
    def redirect(cls, location: str, status: int = 302, headers: FieldLines | None = None) -> Self:
        """Make a redirection to a URI reference; what a URI cannot have in it is percent-encoded.

        RFC 9110 §15.4, §10.2.2. `status` is 301, 302, 303, 307 or 308.

        Raises:
            ValueError: another status, or `headers` as in `Response`.
        """
        if status not in _REDIRECTS:
            raise ValueError(f"a redirection has status 301, 302, 303, 307 or 308, not {status!r}")
        response = cls(status=status, headers=headers)
        response.add_header("Location", quote(location, safe=":/%#?=@[]!$&'()*+,;~"))
        return response

    @property
    def headers(self) -> Headers:
        """The field lines as they will be sent, without those that the server adds."""
        lines = self.raw_headers.decode("latin-1").split("\r\n")[:-1]
        pairs = (line.partition(": ") for line in lines)
        return Headers((name, value) for name, _, value in pairs)

    def set_cookie(
        self,
        name: str,
        value: str = "",
        *,
        max_age: int | None = None,
        expires: datetime | None = None,
        path: str | None = "/",
        domain: str | None = None,
        secure: bool = False,
        http_only: bool = False,
        same_site: SameSite | None = "lax",
    ) -> None:
        """Add a cookie for the client to keep.

        RFC 6265 §4.1. `max_age` is in seconds and wins over `expires`, which needs a time zone;
        without both, the cookie ends with the client's session.

        Raises:
            ValueError: a character that a cookie cannot have, or attributes that clients refuse.
        """
        line = cookie_value(
            name,
            value,
            max_age=max_age,
            expires=expires,
            path=path,
            domain=domain,
            secure=secure,
            http_only=http_only,
            same_site=same_site,
        )
        self.add_header("Set-Cookie", line)

    def delete_cookie(
        self,
        name: str,
        *,
        path: str | None = "/",
        domain: str | None = None,
        secure: bool = False,
        http_only: bool = False,
        same_site: SameSite | None = "lax",
    ) -> None:
        """Ask the client to drop a cookie; path and domain must be those it was set with.

        Raises:
            ValueError: as `set_cookie` does.
        """
        self.set_cookie(
            name,
            max_age=0,
            expires=_EPOCH,
            path=path,
            domain=domain,
            secure=secure,
            http_only=http_only,
            same_site=same_site,
        )

    def __getstate__(self) -> tuple[Any, ...]:
        """Give what a copy is made of; an iterator is shared by both."""
        lines = self.raw_headers.decode("latin-1").split("\r\n")[:-1]
        pairs = [line.partition(": ")[::2] for line in lines]
        return self.body, self.status, pairs, getattr(self, "__dict__", None)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Make a copy of `__getstate__`'s; its field lines are checked again."""
        body, status, pairs, attributes = state
        Response.__init__(self, None, headers=pairs)
        self.body, self.status = body, status
        for name, value in (attributes or {}).items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        """Show the status, the type of the content and its size if known."""
        body = self.body
        size = f" of {len(body)} bytes" if isinstance(body, bytes) else ""
        return f"<Response {self.status}: {type(body).__name__}{size}>"


def _sendable(body: Any) -> Body:
    """Give bytes or an iterator for what was passed as the body and is neither bytes nor a str.

    Raises:
        TypeError: it is neither bytes-like nor an iterable of parts.
    """
    if isinstance(body, bytearray | memoryview):
        return bytes(body)
    if isinstance(body, str):  # a subclass of str
        raise TypeError("pass a subclass of str as text=")
    if hasattr(body, "__aiter__"):
        return cast(Body, aiter(body))
    if hasattr(body, "__iter__") and not isinstance(body, dict | list | tuple | set):
        return cast(Body, iter(body))
    raise TypeError(f"body cannot be a {type(body).__name__}; pass json= for values")


def _checked_status(status: Any) -> int:
    if not isinstance(status, int):
        raise TypeError(f"status is an int, not {type(status).__name__}")
    if not 200 <= status <= 599:
        raise ValueError(f"a response's status is 200 to 599, not {int(status)}")
    return int(status)


_core.complete_response(
    Response,
    json_encode=msgspec.json.Encoder().encode,
    sendable=_sendable,
    header_pairs=header_pairs,
    content_type_line=content_type_line,
    text_type_line=text_type_line,
    checked_status=_checked_status,
)
