"""TLS of a race: the certificate that all servers present, and connections that prove it.

The certificate is ECDSA P-256, signed by its own key, and made for each race.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from bolide import _core

NAMES = ("127.0.0.1", "localhost")
"""Names of every certificate, by the first of which the race verifies it."""
CERTIFICATE = "certificate.pem"
KEY = "certificate.pem.key"
"""The name that HAProxy looks for."""
ALPN = {"1.0": "http/1.1", "1.1": "http/1.1", "2": "h2"}
"""Names of the versions of HTTP (RFC 7301)."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both in PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path) -> None:
        """Write both to a folder."""
        (folder / CERTIFICATE).write_bytes(self.certificate)
        (folder / KEY).touch(mode=0o600)
        (folder / KEY).write_bytes(self.key)


def new_pair(address: str = NAMES[0]) -> Pair:
    """Make a certificate for an address of this machine and its loopback one, and its key."""
    return Pair(*_core.self_signed(tuple(dict.fromkeys((*NAMES, address)))))


class WrongHandshakeError(Exception):
    """A handshake that did not result in what the load needs, in one line."""


class Client:
    """What connects by TLS, trusts only the race's certificate and offers one protocol."""

    def __init__(self, pair: Pair, http_version: str) -> None:
        self._context = ssl.create_default_context(cadata=pair.certificate.decode())
        self._protocol = ALPN[http_version]
        self._context.set_alpn_protocols([self._protocol])
        self._session: ssl.SSLSession | None = None
        self.agreed = ""
        """What the last handshake resulted in: version, cipher suite and protocol."""

    def connect(self, stream: socket.socket) -> ssl.SSLSocket:
        """Do the handshake on a connected socket, which the result replaces.

        Raises:
            OSError: it fails, for example because the certificate is another one.
            WrongHandshakeError: another protocol was selected.
        """
        secured = self._context.wrap_socket(stream, server_hostname=NAMES[0], session=self._session)
        selected = secured.selected_alpn_protocol()
        cipher = secured.cipher()
        self.agreed = f"{secured.version()}, {cipher[0] if cipher else 'no cipher'}"
        self.agreed += f", {selected or 'no protocol by ALPN'}"
        # HTTP/1.1 is what a server without ALPN serves.
        if selected != self._protocol and (selected or self._protocol == "h2"):
            secured.close()
            raise WrongHandshakeError(
                f"{self._protocol} was offered, the server selected {selected}"
            )
        return secured

    def keep_session(self, used: ssl.SSLSocket) -> None:
        """Offer the session of a connection, on which a response was read, from now on."""
        self._session = used.session
