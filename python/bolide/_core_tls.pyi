"""Classes of `bolide._core` for TLS. At run time, only that module exists."""

from collections.abc import Sequence
from typing import Self, final

@final
class TicketSecret:
    """A secret, in memory only, by which forks of a process resume each other's TLS sessions."""

    def __new__(cls) -> Self:
        """Draw a secret.

        Raises:
            OSError: The system has no random numbers.
        """

    def advance(self) -> None:
        """Forget the keys of tickets that are not accepted any more."""

@final
class CertificateFacts:
    """What the server logs about a certificate."""

    @property
    def names(self) -> list[str]:
        """Its DNS names."""

    @property
    def addresses(self) -> list[str]:
        """Its IP addresses."""

    @property
    def first_s(self) -> int:
        """The first second of its validity since 1970."""

    @property
    def last_s(self) -> int:
        """The last second of its validity since 1970."""

    @property
    def fingerprint(self) -> str:
        """Its SHA-256 fingerprint."""

    @property
    def disorder(self) -> str | None:
        """What is wrong with the order of its chain."""

    @property
    def absent_issuer(self) -> str | None:
        """The issuer of a certificate that is alone in its file and not self-signed."""

    @property
    def rsa_bits(self) -> int | None:
        """The length of its key, if that is an RSA key."""

@final
class RevocationFacts:
    """What the server logs about a revocation list."""

    @property
    def file(self) -> int:
        """The index of its file."""

    @property
    def issuer(self) -> str:
        """Its authority."""

    @property
    def first_s(self) -> int:
        """When it was issued, in seconds since 1970."""

    @property
    def last_s(self) -> int | None:
        """The end of its validity, in seconds since 1970."""

    @property
    def size_bytes(self) -> int:
        """Its length."""

    @property
    def is_superseded(self) -> bool:
        """Whether a newer one is used instead."""

@final
class TlsConfig:
    """The certificates, keys and rules of a server that uses TLS."""

    def __new__(
        cls,
        pairs: Sequence[tuple[bytes, bytes, bytes | None]],
        *,
        protocols: Sequence[str],
        minimum: str = "1.2",
        client_ca: bytes | None = None,
        client_crl: Sequence[bytes] = ...,
        client_certificate: str = "none",
        tickets: TicketSecret | None = None,
    ) -> Self:
        """Check certificate chains and their keys, in PEM, and the passwords of the keys.

        `protocols` are names of ALPN, `minimum` is "1.2" or "1.3", and `client_certificate` is
        "none", "optional" or "required". `client_crl` are files with lists of certificates that are
        revoked, in PEM. Sessions are resumed by `tickets`.

        Raises:
            ValueError: Something cannot be used. Its arguments are the name of the option at fault,
                the index of its pair, the kind of error ("missing", "locked", "password",
                "encryption", "mismatch", "order", "version", "unusable" or "bad"), and a text
                without anything of a key.
        """

    @property
    def certificates(self) -> list[CertificateFacts]:
        """Describe the certificate of each pair."""

    @property
    def revocation_lists(self) -> list[RevocationFacts]:
        """Describe the revocation lists, the newest first."""
