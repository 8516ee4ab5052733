"""Reads certificates and keys, and notices when their files change.

The supervisor reads them, so that every worker uses the same ones: a worker that starts inherits
them, and one that runs gets new ones through a socket, in a file that is only in memory.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bolide import _core
from bolide.config.tls import Pair
from bolide.errors import ConfigError
from bolide.server.logs import logger

if TYPE_CHECKING:
    from bolide.config.settings import Settings

CHECK_S = 2.0
"""How often the files are looked at. New ones are used when two looks in a row see the same."""
DAY_S = 86_400
SOON_DAYS = 14
DEVELOPMENT_NAMES = ["localhost", "127.0.0.1", "::1"]
MESSAGE = b"t"

Content = tuple[list[tuple[bytes, bytes, bytes | None]], bytes | None]
"""What the files contain: certificates, key and password of each pair; and clients' authorities."""
Signature = tuple[tuple[int, int, int] | None, ...]
"""Of each file: its modification time, its inode and its length; None if there is none."""


class Certificates:
    """The certificates of a server, as they are used now.

    Raises:
        ConfigError: a file cannot be read, or what it contains cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pairs = settings.pairs
        self._paths = [path for pair in self._pairs for path in pair.paths]
        self._paths += [settings.client_ca] if settings.client_ca else []
        self._secret = _core.TicketSecret()
        self._own: tuple[bytes, bytes] | None = None
        self._used = self._seen = self._signature()
        self._content = self._read()
        self.current = self._offer(self._content)
        self.generation = 0
        """How often other certificates have replaced those of the start."""
        self.next_look = time.monotonic() + CHECK_S
        self._warn_from = 0.0
        self._announce_own()
        self._warn()

    def look(self) -> bool:
        """Use the files' content if it has changed; return whether other certificates are used."""
        self.next_look = time.monotonic() + CHECK_S
        self._secret.advance()
        self._warn()
        before, self._seen = self._seen, self._signature()
        if self._seen == self._used or self._seen != before:
            return False
        return self.renew()

    def renew(self) -> bool:
        """Use the files' content; return whether it could be used. If not, that is logged."""
        self._used = self._seen = self._signature()
        try:
            content = self._read()
            self.current = self._offer(content)
        except ConfigError as error:
            logger.error("%s; the previous certificates remain in use", error)
            return False
        self._content = content
        self.generation += 1
        count = len(self._pairs)
        logger.info("the certificate%s read again", " was" if count == 1 else "s were")
        self._warn_from = 0.0
        self._warn()
        return True

    def take(self, fd: int) -> bool:
        """Use what `Channel.send` has sent to this process; return whether there was anything.

        Raises:
            EOFError: the supervisor has ended.
        """
        received = _receive(fd)
        if received is None:
            return False
        self._content = msgspec.msgpack.decode(received, type=Content)
        self.current = self._offer(self._content)
        return True

    def in_memory(self) -> int:
        """Write what the files contain to memory; return a descriptor, which the caller closes."""
        return _core.memory_file(msgspec.msgpack.encode(self._content))

    def _signature(self) -> Signature:
        return tuple(_stat(path) for path in self._paths)

    def _read(self) -> Content:
        pairs = [self._read_pair(pair) for pair in self._pairs]
        ca = self._settings.client_ca
        return pairs, _bytes("client_ca", ca) if ca else None

    def _read_pair(self, pair: Pair) -> tuple[bytes, bytes, bytes | None]:
        if pair.is_self_signed:
            self._own = self._own or _core.self_signed(DEVELOPMENT_NAMES)
            return (*self._own, None)
        password = _bytes("key_password_file", pair.password) if pair.password else None
        if password is not None:
            password = password.partition(b"\n")[0].removesuffix(b"\r")
        return _bytes("certificate", pair.certificate), _bytes("key", pair.key), password

    def _offer(self, content: Content) -> _core.TlsConfig:
        pairs, client_ca = content
        try:
            return _core.TlsConfig(
                pairs,
                protocols=list(self._settings.alpn),
                minimum=self._settings.tls_minimum,
                client_ca=client_ca,
                client_certificate=self._settings.client_certificate,
                tickets=self._secret,
            )
        except ValueError as error:
            raise ConfigError(_explained(error.args, self._pairs, self._settings)) from None

    def _announce_own(self) -> None:
        for pair, (*_, fingerprint) in zip(self._pairs, self.current.certificates, strict=True):
            if pair.is_self_signed:
                names = f"{', '.join(DEVELOPMENT_NAMES[:-1])} and {DEVELOPMENT_NAMES[-1]}"
                text = "the certificate is self-signed, for %s: for development only; SHA-256 %s"
                logger.warning(text, names, fingerprint)

    def _warn(self) -> None:
        """Once a day, log which certificates are not valid, or not for long."""
        if time.monotonic() < self._warn_from:
            return
        self._warn_from = time.monotonic() + DAY_S
        for pair, (_, first, last, _) in zip(self._pairs, self.current.certificates, strict=True):
            if not pair.is_self_signed and (text := validity(first, last, time.time())):
                logger.warning("the certificate %s %s", pair.certificate, text)


def validity(first: float, last: float, now: float) -> str:
    """Return what is wrong with a validity, given in seconds since 1970; "" if nothing is."""
    if now > last:
        return f"expired on {_date(last)}; clients refuse it: renew it"
    if now < first:
        return f"is valid only from {_date(first)} on; is the clock of this machine right?"
    if last - now < SOON_DAYS * DAY_S:
        return f"expires on {_date(last)}; renew it"
    return ""


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


@dataclass(slots=True)
class Channel:
    """The supervisor's end of the socket through which one worker gets new certificates."""

    fd: int
    generation: int
    """Of the certificates that the worker has, or is about to take."""

    def send(self, certificates: Certificates) -> None:
        """Send what is in use, unless the worker has it. If there is no room now, try again later.

        It needs only room for a descriptor, however long the certificates are.
        """
        if self.generation == certificates.generation:
            return
        memory_fd = certificates.in_memory()
        end = socket.socket(fileno=self.fd)
        try:
            socket.send_fds(end, [MESSAGE], [memory_fd])
            self.generation = certificates.generation
        except BlockingIOError:
            pass
        except OSError:  # the worker has ended
            self.generation = certificates.generation
        finally:
            end.detach()
            os.close(memory_fd)


def channel(generation: int) -> tuple[Channel, int]:
    """Create a channel; return the supervisor's end, and the descriptor for the worker."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    theirs.setblocking(False)
    return Channel(ours.detach(), generation), theirs.detach()


def _receive(fd: int) -> bytes | None:
    """Return what was sent last; None if nothing was. Raises `EOFError` at the end."""
    end = socket.socket(fileno=fd)
    content = None
    try:
        while True:
            message, fds, *_ = socket.recv_fds(end, len(MESSAGE), 1)
            for memory_fd in fds:
                with open(memory_fd, "rb") as file:
                    file.seek(0)
                    content = file.read()
            if not message:
                raise EOFError
    except BlockingIOError:
        return content
    finally:
        end.detach()


def _stat(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _bytes(option: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        remedy = "give the path of a file in PEM"
        if isinstance(error, PermissionError):
            remedy = "let the user of the server read it"
        if option == "key_password_file":
            remedy = remedy.replace("in PEM", "with the password")
        raise ConfigError(f"{option}: cannot read {path}: {error.strerror}; {remedy}") from None


REMEDIES = {
    ("certificate", "missing"): "has no certificate in PEM; "
    "`openssl x509 -inform der -in FILE -out cert.pem` converts DER",
    ("client_ca", "missing"): "has no certificate in PEM; "
    "`openssl x509 -inform der -in FILE -out ca.pem` converts DER",
    ("key", "missing"): "has no private key in PEM; "
    "`openssl pkey -inform der -in FILE -out key.pem` converts DER",
    ("key", "locked"): "has a password; give the file with it too (--key-password-file PATH)",
    ("key", "encryption"): "is encrypted in a way that is not supported; "
    "`openssl pkcs8 -topk8 -in FILE -out key.pem` writes it in another",
}


def _explained(arguments: tuple[Any, ...], pairs: tuple[Pair, ...], settings: Settings) -> str:
    """Return the message for an error of the core: the file, what is wrong, and what to do."""
    if len(arguments) != 4:
        return str(arguments[0])
    option, index, kind, text = arguments
    pair = pairs[index]
    if kind == "mismatch":
        return f"key: {pair.key} is not the key of the certificate {pair.certificate}; give its own"
    if kind == "password":
        return f"key_password_file: the password in {pair.password} does not open {pair.key}"
    path = {"certificate": pair.certificate, "client_ca": settings.client_ca}.get(option, pair.key)
    if remedy := REMEDIES.get((option, kind)):
        return f"{option}: {path} {remedy}"
    return f"{option}: {path} cannot be used: {text}"
