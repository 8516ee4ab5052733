"""Chains in the wrong order, keys that cannot be used, and keys that others may read."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat

from bolide.config.settings import resolve
from bolide.server.tls.certificates import Certificates, is_exposed
from tls.authority import Authority, Files
from tls.test_mistakes import refusal

pytestmark = pytest.mark.slow

NEW_KEY = "; `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem` makes "


def chain(authority: Authority, folder: Path) -> tuple[Files, list[bytes]]:
    """Issue a certificate by way of another authority; return both, and the root."""
    between = authority.ca.create_child_ca()
    made = between.issue_cert("localhost")
    files = Files(folder / "chain.crt", folder / "chain.key")
    files.key.touch(mode=0o600)
    made.private_key_pem.write_to_path(files.key)
    leaf, issuer = (blob.bytes() for blob in made.cert_chain_pems)
    return files, [leaf, issuer, authority.ca.cert_pem.bytes()]


def names(pem: bytes) -> str:
    """Return the subject of a certificate, as RFC 4514 writes it."""
    return x509.load_pem_x509_certificate(pem).subject.rfc4514_string()


def test_a_chain_that_does_not_start_with_its_own_certificate(
    authority: Authority, tmp_path: Path
) -> None:
    files, (leaf, issuer, root) = chain(authority, tmp_path)
    for order, place in (([issuer, leaf], 2), ([root, issuer, leaf], 3)):
        files.certificate.write_bytes(b"".join(order))
        assert refusal(certificate=files.certificate, key=files.key) == (
            f"certificate: {files.certificate} starts with another certificate than that of its "
            f"key: certificate {place} ({names(leaf)}) is for its key; put that one first, and "
            "then those that lead to its root"
        )


def test_a_disorder_after_it_is_a_warning(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files, (leaf, issuer, root) = chain(authority, tmp_path)
    text = f"the certificate {files.certificate} is out of order: certificate "
    moved = "has not issued the one before it; move certificate 3 there"
    lacking = f"has not issued the one before it; put that of {names(issuer)} there"
    surplus = "has not issued the one before it; remove it"
    for order, expected in (
        ([leaf, issuer, root], None),
        ([leaf], None),
        ([leaf, root, issuer], f"{text}2 ({names(root)}) {moved}"),
        ([leaf, root], f"{text}2 ({names(root)}) {lacking}"),
        ([leaf, issuer, root, leaf], f"{text}4 ({names(leaf)}) {surplus}"),
    ):
        caplog.clear()
        files.certificate.write_bytes(b"".join(order))
        Certificates(resolve({"certificate": files.certificate, "key": files.key}, environ={}))
        found = [record.getMessage() for record in caplog.records]
        assert found == ([] if expected is None else [expected])


def test_a_lone_certificate_is_noted_unless_it_is_self_signed(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files, (leaf, issuer, _) = chain(authority, tmp_path)
    given = {"certificate": files.certificate, "key": files.key}
    text = f"the certificate {files.certificate} is alone in its file; if {names(issuer)} is an "
    text += "intermediate authority, clients need its certificate there too (fullchain.pem of "
    text += "certbot)"
    for order, expected in (([leaf], [text]), ([leaf, issuer], [])):
        files.certificate.write_bytes(b"".join(order))
        caplog.clear()
        with caplog.at_level(logging.INFO, "bolide"):
            Certificates(resolve(given, environ={}))
        assert [record.getMessage() for record in caplog.records] == expected
        assert all(record.levelno == logging.INFO for record in caplog.records)
    caplog.clear()
    with caplog.at_level(logging.INFO, "bolide"):
        Certificates(resolve({"certificate": "self-signed"}, environ={}))
    [record] = caplog.records
    assert "is self-signed, for " in record.getMessage()


def test_a_certificate_that_no_client_can_ask_for(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    named, unnamed = (authority.issue(tmp_path, name) for name in ("a.test", "192.0.2.1"))
    for pairs, expected in (
        (
            [named, unnamed],
            [
                f"no client gets the certificate {unnamed.certificate}: it has no DNS name, by "
                "which clients would ask for it; put it first"
            ],
        ),
        ([unnamed, named], []),
    ):
        caplog.clear()
        given = {
            "certificate": [files.certificate for files in pairs],
            "key": [files.key for files in pairs],
        }
        certificates = Certificates(resolve(given, environ={}))
        assert [record.getMessage() for record in caplog.records] == expected
        with caplog.at_level(logging.INFO, "bolide"):
            assert certificates.renew()
        [line] = [it.getMessage() for it in caplog.records if "read again" in it.getMessage()]
        assert f"{unnamed.certificate} for 192.0.2.1, valid until " in line


def pem(key: object, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
    """Return a private key in PEM."""
    assert hasattr(key, "private_bytes")
    written = key.private_bytes(Encoding.PEM, form, serialization.NoEncryption())
    assert isinstance(written, bytes)
    return written


def short_rsa(form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
    """Return an RSA key that is too short."""
    return pem(rsa.generate_private_key(65537, 1024), form)  # noqa: S505 - it is to be refused


TRADITIONAL = PrivateFormat.TraditionalOpenSSL
EC_USABLE = "P-256, P-384 and P-521 are usable"
UNUSABLE = {
    "DSA": (lambda: pem(dsa.generate_private_key(2048)), "has a key for DSA, which is not usable"),
    "DSA, traditional": (
        lambda: pem(dsa.generate_private_key(2048), TRADITIONAL),
        "has a key for DSA, which is not usable",
    ),
    "Ed448": (
        lambda: pem(ed448.Ed448PrivateKey.generate()),
        "has a key for Ed448, which is not usable",
    ),
    "secp256k1": (
        lambda: pem(ec.generate_private_key(ec.SECP256K1())),
        f"has an ECDSA key on the curve secp256k1; {EC_USABLE}",
    ),
    "brainpool, traditional": (
        lambda: pem(ec.generate_private_key(ec.BrainpoolP256R1()), TRADITIONAL),
        f"has an ECDSA key on the curve brainpoolP256r1; {EC_USABLE}",
    ),
    "RSA": (
        short_rsa,
        "has an RSA key of 1024 bits; 2048 to 8192 are usable",
    ),
    "RSA, traditional": (
        lambda: short_rsa(TRADITIONAL),
        "has an RSA key of 1024 bits; 2048 to 8192 are usable",
    ),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_a_key_of_a_kind_that_cannot_be_used(files: Files, kind: str) -> None:
    make, text = UNUSABLE[kind]
    files.key.write_bytes(make())
    found = refusal(certificate=files.certificate, key=files.key)
    assert found.startswith(f"key: {files.key} {text}{NEW_KEY}"), found


@pytest.mark.parametrize("kind", ["RSA", "P-384", "P-521", "Ed25519"])
def test_keys_of_other_kinds_are_used(tmp_path: Path, kind: str) -> None:
    from cryptography.hazmat.primitives.asymmetric import ed25519

    key = {
        "RSA": lambda: rsa.generate_private_key(65537, 2048),
        "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
        "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
        "Ed25519": ed25519.Ed25519PrivateKey.generate,
    }[kind]()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    authority = trustme.CA()
    issued = x509.load_pem_x509_certificate(
        authority.issue_cert("localhost").cert_chain_pems[0].bytes()
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(issued.not_valid_before_utc)
        .not_valid_after(issued.not_valid_after_utc)
        .sign(key, None if kind == "Ed25519" else hashes.SHA256())
    )
    certificate, path = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    path.write_bytes(pem(key))
    Certificates(resolve({"certificate": certificate, "key": path}, environ={}))


def test_a_key_that_others_may_read_is_one_warning(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"certificate": files.certificate, "key": files.key}
    os.chmod(files.key, 0o400)
    certificates = Certificates(resolve(given, environ={}))
    assert not caplog.records
    os.chmod(files.key, 0o644)
    with caplog.at_level(logging.WARNING, "bolide"):
        assert [certificates.renew() for _ in range(3)] == [True] * 3
    [record] = [it for it in caplog.records if it.levelno == logging.WARNING]
    assert record.getMessage() == (
        f"the key {files.key} is accessible to other users (mode 0644); chmod 600 ends that"
    )


@pytest.mark.parametrize(
    ("owner", "mode", "expected"),
    [
        (0, 0o600, False),
        (0, 0o640, False),
        (0, 0o660, True),
        (0, 0o604, True),
        (1000, 0o600, False),
        (1000, 0o640, True),
    ],
)
def test_a_group_may_read_what_root_owns(owner: int, mode: int, expected: bool) -> None:
    assert is_exposed(owner, mode) is expected
