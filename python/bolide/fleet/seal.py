"""Seals: they prove that a message comes from somebody who has the fleet's secret, and is no copy.

A session starts with a nonce of the coordinator and one of the agent. Both are in the code of every
message (HMAC-SHA-256), with its direction and its number, and so is the message itself, which names
its run. So neither side accepts what was sent in another session, earlier, or by itself. Seals hide
nothing: who can read the network can read the messages, except with `tls://`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bolide.errors import ConfigError, Error
from bolide.fleet import wire
from bolide.fleet.link import REPLY_S, Link

SECRET_BYTES_MIN = 16
NONCE_BYTES = 16
NONCE_CHARS_MAX = 64
SESSIONS_MAX = 64
"""An agent knows so many sessions; those that were used longest ago are forgotten, and end."""
GREETED_MAX = 64
"""The same for sessions in which nothing was sent yet, for which nobody needs the secret."""
QUESTION, REPLY, GREETING = b"question", b"reply", b"greeting"


class SealError(Error):
    """The two sides do not have the same secret."""


def secret_in(path: Path) -> bytes:
    """Read a secret from a file; whitespace around it does not count.

    Raises:
        ConfigError: the file cannot be read, or is too short.
    """
    how = f"make one with: (umask 077; openssl rand -hex 32 > {path})"
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"--secret-file: cannot read {path}: {error.strerror}; {how}") from None
    if len(secret) < SECRET_BYTES_MIN:
        raise ConfigError(
            f"--secret-file: {path} has {len(secret)} bytes, and a secret has at least "
            f"{SECRET_BYTES_MIN}; {how}"
        )
    return secret


@dataclass(slots=True)
class Session:
    """A session as one side knows it, with the number of its last message."""

    secret: bytes
    coordinator_nonce: str
    agent_nonce: str
    number: int = 0

    def code(self, direction: bytes, number: int, message: bytes) -> str:
        """Return the code of a message."""
        made = hmac.new(self.secret, digestmod=hashlib.sha256)
        nonces = (self.coordinator_nonce.encode(), self.agent_nonce.encode())
        for part in (b"bolide fleet", direction, *nonces, b"%d" % number, message):
            made.update(b"%d:" % len(part))  # otherwise two messages could have the same octets
            made.update(part)
        return made.hexdigest()

    def is_code(self, code: str, direction: bytes, number: int, message: bytes) -> bool:
        """Return whether this is the code of a message, in a time that does not depend on it."""
        expected = self.code(direction, number, message)
        return hmac.compare_digest(expected.encode(), code.encode(errors="replace"))

    def sealed(self, envelope: wire.Envelope, direction: bytes, number: int) -> bytes:
        """Return the bytes of a message with its seal."""
        code = self.code(direction, number, bytes(envelope.message))
        seal = wire.Seal(session=self.agent_nonce, number=number, code=code)
        return envelope.sealed(seal)


@dataclass(frozen=True, slots=True)
class Stamp:
    """The question to which a reply belongs."""

    session: Session
    number: int


class Guard:
    """The seals of an agent; without a secret, everything that reaches it is accepted."""

    def __init__(self, secret: bytes | None) -> None:
        self._secret = secret
        self._greeted: OrderedDict[str, Session] = OrderedDict()
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def greet(self, nonce: str) -> wire.Greeting:
        """Begin a session.

        Raises:
            SealError: there is no secret.
            Error: the nonce is none.
        """
        if self._secret is None:
            raise SealError("it has no secret; start it with the --secret-file of `bolide load`")
        if len(nonce) > NONCE_CHARS_MAX:
            raise Error("the coordinator's nonce is too long")
        session = Session(self._secret, nonce, secrets.token_hex(NONCE_BYTES))
        self._greeted[session.agent_nonce] = session
        if len(self._greeted) > GREETED_MAX:
            self._greeted.popitem(last=False)
        code = session.code(GREETING, 0, b"")
        return wire.Greeting(nonce=session.agent_nonce, code=code)

    def check(self, envelope: wire.Envelope) -> Stamp | None:
        """Check the seal of a question; return what its reply needs.

        Raises:
            SealError: it is not from somebody with the secret.
            Error: it was sent before, or in a session that has ended.
        """
        seal = envelope.seal
        if self._secret is None:
            if seal is not None:
                raise SealError(
                    "it has no secret; start it with the --secret-file of `bolide load`"
                )
            return None
        if seal is None:
            raise SealError("it has a secret; give the same --secret-file to `bolide load`")
        session = self._sessions.get(seal.session) or self._greeted.get(seal.session)
        if session is None:
            raise Error("it does not know this session")
        if not session.is_code(seal.code, QUESTION, seal.number, bytes(envelope.message)):
            raise SealError("a message is not sealed with its secret")
        if seal.number <= session.number:
            raise Error("a message was sent before")
        session.number = seal.number
        self._greeted.pop(seal.session, None)
        self._sessions[seal.session] = session
        self._sessions.move_to_end(seal.session)
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return Stamp(session, seal.number)

    def sealed(self, reply: wire.Reply, stamp: Stamp | None) -> bytes:
        """Return the bytes of a reply, with a seal if the question had a right one."""
        if stamp is None:
            return wire.encode(reply)
        return stamp.session.sealed(wire.enveloped(reply), REPLY, stamp.number)


class SealedLink:
    """A link whose messages are sealed."""

    def __init__(self, link: Link, secret: bytes) -> None:
        self._link = link
        self._secret = secret
        self._sessions: dict[str, Session] = {}

    def agents(self) -> dict[str, str]:
        """Return the addresses of all agents, with their names."""
        return self._link.agents()

    def call(
        self, messages: Mapping[str, bytes], timeout_s: float = REPLY_S
    ) -> dict[str, bytes | Exception]:
        """Send each agent its message at the same time; a reply that is not sealed is an error."""
        unknown = [each for each in messages if each not in self._sessions]
        failed = self._greet(unknown, timeout_s) if unknown else {}
        sealed: dict[str, bytes] = {}
        numbers: dict[str, int] = {}
        for address, octets in messages.items():
            if address not in failed:
                session = self._sessions[address]
                session.number += 1
                numbers[address] = session.number
                sealed[address] = session.sealed(wire.envelope(octets), QUESTION, session.number)
        replies = self._link.call(sealed, timeout_s)
        opened = {key: self._opened(key, numbers[key], each) for key, each in replies.items()}
        return failed | opened

    def close(self) -> None:
        """Let go of the agents."""
        self._link.close()

    def _greet(self, addresses: Iterable[str], timeout_s: float) -> dict[str, bytes | Exception]:
        """Begin sessions; return what went wrong."""
        nonces = {address: secrets.token_hex(NONCE_BYTES) for address in addresses}
        messages = {key: wire.encode(wire.Greet(nonce=each)) for key, each in nonces.items()}
        failed: dict[str, bytes | Exception] = {}
        for address, octets in self._link.call(messages, timeout_s).items():
            if isinstance(octets, Exception):
                failed[address] = octets
                continue
            try:
                reply = wire.reply(octets)
            except Error:
                failed[address] = octets  # of another version, which the reader of it reports
                continue
            if not isinstance(reply, wire.Greeting):
                failed[address] = octets if isinstance(reply, wire.Refusal) else _unsealed()
                continue
            session = Session(self._secret, nonces[address], reply.nonce)
            if session.is_code(reply.code, GREETING, 0, b""):
                self._sessions[address] = session
            else:
                failed[address] = ConfigError(
                    "it has another secret; give the same --secret-file to both"
                )
        return failed

    def _opened(self, address: str, number: int, octets: bytes | Exception) -> bytes | Exception:
        """Check the seal of a reply."""
        if isinstance(octets, Exception):
            return octets
        try:
            envelope = wire.envelope(octets)
            if envelope.seal is None:
                is_refusal = isinstance(wire.reply(octets), wire.Refusal)
                return octets if is_refusal else _unsealed()
        except Error:
            return octets
        message = bytes(envelope.message)
        is_right = self._sessions[address].is_code(envelope.seal.code, REPLY, number, message)
        return octets if is_right else _unsealed()


def _unsealed() -> Error:
    return Error("its reply is not sealed with the secret of this fleet")
