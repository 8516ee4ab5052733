"""`Response`: content with a status and header fields, for when a plain value is not enough.

The core constructs and stores it; rare cases and conveniences are here.
"""

import inspect
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NoReturn, Self, cast
from urllib.parse import quote

import msgspec

from bolide import _core
from bolide.web import foreign
from bolide.web.cookie import SameSite, cookie_value
from bolide.web.field import FieldLines, content_type_line, header_pairs, text_type_line
from bolide.web.multidict import Headers

__all__ = ["Response"]

Body = bytes | Iterator[bytes | str] | AsyncIterator[bytes | str] | None

_REDIRECTS: Final = (301, 302, 303, 307, 308)
_LONE_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class Response(_core.Response):
    """A response to a request.

    Pass at most one of `body` (bytes, a str as with `text`, or an (async) iterable of bytes and
    str, which is streamed), `text` (a str, sent as UTF-8) and `json` (anything that msgspec
    encodes). Without any of them the response has no content. `status` is 200 to 599. `headers` is
    a mapping or pairs; duplicates are kept. `content_type` replaces the default type of the
    content: application/octet-stream, text/plain with charset=utf-8, or application/json.
    A response whose body is not an iterator may be returned any number of times.

    Raises:
        TypeError: there is more than one content, the content cannot be sent, or a header is not a
            str.
        ValueError: the status is out of range, or a header is malformed or set by the server
            itself.
    """

    __slots__ = ()

    @classmethod
    def redirect(cls, location: str, status: int = 302, headers: FieldLines | None = None) -> Self:
        """Create a redirect to a URI reference; characters invalid in a URI are percent-encoded.

        RFC 9110 §15.4, §10.2.2. `status` is 301, 302, 303, 307 or 308. A `%` is kept where it
        encodes an octet.

        Raises:
            ValueError: another status, or `headers` as in `Response`.
        """
        if status not in _REDIRECTS:
            raise ValueError(f"a redirect has status 301, 302, 303, 307 or 308, not {status!r}")
        response = cls(status=status, headers=headers)
        location = _LONE_PERCENT.sub("%25", location)
        response.add_header("Location", quote(location, safe=":/%#?=@[]!$&'()*+,;~"))
        return response

    @property
    def headers(self) -> Headers:
        """The header fields as they will be sent, without those that the server adds."""
        lines = self.raw_headers.decode("latin-1").split("\r\n")[:-1]
        pairs = (line.partition(": ") for line in lines)
        return Headers((name, value) for name, _, value in pairs)

    @foreign.advising("set_cookie", foreign.COOKIE_KEYWORDS)
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

        RFC 6265 §4.1. `max_age` is in seconds and takes precedence over `expires`, which needs a
        time zone. Without either, the cookie expires with the client's session.

        Raises:
            ValueError: a character is not valid in a cookie, or clients reject the attributes.
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

    @foreign.advising("delete_cookie", foreign.COOKIE_KEYWORDS)
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
        """Ask the client to delete a cookie; path and domain must be those it was set with.

        A cookie whose name begins with `__Secure-` or `__Host-` also needs `secure`.

        Raises:
            ValueError: as `set_cookie`.
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
        """Return the state for a copy; both share an iterator."""
        lines = self.raw_headers.decode("latin-1").split("\r\n")[:-1]
        pairs = [line.partition(": ")[::2] for line in lines]
        return self.body, self.status, pairs, getattr(self, "__dict__", None)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the state of `__getstate__`; the header fields are checked again."""
        body, status, pairs, attributes = state
        Response.__init__(self, None, headers=pairs)
        self.body, self.status = body, status
        for name, value in (attributes or {}).items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        """Show the status, the type of the content, and its size if known."""
        body = self.body
        size = f" of {len(body)} bytes" if isinstance(body, bytes) else ""
        return f"<Response {self.status}: {type(body).__name__}{size}>"


def _sendable(body: Any) -> Body:
    """Convert a body that is neither bytes nor a str to bytes or an iterator.

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


def _refuse(value: object) -> NoReturn:
    """Reject a value that JSON cannot represent."""
    text = f"Encoding objects of type {type(value).__name__} is unsupported"
    if inspect.iscoroutine(value):
        text += "; an await is missing, for example `await request.json()`"
    raise TypeError(text)


def _checked_status(status: Any) -> int:
    if not isinstance(status, int):
        raise TypeError(f"status is an int, not {type(status).__name__}")
    if not 200 <= status <= 599:
        raise ValueError(f"a response's status is 200 to 599, not {int(status)}")
    return int(status)


def _refuse_keywords(others: dict[str, Any]) -> NoReturn:
    """Reject what the constructor does not take.

    Raises:
        TypeError: always.
    """
    foreign.refuse_keywords("Response", foreign.RESPONSE_KEYWORDS, others)
    raise TypeError(
        f"Response.__init__() got an unexpected keyword argument {next(iter(others))!r}"
    )


foreign.refuse(Response, foreign.RESPONSE)
_core.complete_response(
    Response,
    json_encode=msgspec.json.Encoder(enc_hook=_refuse).encode,
    sendable=_sendable,
    header_pairs=header_pairs,
    content_type_line=content_type_line,
    text_type_line=text_type_line,
    checked_status=_checked_status,
    refuse_keywords=_refuse_keywords,
)
