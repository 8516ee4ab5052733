"""Requests to the management listener of a running server."""

from __future__ import annotations

import errno
import http.client
import json
import socket
from typing import Any

from bolide.config.address import Address
from bolide.errors import Error

TIMEOUT_S = 5.0
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


class _Connection(http.client.HTTPConnection):
    """A connection to an address of either kind."""

    def __init__(self, address: Address) -> None:
        host = LOOPBACK.get(address.host, address.host) or "localhost"
        super().__init__(host, address.port or None, timeout=TIMEOUT_S)
        self._path = address.path

    def connect(self) -> None:
        if not self._path:
            super().connect()
            return
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


class Client:
    """A management listener, as these commands use it."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def status(self) -> dict[str, Any]:
        """Return the status.

        Raises:
            UnreachableError: nothing responds; a NoListenerError if nothing listens.
            Error: something else than Bolide responds, or the address names no host.
        """
        content = self._ask("GET", "/status", {200})
        try:
            status = json.loads(content)
        except ValueError:
            raise self._stranger() from None
        if not isinstance(status, dict) or "workers" not in status:
            raise self._stranger()
        return status

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
            why = content[:200].decode(errors="replace").splitlines()
            raise Error(f"{self.address} refuses with {response.status}: {' '.join(why[:1])}")
        return response.headers, content

    def _no_host(self) -> Error:
        host = self.address.host
        return Error(f"cannot reach {self.address}: {host!r} is not a host; give HOST:PORT")

    def _stranger(self) -> Error:
        return Error(f"what responds at {self.address} is not a management listener of Bolide")
