"""Requests to the management listener of a running server."""

from __future__ import annotations

import errno
import http.client
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from bolide.config.address import Address
from bolide.errors import Error
from bolide.manage import status
from bolide.visible import visible

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

TIMEOUT_S = 5.0
"""For a request and its whole response, however slowly that arrives."""
CONTENT_BYTES_MAX = 16 << 20
"""Of a response; that of a server with a thousand workers has less than one."""
READY = "serving"
"""What `/ready` says of a server that serves."""
NO_LISTENER = (errno.ECONNREFUSED, errno.ENOENT)
"""How connecting fails to a port, or a path, where nothing listens."""
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared only
"""How a server that listens everywhere is reached from here."""


class UnreachableError(Error):
    """Nothing responds at the address."""


class NoListenerError(UnreachableError):
    """Nothing listens at the address."""


Value = TypeVar("Value")


class _Socket(socket.socket):
    """A socket that waits until a time, for all that it does."""

    ends: float

    def until(self, ends: float) -> None:
        """Set the time, of the monotonic clock."""
        self.ends = ends
        self._wait_less()

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> int:
        """Read into a buffer."""
        self._wait_less()
        return super().recv_into(buffer, nbytes, flags)

    def _wait_less(self) -> None:
        left_s = self.ends - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self.settimeout(left_s)


class _Connection(http.client.HTTPConnection):
    """A connection to an address of either kind."""

    def __init__(self, address: Address) -> None:
        host = LOOPBACK.get(address.host, address.host) or "localhost"
        super().__init__(host, address.port or None)
        self._path = address.path
        self._ends = time.monotonic() + TIMEOUT_S

    def connect(self) -> None:
        if self._path:
            self._connect(socket.AF_UNIX, self._path)
            return
        found = _addresses(self.host, self.port, self._ends)
        failure: OSError = TimeoutError()
        for left, (family, address) in zip(range(len(found), 0, -1), found, strict=True):
            try:
                self._connect(family, address, 1 / left)
                return
            except OSError as error:
                failure = error
        raise failure

    def _connect(self, family: int, address: str | tuple[object, ...], share: float = 1.0) -> None:
        """Connect within this share of the time that is left."""
        made = _Socket(family, socket.SOCK_STREAM)
        try:
            now = time.monotonic()
            made.until(now + (self._ends - now) * share)
            made.connect(address)
            made.until(self._ends)
        except BaseException:
            made.close()
            raise
        self.sock = made


def _addresses(host: str, port: int, ends: float) -> list[tuple[int, tuple[object, ...]]]:
    """Return the family and the address of each place that a name stands for.

    A thread asks for them, because that has no time limit of its own.

    Raises:
        OSError: there are none, or none were found in time.
        UnicodeError: no name has such a label.
    """
    found: list[tuple[int, tuple[object, ...]]] = []
    failures: list[OSError | UnicodeError] = []

    def ask() -> None:
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.extend((each[0], each[4]) for each in infos)
        except (OSError, UnicodeError) as error:
            failures.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(max(0.0, ends - time.monotonic()))
    if thread.is_alive():
        raise TimeoutError("timed out")
    if failures:
        raise failures[0]
    return found


class Client:
    """A management listener, as these commands use it."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def status(self) -> status.Status:
        """Return the status.

        Raises:
            UnreachableError: nothing responds; a NoListenerError if nothing listens.
            Error: something else than Bolide responds, or the address names no host.
        """
        return self._status(status.read)

    def status_as_json(self) -> str:
        """Return the status as it was sent, indented.

        Raises:
            UnreachableError, Error: as `status`.
        """
        return self._status(status.as_json)

    def _status(self, read: Callable[[bytes], Value]) -> Value:
        content = self._ask("GET", "/status", {200})
        try:
            return read(content)
        except status.MalformedError:
            raise self._stranger() from None

    def metrics(self) -> dict[str, float]:
        """Return each sample of the metrics, by its name with its labels.

        Raises:
            UnreachableError, Error: as `status`.
        """
        samples = {}
        for line in self._ask("GET", "/metrics", {200}).decode(errors="replace").splitlines():
            name, _, value = line.rpartition(" ")
            try:
                if name and not line.startswith("#"):
                    samples[name] = float(value)
            except ValueError:
                raise self._stranger() from None
        return samples

    def ready(self) -> str:
        """Return the state of a server that serves requests, for a check of its health.

        Raises:
            UnreachableError: nothing responds.
            Error: it starts or drains, or is not Bolide.
        """
        state = self._ask("GET", "/ready", {200}).decode(errors="replace").strip()
        if state != READY:
            raise self._stranger()
        return state

    def command(self, name: str) -> str:
        """Have the server do something; return its number, by which the status has its result.

        It is "" for what has none.

        Raises:
            UnreachableError: nothing responds.
            Error: it refuses, or is not Bolide.
        """
        return self._exchange("POST", f"/{name}", {202})[0].get("Bolide-Number", "")

    def _ask(self, method: str, path: str, expected: set[int]) -> bytes:
        return self._exchange(method, path, expected)[1]

    def _exchange(
        self, method: str, path: str, expected: set[int]
    ) -> tuple[http.client.HTTPMessage, bytes]:
        try:
            connection = _Connection(self.address)
        except http.client.InvalidURL:
            raise self._no_host() from None
        try:
            connection.request(method, path, headers={"Bolide-Command": "yes"})
            response = connection.getresponse()
            content = response.read(CONTENT_BYTES_MAX)
        except OSError as error:
            reason = error.strerror or str(error) or "it does not respond"
            text = f"cannot reach {self.address}: {reason}; is that the server's --management?"
            kind = NoListenerError if error.errno in NO_LISTENER else UnreachableError
            raise kind(text) from None
        except UnicodeError:  # of a label that the domain name system does not allow
            raise self._no_host() from None
        except http.client.HTTPException:
            raise self._stranger() from None
        finally:
            connection.close()
        if response.status not in expected:
            why = visible(" ".join(content[:200].decode(errors="replace").splitlines()[:1]))
            raise Error(f"{self.address} refuses with {response.status}: {why}")
        return response.headers, content

    def _no_host(self) -> Error:
        host = self.address.host
        return Error(f"cannot reach {self.address}: {host!r} is not a host; give HOST:PORT")

    def _stranger(self) -> Error:
        return Error(f"what responds at {self.address} is not a management listener of Bolide")
