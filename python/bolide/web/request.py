"""`Request`: the first argument of a handler.

The core decodes each part of a request on first use. This class adds the parts that are easier in
Python, and keeps each in `self.cache`, which is empty for every new request.

The content is read in one of two ways. A `def` handler is called when the whole content has
arrived, so `body()`, `text()` and `json()` return the value. An `async def` handler is called when
the head has arrived: the same methods return awaitables, and `stream()` yields the parts as they
arrive.
"""

from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from bolide import _core
from bolide.errors import HTTPError
from bolide.web import foreign
from bolide.web.cookie import parse_cookies
from bolide.web.field import charset_of
from bolide.web.multidict import Headers, MultiDict

__all__ = ["Request", "RequestHead"]

T = TypeVar("T")

if TYPE_CHECKING:
    _Base = _core.Request
else:  # one layout of the core is enough
    _Base = object

_decode_json = msgspec.json.Decoder().decode
# Names of the WHATWG's Encoding Standard. Python's own lookup would import a module and cache an
# entry for each unknown name, and accepts encodings that the web does not use, some of them slow.
_CHARSETS = frozenset(
    ["utf-8", "utf8", "utf-16", "utf-16le", "utf-16be", "us-ascii", "ascii", "latin1"]
    + [f"iso-8859-{part}" for part in (*range(1, 12), 13, 14, 15, 16)]
    + [f"windows-{page}" for page in (874, *range(1250, 1259))]
    + ["koi8-r", "koi8-u", "gbk", "gb2312", "gb18030", "big5", "euc-kr"]
    + ["shift_jis", "euc-jp", "iso-2022-jp"]
)
_EXTENDED = {"windows-874": "cp874", "gb2312": "gbk", "euc-kr": "cp949", "shift_jis": "cp932"}
"""Python's names where they differ, and where the web's encoding has more characters."""


class RequestHead(_Base):
    """The parts of a request's head that are derived in Python, for requests and WebSockets."""

    __slots__ = ()

    @property
    def headers(self) -> Headers:
        """The header section: `[name]` is the first value, `getall(name)` returns all."""
        return self._kept("headers", lambda: Headers(self.field_lines()))

    @property
    def query(self) -> MultiDict:
        """The query's names and values, decoded like a form's; blank values are kept.

        `[name]` is the first value, `getall(name)` returns all. Octets that are not UTF-8 become
        U+FFFD.
        """
        return self._kept("query", lambda: _parse_query(self.query_string))

    @property
    def cookies(self) -> dict[str, str]:
        """The client's cookies as they were sent; if a name occurs twice, its first value."""
        return self._kept("cookies", lambda: parse_cookies(self.headers.getall("cookie")))

    @property
    def content_type(self) -> str | None:
        """The content-type field's value with its parameters; None if there is none."""
        return self.headers.get("content-type")

    @property
    def url(self) -> str:
        """The target URI (RFC 9110 §7.1) as far as the server knows it, still percent-encoded."""
        query = self.query_string
        target = self.raw_path + b"?" + query if query else self.raw_path
        return f"{self.scheme}://{self.host}{self.root_path}{target.decode('latin-1')}"

    @property
    def state(self) -> SimpleNamespace:
        """A namespace for what an application wants to store with this request."""
        return self._kept("state", SimpleNamespace)

    def _kept(self, name: str, make: Callable[[], T]) -> T:
        cache = self.cache
        if name in cache:
            value: T = cache[name]
            return value
        value = cache[name] = make()
        return value


class Request(RequestHead, _core.Request):
    """One request. The core creates it; an application only reads it."""

    __slots__ = ()

    def body(self) -> Any:
        """Return the content: bytes in a `def` handler, an awaitable of bytes in an async one.

        Raises:
            ClientDisconnected: async only: the client disconnected before the content was complete.
            RuntimeError: async only: `stream()` was started, or another task is reading.
        """
        return self._content(_as_bytes)

    def text(self) -> Any:
        """Return the content as a str, in the content type's charset or UTF-8; see `body()`.

        Raises:
            HTTPError: 400 for octets that are not valid in the charset, 415 for an unknown charset.
            ClientDisconnected, RuntimeError: as `body()`.
        """
        return self._content(_as_text)

    def json(self) -> Any:
        """Return the value of the content, decoded from JSON (RFC 8259); see `body()`.

        Each call decodes again, so the caller may change the value.

        Raises:
            HTTPError: 400 for content that is not JSON.
            ClientDisconnected, RuntimeError: as `body()`.
        """
        return self._content(_as_json)

    def stream(self) -> AsyncIterator[bytes]:
        """Iterate over the content part by part as it arrives; in async handlers only, and once.

        While the handler does not ask for a part, the client is slowed down. After `body()` there
        is one part.

        Raises:
            ClientDisconnected: while iterating: the client disconnected before the end.
            RuntimeError: in a `def` handler; while iterating: the content was streamed before.
        """
        if not self.is_async:
            raise RuntimeError("stream() is for async handlers; in a def handler call body()")
        return self._stream()

    def _content(self, convert: Callable[["Request", bytes], Any]) -> Any:
        if self.is_async:
            return self._receive_whole(convert)
        return convert(self, self.read())

    async def _receive_whole(self, convert: Callable[["Request", bytes], Any]) -> Any:
        cache = self.cache
        if "body" not in cache:
            self._begin_reading("body()")
            # If this is cancelled, by asyncio.timeout() for example, the next call keeps the parts.
            parts: list[bytes] = cache.setdefault("parts", [])
            try:
                while (part := await self.receive(whole=True)) is not None:
                    parts.append(part)
            finally:
                del cache["reader"]
            cache["body"] = b"".join(cache.pop("parts"))
        return convert(self, cache["body"])

    async def _stream(self) -> AsyncIterator[bytes]:
        cache = self.cache
        if "body" in cache:
            if cache["body"]:
                yield cache["body"]
            return
        self._begin_reading("stream()")
        for part in cache.pop("parts", []):
            yield part
        while (part := await self.receive()) is not None:
            yield part

    def _begin_reading(self, reader: str) -> None:
        """Claim the content for one reader: `body()` while it reads, `stream()` for good."""
        earlier = self.cache.get("reader")
        if earlier is not None:
            raise RuntimeError(
                f"{reader} cannot read the content: {earlier} has started to read it"
            )
        self.cache["reader"] = reader


foreign.refuse(Request, foreign.REQUEST)


def _parse_query(query_string: bytes) -> MultiDict:
    return MultiDict(parse_qsl(query_string.decode("utf-8", "replace"), keep_blank_values=True))


def _as_bytes(_request: Request, content: bytes) -> bytes:
    return content


def _as_text(request: Request, content: bytes) -> str:
    charset = (charset_of(request.content_type or "") or "utf-8").lower()
    if charset not in _CHARSETS:
        raise HTTPError(415, f"the charset {charset!r} is not supported")
    try:
        return content.decode(_EXTENDED.get(charset, charset))
    except UnicodeError:
        raise HTTPError(400, f"the content is not valid {charset}") from None


def _as_json(_request: Request, content: bytes) -> Any:
    if not content:
        raise HTTPError(400, "the content is empty, which is not valid JSON")
    try:
        return _decode_json(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        reason = str(error).removeprefix("JSON is malformed: ")
        raise HTTPError(400, f"the content is not valid JSON: {reason}") from None
