"""`Response`: an answer with a status and field lines, for when a plain value says too little.

The core reads the three slots and nothing else: `status`, `body` and the field lines as they go on
the wire. Therefore those are checked and encoded when they are given.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, Self, cast
from urllib.parse import quote

import msgspec

from bolide._core import field_line, field_lines
from bolide.web.cookie import SameSite, cookie_value
from bolide.web.field import FieldLines, content_type_line, header_pairs, text_type_line
from bolide.web.multidict import Headers

__all__ = ["Body", "Content", "Response", "encode_json"]

Parts = Iterable[bytes | str] | AsyncIterable[bytes | str]
Content = bytes | bytearray | memoryview | str | Parts
Body = bytes | Iterator[bytes | str] | AsyncIterator[bytes | str] | None

_OCTETS_LINE: Final = b"Content-Type: application/octet-stream\r\n"
_TEXT_LINE: Final = b"Content-Type: text/plain; charset=utf-8\r\n"
_JSON_LINE: Final = b"Content-Type: application/json\r\n"
_ABSENT: Final[Any] = object()
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_EPOCH: Final = datetime.fromtimestamp(0, UTC)

encode_json = msgspec.json.Encoder().encode


class Response:
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

    __slots__ = ("_raw_headers", "body", "status")

    status: int
    body: Body
    _raw_headers: bytes

    def __init__(
        self,
        body: Content | None = None,
        status: int = 200,
        headers: FieldLines | None = None,
        content_type: str | None = None,
        *,
        text: str | None = None,
        json: Any = _ABSENT,
    ) -> None:
        if type(body) is str:
            if text is not None:
                raise TypeError("Response takes one of body, text and json, not two")
            body, text = None, body
        if (body is not None) + (text is not None) + (json is not _ABSENT) > 1:
            raise TypeError("Response takes one of body, text and json, not two")
        if text is not None:
            self.body, line = _text_bytes(text), _TEXT_LINE
        elif json is not _ABSENT:
            self.body, line = encode_json(json), _JSON_LINE
        elif body is None:
            self.body, line = None, b""
        else:
            self.body, line = _sendable(body), _OCTETS_LINE
        if content_type is not None:
            encode = content_type_line if text is None else text_type_line
            line = encode(content_type)
        if headers:
            pairs = header_pairs(headers)
            line = field_lines(pairs, line, is_type_explicit=content_type is not None)
        self._raw_headers = line
        if type(status) is not int or not 200 <= status <= 599:
            status = _checked_status(status)
        self.status = status

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
    def raw_headers(self) -> bytes:
        """The encoded field lines, without those that the server adds."""
        return self._raw_headers

    @property
    def headers(self) -> Headers:
        """The field lines as they will be sent, without those that the server adds."""
        lines = self._raw_headers.decode("latin-1").split("\r\n")[:-1]
        pairs = (line.partition(": ") for line in lines)
        return Headers((name, value) for name, _, value in pairs)

    def add_header(self, name: str, value: str) -> None:
        """Add a field line behind those of the same name.

        Raises:
            TypeError: name or value is not a str.
            ValueError: the field line is malformed or the server's to set.
        """
        self._raw_headers += field_line(name, value)

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

    def __repr__(self) -> str:
        """Show the status, the type of the content and its size if known."""
        size = f" of {len(self.body)} bytes" if isinstance(self.body, bytes) else ""
        return f"<Response {self.status}: {type(self.body).__name__}{size}>"


def _text_bytes(text: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"text is a str, not {type(text).__name__}; json= takes other values")
    return text.encode()


def _sendable(body: Any) -> Body:
    """Give bytes or an iterator for what was passed as the body.

    Raises:
        TypeError: it is neither bytes-like nor an iterable of parts.
    """
    if isinstance(body, bytes):
        return body
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
