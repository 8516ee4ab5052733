"""Certificates for tests, signed by an authority that only the test's clients trust."""

from __future__ import annotations

import datetime
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from support.client import Connection
from support.server import Server


@dataclass(frozen=True)
class Files:
    """A certificate with its chain, and its key, in two files."""

    certificate: Path
    key: Path

    @property
    def options(self) -> tuple[str, ...]:
        """The flags that name them."""
        return "--certificate", str(self.certificate), "--key", str(self.key)

    @property
    def x509(self) -> x509.Certificate:
        """The certificate itself."""
        return x509.load_pem_x509_certificate(self.certificate.read_bytes())

    def replace(self, other: Files) -> None:
        """Put the content of other files in the place of these, each at once."""
        os.replace(other.key, self.key)
        os.replace(other.certificate, self.certificate)

    def lock(self, password: bytes, form: serialization.PrivateFormat) -> None:
        """Give the key a password."""
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        how = serialization.BestAvailableEncryption(password)
        self.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, how))


class Authority:
    """Issues certificates into a folder."""

    def __init__(self) -> None:
        self.ca = trustme.CA()

    def issue(
        self,
        folder: Path,
        *names: str,
        common_name: str | None = None,
        days: float | None = None,
    ) -> Files:
        """Issue a certificate for names, which ends in so many days."""
        now = datetime.datetime.now(datetime.UTC)
        ends = None if days is None else now + datetime.timedelta(days=days)
        made = self.ca.issue_cert(*names, common_name=common_name, not_after=ends)
        name = f"{names[0].replace('*', 'any')}-{len(list(folder.iterdir()))}"
        files = Files(folder / f"{name}.crt", folder / f"{name}.key")
        files.key.touch(mode=0o600)
        made.private_key_pem.write_to_path(files.key)
        for blob in made.cert_chain_pems:
            blob.write_to_path(files.certificate, append=True)
        return files

    def write(self, path: Path) -> Path:
        """Write the authority's own certificate."""
        self.ca.cert_pem.write_to_path(path)
        return path

    def client(self, files: Files | None = None) -> ssl.SSLContext:
        """Create a client that trusts it, and presents a certificate if it has one."""
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
        self.ca.configure_trust(context)
        if files is not None:
            context.load_cert_chain(files.certificate, files.key)
        return context


class SecureConnection(Connection):
    """A connection with TLS."""

    socket: ssl.SSLSocket

    def __init__(
        self,
        server: Server,
        context: ssl.SSLContext,
        name: str | None = "localhost",
        session: ssl.SSLSession | None = None,
    ) -> None:
        super().__init__(server.address)
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname=name, session=session)
        except OSError:
            self.socket.close()
            raise

    @property
    def certificate(self) -> x509.Certificate:
        """The server's certificate."""
        der = self.socket.getpeercert(binary_form=True)
        assert der is not None
        return x509.load_der_x509_certificate(der)
