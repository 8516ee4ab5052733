"""Verifies the responses of a contestant before it is measured.

It uses sockets and small strict parsers, because a client library would hide errors. The standards
are RFC 9112 and RFC 9113. What would make a figure wrong is an error; other observations are
remarks. With TLS, each connection proves the race's certificate and the protocol.
"""

from __future__ import annotations

import io
import re
import select
import socket
import ssl
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

from bolide.lab.plan.contestant import Entry
from bolide.lab.record.schema import Workload
from bolide.lab.trial import frames, secure, verify_messages
from bolide.lab.trial.frames import Frames, WrongFrameError
from bolide.lab.trial.messages import WrongMessageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

REPEATED = 3
RESPONSE_S_MAX = 5.0
SPLIT_PAUSE_S = 0.03
SURPLUS_S = 0.2
CLOSING_S = 0.5
UNKNOWN_TARGET = "/bolide-race-knows-no-such-path"
LINE_BYTES_MAX = 65536
CONNECTION_BYTES_MAX = 64 << 20
"""Maximum number of bytes read from one connection, in case a response never ends."""
SHOWN_BYTES = 40
CONTENT_BYTE = b"x"
"""What the content of requests consists of."""
STATUS = re.compile("[1-5][0-9]{2}")


class WrongResponseError(Exception):
    """A response that must not be measured; `kind` is its class in the results."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Response:
    """A complete response."""

    status: int
    fields: dict[str, str]
    content: bytes


@dataclass(frozen=True)
class Proof:
    """What was observed about the responses."""

    content: bytes
    remarks: tuple[str, ...]
    response_bytes: float | None
    """Bytes of a response to the workload's own request, with its head; the mean of several. None
    over HTTP/2, where it depends on the connection."""


class _Bounded(io.RawIOBase):
    """Reads from a connection until a deadline, and at most a number of bytes."""

    def __init__(self, connection: socket.socket, bytes_max: int) -> None:
        self._connection = connection
        self._bytes_max = bytes_max
        self.left_bytes = bytes_max
        self.give_up = 0.0
        """The deadline (monotonic)."""

    def readable(self) -> bool:
        return True

    def readinto(self, into: WriteableBuffer) -> int:
        """Read what has arrived.

        Raises:
            TimeoutError: nothing arrived before the deadline.
            WrongResponseError: too much has arrived.
        """
        self._connection.settimeout(max(0.001, self.give_up - time.monotonic()))
        count = self._connection.recv_into(into)
        self.left_bytes -= count
        if self.left_bytes < 0:
            message = f"more than {self._bytes_max >> 20} MiB without an end"
            raise WrongResponseError("endless", message)
        return count

    @property
    def received_bytes(self) -> int:
        """Bytes that have arrived."""
        return self._bytes_max - self.left_bytes


class _Client:
    """One connection to the contestant."""

    def __init__(
        self, address: tuple[str, int], tls: secure.Client | None, content_bytes: int
    ) -> None:
        self._socket = socket.create_connection(address, timeout=RESPONSE_S_MAX)
        self._tls = tls
        if tls is not None:
            self._socket = tls.connect(self._socket)
        self._content_bytes_max = CONNECTION_BYTES_MAX + content_bytes
        self._bounded = _Bounded(self._socket, self._content_bytes_max)
        self._reader = io.BufferedReader(self._bounded)

    def send(self, *pieces: bytes, may_receive: bool = False) -> None:
        """Send the pieces separately; `may_receive`: something may arrive between them.

        Raises:
            WrongResponseError: a response arrived before the last piece was sent.
        """
        for number, piece in enumerate(pieces):
            if number and self._has_received() and not may_receive:
                raise WrongResponseError("guessed", "responded before the request was complete")
            self._socket.settimeout(RESPONSE_S_MAX)
            self._socket.sendall(piece)

    def _has_received(self) -> bool:
        """Whether something arrives soon.

        A ticket of TLS makes the socket readable, too.
        """
        if self._tls is None:
            return bool(select.select([self._socket], [], [], SPLIT_PAUSE_S)[0])
        self._bounded.give_up = time.monotonic() + SPLIT_PAUSE_S
        try:
            return bool(self._reader.peek(1))
        except TimeoutError:
            return False

    def response(self) -> Response:
        """Read one response, which must be complete in time."""
        self._bounded.give_up = time.monotonic() + RESPONSE_S_MAX
        return read_response(self._reader, self._content_bytes_max)

    def head(self) -> Response:
        """Read the head of a response, which must be complete in time."""
        self._bounded.give_up = time.monotonic() + RESPONSE_S_MAX
        return _head(self._reader)

    def read(self, count: int) -> bytes:
        """Read that many bytes, in time.

        Raises:
            WrongResponseError: the other side closes first.
        """
        self._bounded.give_up = time.monotonic() + RESPONSE_S_MAX
        return _exactly(self._reader, count, self._content_bytes_max)

    @property
    def received_bytes(self) -> int:
        """Bytes that have arrived."""
        return self._bounded.received_bytes

    def keep_session(self) -> bool:
        """Resume this session of TLS in later connections; return whether it is a resumed one."""
        if not isinstance(self._socket, ssl.SSLSocket) or self._tls is None:
            return False
        self._tls.keep_session(self._socket)
        return bool(self._socket.session_reused)

    def end(self) -> tuple[bytes, bool]:
        """Return what arrives before the other side closes, and whether it closes in time."""
        return self._rest(CLOSING_S)

    def surplus(self) -> bytes:
        """Shut down the sending side, and return any bytes that still arrive.

        The other side may keep its half open (RFC 9112 section 9.6), so this does not wait for it.
        With TLS, both sides stay open: Python ends a session in both directions.
        """
        if self._tls is None:
            self._socket.shutdown(socket.SHUT_WR)
        return self._rest(SURPLUS_S)[0]

    def _rest(self, wait_s: float) -> tuple[bytes, bool]:
        """Return what arrives within a time, and whether the other side closes within it."""
        self._bounded.give_up = time.monotonic() + wait_s
        found = b""
        try:
            while piece := self._reader.read1():
                found += piece
        except TimeoutError:
            return found, False
        return found, True

    def __enter__(self) -> _Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self._socket.close()


def verify(
    address: tuple[str, int],
    workload: Workload,
    entry: Entry,
    *,
    is_users: bool = False,
    pair: secure.Pair | None = None,
) -> Proof:
    """Verify the responses to a workload's request.

    `is_users`: the user's own application is served, which may respond to every path. `pair` is
    what the server has to present if the workload uses TLS.

    Raises:
        WrongResponseError: one is wrong, or none arrives.
    """
    try:
        tls = None
        if workload.tls and pair is not None:
            tls = secure.Client(pair, workload.http_version)
        return _Verification(address, workload, entry, tls, is_users=is_users).run()
    except secure.WrongHandshakeError as error:
        raise WrongResponseError("protocol", str(error)) from None
    except WrongFrameError as error:
        raise WrongResponseError("malformed", str(error)) from None
    except WrongMessageError as error:
        raise WrongResponseError(error.kind, str(error)) from None
    except TimeoutError:
        message = f"no response within {RESPONSE_S_MAX:g} s"
        raise WrongResponseError("no_answer", message) from None
    except OSError as error:
        raise WrongResponseError("connection", f"the connection failed: {error}") from None


class _Verification:
    def __init__(
        self,
        address: tuple[str, int],
        workload: Workload,
        entry: Entry,
        tls: secure.Client | None,
        *,
        is_users: bool,
    ) -> None:
        self._address = address
        self._tls = tls
        self._has_paths = not (entry.is_canned or is_users)
        self._workload = workload
        self._entry = entry
        self._target = entry.target or workload.target
        self._expected = workload.expected_content
        self._remarks: list[str] = []
        self._response_bytes = 0.0

    def run(self) -> Proof:
        if self._workload.messages:
            return self._over_websocket()
        if self._workload.http_version == "2":
            return self._over_http2()
        content = self._one()
        if self._tls is not None:
            self._remarks.append(self._tls.agreed)
        if self._workload.tls == "resumed" and not self._workload.is_persistent:
            self._resumed(content)
        if self._workload.file_bytes is not None:  # verified once: each response takes long
            self._unknown()
            return Proof(content, tuple(self._remarks), self._response_bytes)
        if self._workload.is_persistent:
            self._several(content)
        if self._workload.pipeline_depth > 1:
            self._pipelined(content)
        if not self._entry.is_canned:
            self._split(content)
        if self._has_paths:
            self._unknown()
        return Proof(content, tuple(self._remarks), self._response_bytes)

    def _client(self) -> _Client:
        return _Client(self._address, self._tls, self._workload.file_bytes or 0)

    def _resumed(self, content: bytes) -> None:
        """Check that a second connection resumes the session of the first one."""
        for number in range(2):
            with self._client() as client:
                client.send(self._request(is_persistent=False))
                self._check(client.response(), content)
                is_resumed = client.keep_session()
            if number and not is_resumed:
                raise WrongResponseError("handshake", "a session of TLS was not resumed")

    def _over_http2(self) -> Proof:
        """Send requests one after another, three at once (one differs), and one in pieces."""
        scheme = "https" if self._tls else "http"
        host, port = self._address
        middle = UNKNOWN_TARGET if self._has_paths else self._target

        def headers(stream: int, target: str) -> bytes:
            connection.open(stream)
            return frames.request(stream, target, f"{host}:{port}", scheme)

        def content_of(stream: int, expected: bytes | None) -> bytes:
            found = connection.wait(stream)
            response = Response(found.status, {}, bytes(found.content))
            self._check(response, expected)
            return response.content

        with self._client() as client:
            connection = Frames(client.read, client.send)
            client.send(frames.OPENING + headers(1, self._target))
            content = content_of(1, self._expected)
            for stream in range(3, 3 + 2 * REPEATED, 2):
                client.send(headers(stream, self._target))
                content_of(stream, content)
            three = (headers(9, self._target), headers(11, middle), headers(13, self._target))
            client.send(b"".join(three))
            for stream in (9, 13):
                content_of(stream, content)
            if self._has_paths and (status := connection.wait(11).status) != 404:
                raise WrongResponseError("wrong_status", f"{status} for an unknown path, not 404")
            if not self._entry.is_canned:
                whole = headers(15, self._target)
                client.send(whole[:4], whole[4:20], whole[20:], may_receive=True)
                content_of(15, content)
        if self._tls is not None:
            self._remarks.append(self._tls.agreed)
        return Proof(content, tuple(self._remarks), None)

    def _over_websocket(self) -> Proof:
        host, port = self._address
        workload = self._workload
        verify_messages.verify(
            self._client, f"{host}:{port}", workload, self._entry, UNKNOWN_TARGET
        )
        if self._tls is not None:
            self._remarks.append(self._tls.agreed)
        return Proof((workload.content or "").encode(), tuple(self._remarks), None)

    def _request(self, target: str | None = None, *, is_persistent: bool | None = None) -> bytes:
        persistent = self._workload.is_persistent if is_persistent is None else is_persistent
        persistent = persistent or not self._entry.closes
        version = self._workload.http_version
        host, port = self._address
        content = None if target else self._workload.content_bytes  # that of an unknown path: none
        method = "GET" if content is None else "POST"
        lines = [f"{method} {target or self._target} HTTP/{version}", f"Host: {host}:{port}"]
        lines += [f"{name}: {value}" for name, value in self._workload.fields]
        if content is not None:
            lines.append(f"Content-Length: {content}")
        if not persistent and version == "1.1":
            lines.append("Connection: close")
        if persistent and version == "1.0":
            lines.append("Connection: Keep-Alive")
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + CONTENT_BYTE * (content or 0)

    def _one(self) -> bytes:
        """Send one request, and check that the other side closes if it must."""
        with self._client() as client:
            client.send(self._request(is_persistent=False))
            response = client.response()
            self._check(response, self._expected)
            surplus, is_closed = client.end() if self._entry.closes else (b"", True)
            if surplus:
                raise WrongResponseError(
                    "unexpected_bytes", f"{surplus[:SHOWN_BYTES]!r} after the response"
                )
            self._response_bytes = client.received_bytes
        if not is_closed:
            self._remarks.append("keeps a connection open despite Connection: close")
        if "date" not in response.fields:
            self._remarks.append("sends no Date")
        if "transfer-encoding" in response.fields:
            self._remarks.append("sends its content in chunks")
        return response.content

    def _several(self, content: bytes) -> None:
        with self._client() as client:
            for _ in range(REPEATED):
                client.send(self._request())
                self._check(client.response(), content)
            if surplus := client.surplus():
                raise WrongResponseError(
                    "unexpected_bytes", f"{surplus[:SHOWN_BYTES]!r} after the last response"
                )
            self._response_bytes = client.received_bytes / REPEATED

    def _pipelined(self, content: bytes) -> None:
        """Send three requests at once, of which the second has another response."""
        middle = UNKNOWN_TARGET if self._has_paths else self._target
        with self._client() as client:
            client.send(self._request() + self._request(middle) + self._request())
            self._check(client.response(), content)
            response = client.response()
            if self._has_paths and response.status != 404:
                raise WrongResponseError(
                    "order",
                    f"of three pipelined requests the second got {response.status}, not 404",
                )
            self._check(client.response(), content)

    def _split(self, content: bytes) -> None:
        """Send a request split in its fields, which must work, and one split in its first line."""
        request = self._request(is_persistent=False)
        self._in_two(request, request.index(b"\r\n") + 7, content)
        try:
            self._in_two(request, 4, content)
        except (WrongResponseError, OSError):
            self._remarks.append("refuses a request line that arrives in two pieces")

    def _in_two(self, request: bytes, cut: int, content: bytes) -> None:
        with self._client() as client:
            client.send(request[:cut], request[cut:])
            self._check(client.response(), content)

    def _unknown(self) -> None:
        with self._client() as client:
            client.send(self._request(UNKNOWN_TARGET, is_persistent=False))
            response = client.response()
        if response.status != 404:
            raise WrongResponseError(
                "wrong_status", f"{response.status} for an unknown path, not 404"
            )

    def _check(self, response: Response, expected: bytes | None) -> None:
        if response.status != 200:
            raise WrongResponseError("wrong_status", f"status {response.status}, not 200")
        found = response.content
        if self._entry.role == "ceiling" and expected is not None:
            expected = found if len(found) == len(expected) else expected
        if expected is not None and found != expected:
            first = "" if self._expected is not None else "; all responses must be the same"
            raise WrongResponseError(
                "wrong_body",
                f"{len(found)} bytes {found[:SHOWN_BYTES]!r}, "
                f"not {len(expected)} bytes {expected[:SHOWN_BYTES]!r}{first}",
            )


def read_response(reader: BinaryIO, content_bytes_max: int = CONNECTION_BYTES_MAX) -> Response:
    """Read one response, up to the end that its head states or the end of the connection.

    Raises:
        WrongResponseError: it is truncated or malformed.
    """
    head = _head(reader)
    return replace(head, content=_content(reader, head.fields, content_bytes_max))


def _head(reader: BinaryIO) -> Response:
    """Read the head of a response, which has no content yet."""
    line = _line(reader)
    words = line.split(None, 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not STATUS.fullmatch(words[1]):
        raise WrongResponseError("malformed", f"{line[:SHOWN_BYTES]!r} is not a status line")
    fields: dict[str, str] = {}
    while line := _line(reader):
        name, colon, value = line.partition(":")
        if not colon:
            raise WrongResponseError("malformed", f"{line[:SHOWN_BYTES]!r} is not a field line")
        if name.lower() in ("content-length", "transfer-encoding") and name.lower() in fields:
            raise WrongResponseError("malformed", f"{name} appears twice")
        fields[name.lower()] = value.strip()
    return Response(int(words[1]), fields, b"")


def _content(reader: BinaryIO, fields: dict[str, str], bytes_max: int) -> bytes:
    if fields.get("transfer-encoding", "").lower() == "chunked":
        return _chunks(reader, bytes_max)
    if "content-length" not in fields:
        return reader.read()
    length = fields["content-length"]
    if not (length.isascii() and length.isdecimal()):
        raise WrongResponseError("malformed", f"Content-Length: {length[:SHOWN_BYTES]}")
    return _exactly(reader, int(length[:20]), bytes_max)


def _chunks(reader: BinaryIO, bytes_max: int) -> bytes:
    content = bytearray()
    while True:
        line = _line(reader)
        digits = line.partition(";")[0].rstrip()
        if not re.fullmatch("[0-9A-Fa-f]{1,16}", digits):
            message = f"{line[:SHOWN_BYTES]!r} is not a chunk size"
            raise WrongResponseError("malformed", message)
        size = int(digits, 16)
        if not size:
            while _line(reader):
                pass
            return bytes(content)
        content += _exactly(reader, size, bytes_max)
        _line(reader)


def _exactly(reader: BinaryIO, length: int, bytes_max: int) -> bytes:
    if length > bytes_max:
        message = f"{length:,} bytes of content are announced"
        raise WrongResponseError("endless", message)
    content = reader.read(length)
    if len(content) < length:
        message = f"closed after {len(content)} of {length} bytes of content"
        raise WrongResponseError("early_eof", message)
    return content


def _line(reader: BinaryIO) -> str:
    line = reader.readline(LINE_BYTES_MAX)
    if not line.endswith(b"\n"):
        raise WrongResponseError("early_eof", "closed before the end of a response")
    return line.rstrip(b"\r\n").decode("latin-1")
