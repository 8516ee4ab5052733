"""Reads certificates and keys, and notices when their files change.

The supervisor reads them, so that every worker uses the same ones: a worker that starts inherits
them, and one that runs gets new ones through a socket (`channel.py`). It also opens keys
that have a password, which takes long, so that no worker has to.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from bolide import _core
from bolide.config import bounded
from bolide.errors import ConfigError
from bolide.server.logs import logger
from bolide.server.tls import pem
from bolide.server.tls.patience import HangsError, NoThreadError, Patience

if TYPE_CHECKING:
    from bolide.config.settings import Settings
    from bolide.config.tls import Pair

CHECK_S = 2.0
"""How often the files are looked at. New ones are used when two looks in a row see the same."""
DAY_S = 86_400
SOON_DAYS = 14
LIST_SOON_SHARE = 0.25
"""Share of the validity of a revocation list that is left when the first warning is logged."""
LIST_BYTES_MAX = 1 << 20
RSA_BITS_MAX = 3072
"""Above these, a handshake takes so long that other clients notice."""
HTTP10, HTTP11 = "http/1.0", "http/1.1"
DEVELOPMENT_NAMES = ["localhost", "127.0.0.1", "::1"]
START_S = 10.0
"""How long the files may take to be read at the start: a network file system may be mounted."""
WAIT_S = 2.0
"""The same later. The supervisor does nothing else meanwhile, and reading takes milliseconds."""

NO_THREAD = "no thread can be started (ulimit -u, pids.max)"

OPTIONS = (
    "certificate",
    "key",
    "key_password_file",
    "client_ca",
    "client_crl",
    "client_certificate",
    "tls_minimum",
    "alpn",
)
"""Those that say which certificates there are, and what is offered with them."""

T = TypeVar("T")
Content = tuple[list[tuple[bytes, bytes]], bytes | None, list[bytes]]
"""What the files contain: certificates and opened key of each pair; clients' authorities; lists of
certificates that they have revoked."""
Signature = tuple[tuple[int, int, int] | None, ...]
"""Of each file: its modification time, its inode and its length; None if there is none."""


class UnreadableError(ConfigError):
    """A file cannot be read. It is tried again: its owner, or an upper folder's, may change."""


class Certificates:
    """The certificates of a server, as they are used now.

    Raises:
        ConfigError: a file cannot be read, or what it contains cannot be used.
    """

    def __init__(self, settings: Settings, after: Certificates | None = None) -> None:
        """Read the files of the settings; `after` are those that they replace in a reload."""
        self._settings = settings
        self._pairs = settings.pairs
        self._files = _files(settings)
        self._patience = Patience()
        self._within_s = START_S if after is None else WAIT_S
        self._at = self._files[0] if self._files else ("certificate", "")
        """The file that is being read."""
        self._exposed: set[str] = set()
        """Files that others may read, of which that was logged."""
        self._secret = _core.TicketSecret()
        self._own: tuple[bytes, bytes] | None = None
        self._unreadable: UnreadableError | None = None
        """Why the last attempt to read the files failed, if one of them could not be read."""
        self._used = self._seen = self._signature()
        self._content = self._read()
        self.current = self._offer(self._content)
        self.generation: int = 0 if after is None else after.generation + 1
        """How often other certificates have replaced those of the start."""
        self.next_look = time.monotonic() + CHECK_S
        self._warn_from = 0.0
        self._within_s = WAIT_S
        self._announce_own()
        self._warn_of_others()
        self._warn_of_order()
        self._warn_of_cost()
        self._warn()

    def serves(self, settings: Settings) -> bool:
        """Return whether these are the certificates of other settings too, used in the same way."""
        return all(getattr(settings, name) == getattr(self._settings, name) for name in OPTIONS)

    def look(self) -> bool:
        """Use the files' content if it has changed; return whether other certificates are used."""
        return self.is_due() and self.renew(is_asked=False)

    def is_due(self) -> bool:
        """Return whether the files' content is to be read: it changed, or could not be read."""
        self.next_look = time.monotonic() + CHECK_S
        self.forget_keys()
        self._warn()
        before = self._seen
        try:
            self._seen = self._signature()
        except UnreadableError as error:
            self.keep(error, is_asked=False)
            return False
        return self._seen == before and (self._seen != self._used or self._unreadable is not None)

    def renew(self, *, is_asked: bool = True) -> bool:
        """Use the files' content; return whether it could be used.

        If not, that is logged: each time it `is_asked` for, or else if the reason is a new one.
        """
        try:
            self._used = self._seen = self._signature()
            content = self._read()
            self.current = self._offer(content)
        except ConfigError as error:
            self.keep(error, is_asked=is_asked)
            return False
        self._content, self._unreadable = content, None
        self.generation += 1
        what = " was" if len(self._pairs) == 1 else "s were"
        if not all(pair.is_self_signed for pair in self._pairs):
            logger.info("the certificate%s read again: %s", what, self._described())
        self._warn_of_others()
        self._warn_of_order()
        self._warn_of_cost()
        self._warn_from = 0.0
        self._warn()
        return True

    def keep(self, error: ConfigError, *, is_asked: bool) -> None:
        """Go on with the previous certificates, and say why if that is new."""
        known = str(self._unreadable)
        self._unreadable = error if isinstance(error, UnreadableError) else None
        if is_asked or str(error) != known:
            logger.error("%s; the previous certificates remain in use", error)

    def forget_keys(self) -> None:
        """Forget the keys of tickets that are not accepted any more."""
        self._secret.advance()

    def take(self, received: bytes) -> None:
        """Use what `in_memory` wrote in another process."""
        content = msgspec.msgpack.decode(received, type=Content)
        self.current = self._offer(content)
        self._content = content

    def in_memory(self) -> int:
        """Write what the files contain to memory; return a descriptor, which the caller closes."""
        return _core.memory_file(msgspec.msgpack.encode(self._content))

    def _signature(self) -> Signature:
        return tuple(self._of_each_file(lambda _, path: _stat(path)).values())

    def _of_each_file(self, ask: Callable[[str, str], T]) -> dict[tuple[str, str], T]:
        """Return the result of asking for each file, for the option that names it and its path.

        Raises:
            UnreadableError: one of them does not respond in time, or no thread can be started.
        """

        def ask_all() -> dict[tuple[str, str], T]:
            found = {}
            for file in self._files:
                self._at = file
                found[file] = ask(*file)
            return found

        try:
            return self._patience.run(ask_all, self._within_s)
        except NoThreadError:
            option, path = self._files[0]
            raise UnreadableError(f"{option}: {path} could not be read: {NO_THREAD}") from None
        except HangsError:
            (option, path), remedy = self._at, "is its file system available?"
            text = f"{option}: {path} could not be read within {self._within_s:g} s; {remedy}"
            raise UnreadableError(text) from None

    def _read(self) -> Content:
        found = self._of_each_file(_bytes)
        pairs = [self._read_pair(index, found) for index in range(len(self._pairs))]
        ca = self._settings.client_ca
        lists = [found["client_crl", path] for path in self._settings.client_crl]
        return pairs, found["client_ca", ca] if ca else None, lists

    def _read_pair(self, index: int, found: dict[tuple[str, str], bytes]) -> tuple[bytes, bytes]:
        pair = self._pairs[index]
        if pair.is_self_signed:
            self._own = self._own or _core.self_signed(DEVELOPMENT_NAMES)
            return self._own
        certificate, key = found["certificate", pair.certificate], found["key", pair.key]
        if pair.password:
            password = found["key_password_file", pair.password]
            password = password.partition(b"\n")[0].removesuffix(b"\r")
            try:
                key = _core.opened_key(key, password)
            except ValueError as error:
                option, _, *rest = error.args
                arguments = (option, index, *rest)
                raise ConfigError(_explained(arguments, key, self._settings)) from None
        return certificate, key

    def _offer(self, content: Content) -> _core.TlsConfig:
        pairs, client_ca, lists = content
        try:
            return _core.TlsConfig(
                [(certificate, key, None) for certificate, key in pairs],
                protocols=protocols(self._settings.alpn),
                minimum=self._settings.tls_minimum,
                client_ca=client_ca,
                client_crl=lists,
                client_certificate=self._settings.client_certificate,
                tickets=self._secret,
            )
        except ValueError as error:
            wrong = _named(error.args, content)
            raise ConfigError(_explained(error.args, wrong, self._settings)) from None

    def _described(self) -> str:
        """Return of each pair its file, its first name and the end of its validity."""
        return "; ".join(
            f"{pair.certificate}{f' for {names[0]}' if names else ''}, "
            f"valid until {_date(facts.last_s)}"
            for pair, facts in self._each()
            for names in [facts.names or facts.addresses]
        )

    def _each(self) -> list[tuple[Pair, _core.CertificateFacts]]:
        return list(zip(self._pairs, self.current.certificates, strict=True))

    def _announce_own(self) -> None:
        for pair, facts in self._each():
            if pair.is_self_signed:
                names = f"{', '.join(DEVELOPMENT_NAMES[:-1])} and {DEVELOPMENT_NAMES[-1]}"
                text = "the certificate is self-signed, for %s: for development only; SHA-256 %s"
                logger.warning(text, names, facts.fingerprint)

    def _warn_of_order(self) -> None:
        """Log which chains some clients do not accept, and which certificates no client gets."""
        for index, (pair, facts) in enumerate(self._each()):
            if facts.disorder:
                logger.warning("the certificate %s %s", pair.certificate, facts.disorder)
            if facts.absent_issuer:
                # An authority of one's own often issues without an intermediate one.
                text = "the certificate %s is alone in its file; if %s is an intermediate authority"
                text += ", clients need its certificate there too (fullchain.pem of certbot)"
                logger.info(text, pair.certificate, facts.absent_issuer)
            if index and not facts.names:
                text = "no client gets the certificate %s: it has no DNS name, by which clients "
                text += "would ask for it; put it first"
                logger.warning(text, pair.certificate)

    def _warn_of_others(self) -> None:
        """Log once which secrets other users may read."""
        try:
            found = self._of_each_file(_owner_and_mode)
        except UnreadableError:
            return
        for (option, path), (owner, mode) in found.items():
            is_secret = option in ("key", "key_password_file")
            if is_secret and is_exposed(owner, mode) and path not in self._exposed:
                self._exposed.add(path)
                what = "password file" if option == "key_password_file" else "key"
                text = "the %s %s is accessible to other users (mode %04o); chmod 600 ends that"
                logger.warning(text, what, path, mode)

    def _warn_of_cost(self) -> None:
        """Log which lists are not used, and what makes handshakes slow."""
        for pair, facts in self._each():
            if facts.rsa_bits is not None and facts.rsa_bits > RSA_BITS_MAX:
                text = "the key %s is an RSA key of %d bits: while one client connects, the others "
                text += "of its worker wait for milliseconds; an ECDSA key (P-256) is much faster"
                logger.warning(text, pair.key, facts.rsa_bits)
        for listed in self.current.revocation_lists:
            path = self._settings.client_crl[listed.file]
            if listed.is_superseded:
                text = "the revocation list of %s in %s that was issued on %s is not used: "
                text += "there is a newer one"
                logger.info(text, listed.issuer, path, _date(listed.first_s))
            elif listed.size_bytes > LIST_BYTES_MAX:
                text = "the revocation list of %s in %s has %.1f MiB, all of which is hashed for "
                text += "each new client with a certificate, while the others of its worker wait; "
                text += "can the authority leave out certificates that have expired?"
                logger.warning(text, listed.issuer, path, listed.size_bytes / (1 << 20))

    def _warn(self) -> None:
        """Once a day, and when that changes, log which files are not valid, or not for long."""
        if time.monotonic() < self._warn_from:
            return
        now, wait_s = time.time(), float(DAY_S)
        for pair, facts in self._each():
            text = validity(facts.first_s, facts.last_s, now)
            if text and not pair.is_self_signed:
                logger.warning("the certificate %s %s", pair.certificate, text)
        for listed in self.current.revocation_lists:
            if listed.last_s is None or listed.is_superseded:
                continue
            soon = listed.last_s - LIST_SOON_SHARE * (listed.last_s - listed.first_s)
            wait_s = min([wait_s, *(at - now for at in (soon, listed.last_s) if at > now)])
            text = validity_of_list(soon, listed.last_s, now)
            if text:
                path = self._settings.client_crl[listed.file]
                logger.warning("the revocation list of %s in %s %s", listed.issuer, path, text)
        self._warn_from = time.monotonic() + wait_s


def protocols(alpn: Sequence[str]) -> list[str]:
    """Return the protocols to accept in a handshake, in order of preference.

    A client of HTTP/1.0 may offer that by its own name (RFC 7301 section 6).
    """
    return [*alpn, HTTP10] if HTTP11 in alpn else list(alpn)


def validity(first: float, last: float, now: float) -> str:
    """Return what is wrong with a validity, given in seconds since 1970; "" if nothing is."""
    if now > last:
        return f"expired on {_date(last)}; clients refuse it: renew it"
    if now < first:
        return f"is valid only from {_date(first)} on; is the clock of this machine right?"
    if last - now < SOON_DAYS * DAY_S:
        return f"expires on {_date(last)}; renew it"
    return ""


def validity_of_list(soon: float, last: float, now: float) -> str:
    """Return what is wrong with the validity of a revocation list; "" if nothing is."""
    if now >= last:
        return f"expired on {_date(last)}; its clients are refused: replace it"
    if now >= soon:
        return f"expires on {_date(last)}, and its clients are refused then; replace it before"
    return ""


def is_exposed(owner: int, mode: int) -> bool:
    """Return whether others than its owner may read or change a secret.

    A group may read what root owns: that is how a server's user gets a key (as in PostgreSQL).
    """
    return bool(mode & (0o037 if owner == 0 else 0o077))


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _files(settings: Settings) -> list[tuple[str, str]]:
    """Return every file that is read, with the option that names it, once each."""
    files = []
    for pair in settings.pairs:
        paths = zip(("certificate", "key", "key_password_file"), pair.paths, strict=False)
        files += list(paths)
    files += [("client_ca", settings.client_ca)] if settings.client_ca else []
    files += [("client_crl", path) for path in settings.client_crl]
    return list(dict.fromkeys(files))


def _stat(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _owner_and_mode(_: str, path: str) -> tuple[int, int]:
    """Return who owns a file, and its permissions; none if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_uid, stat.S_IMODE(found.st_mode)


def _bytes(option: str, path: str) -> bytes:
    remedy = "give the path of a file in PEM"
    if option == "key_password_file":
        remedy = "give the path of a file with the password"
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # of which reading says what is wrong
            # Editors of Windows write a mark of the encoding first.
            return bounded.read(path, bounded.PEM_BYTES_MAX).removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        if isinstance(error, PermissionError):
            remedy = "let the user of the server read it"
        text = f"{option}: cannot read {path}: {error.strerror}; {remedy}"
        raise UnreadableError(text) from None
    raise UnreadableError(f"{option}: {path} is not a regular file; {remedy}")


REMEDIES = {
    ("certificate", "order"): "starts with another certificate than that of its key: {text}; put "
    "that one first, and then those that lead to its root",
    ("certificate", "version"): "is of X.509 version {text}, which has no extensions and thus no "
    "names that clients verify; issue it again with them: `openssl x509 -req ... -extfile FILE`, "
    "where FILE has subjectAltName=DNS:NAME",
    ("key", "unusable"): "{text}; " + pem.NEW_KEY,
    ("key", "locked"): "has a password; give the file with it too (--key-password-file PATH)",
    ("key", "encryption"): "is encrypted in a way that is not supported; "
    "`openssl pkcs8 -topk8 -in FILE -out key.pem` writes it in another",
}


def _named(arguments: tuple[Any, ...], content: Content) -> bytes:
    """Return the content of the file that an error of the core names."""
    option, index = arguments[:2] if len(arguments) == 4 else ("", 0)
    pairs, client_ca, lists = content
    if option == "client_crl":
        return lists[index]
    if option == "client_ca":
        return client_ca or b""
    return pairs[index][option == "key"] if pairs else b""


def _explained(arguments: tuple[Any, ...], content: bytes, settings: Settings) -> str:
    """Return the message for an error of the core: the file, what is wrong, and what to do."""
    if len(arguments) != 4:
        return str(arguments[0])
    option, index, kind, text = arguments
    if option == "client_crl":
        path = settings.client_crl[index]
        return f"{option}: {path} " + (
            pem.remedy(option, content) if kind == "missing" else f"cannot be used: {text}"
        )
    pair = settings.pairs[index]
    if kind == "mismatch":
        return f"key: {pair.key} is not the key of the certificate {pair.certificate}; give its own"
    if kind == "password":
        return f"key_password_file: the password in {pair.password} does not open {pair.key}"
    path = {"certificate": pair.certificate, "client_ca": settings.client_ca}.get(option, pair.key)
    if kind == "missing":
        return f"{option}: {path} {pem.remedy(option, content)}"
    if remedy := REMEDIES.get((option, kind)):
        return f"{option}: {path} {remedy.replace('{text}', text)}"
    return f"{option}: {path} cannot be used: {text}"
