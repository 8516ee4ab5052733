"""Lists of revoked certificates (RFC 5280 section 5)."""

from __future__ import annotations

import datetime
import signal
import ssl
import time
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.x509.oid import NameOID

from bolide.config.settings import resolve
from bolide.server.tls import certificates
from support.server import Server, Start
from tls.authority import Authority, Files
from tls.conftest import SEEN
from tls.test_clients import is_served
from tls.test_mistakes import refusal
from tls.test_resumption import resume, session_of

pytestmark = pytest.mark.slow

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def revoke(
    authority: Authority,
    path: Path,
    *revoked: Files,
    until: datetime.datetime = NOW + DAY,
    issued: datetime.datetime = NOW - 2 * DAY,
    serials: Iterable[int] = (),
) -> Path:
    """Write the list of an authority."""
    issuer = x509.load_pem_x509_certificate(authority.ca.cert_pem.bytes())
    key = serialization.load_pem_private_key(authority.ca.private_key_pem.bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    builder = x509.CertificateRevocationListBuilder().issuer_name(issuer.subject)
    builder = builder.last_update(issued).next_update(until)
    builder = builder.add_extension(x509.CRLNumber(1), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    for serial in [*serials, *(files.x509.serial_number for files in revoked)]:
        entry = x509.RevokedCertificateBuilder().serial_number(serial)
        builder = builder.add_revoked_certificate(entry.revocation_date(NOW - DAY).build())
    made = builder.sign(key, hashes.SHA256())
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def options(authority: Authority, files: Files, tmp_path: Path) -> tuple[str, ...]:
    """Return the options of a server that requires certificates of clients."""
    ca = authority.write(tmp_path / "ca.pem")
    return (*files.options, "--client-ca", str(ca), "--client-certificate", "required")


def is_resumed(server: Server, client: ssl.SSLContext, session: ssl.SSLSession) -> bool:
    """Whether a client is served that resumes a session."""
    try:
        return resume(server, client, session, 1)[0] == 1
    except (ssl.SSLError, ConnectionError):
        return False


def serve(start: Start, options: tuple[str, ...], *lists: Path) -> Server:
    """Start a server with lists."""
    given = [word for path in lists for word in ("--client-crl", str(path))]
    return start("seen_native.py", *options, *given, cwd=SEEN)


def test_a_certificate_that_is_revoked_is_refused(
    start: Start, options: tuple[str, ...], authority: Authority, tmp_path: Path
) -> None:
    good, bad = (authority.issue(tmp_path, f"{name}.test") for name in ("good", "bad"))
    (tmp_path / "other").mkdir()
    stranger = revoke(Authority(), tmp_path / "other" / "crl.pem")
    server = serve(start, options, stranger, revoke(authority, tmp_path / "crl.pem", bad))
    assert is_served(server, authority.client(good))
    assert not is_served(server, authority.client(bad))
    server.wait_line("1 TLS handshake failed: 127.0.0.1: the certificate of the client is revoked")


def test_of_two_lists_of_an_authority_the_newer_one_is_used(
    start: Start, options: tuple[str, ...], authority: Authority, tmp_path: Path
) -> None:
    good, bad = (authority.issue(tmp_path, f"{name}.test") for name in ("good", "bad"))
    old = revoke(authority, tmp_path / "old.pem")
    new = revoke(authority, tmp_path / "new.pem", bad, issued=NOW - DAY)
    server = serve(start, options, old, new)
    date = f"{NOW - 2 * DAY:%Y-%m-%d %H:%M} UTC"
    text = f" in {old} that was issued on {date} is not used: there is a newer one\n"
    assert [line.endswith(text) for line in server.lines].count(True) == 1
    assert is_served(server, authority.client(good))
    assert not is_served(server, authority.client(bad))
    server.wait_line("1 TLS handshake failed: 127.0.0.1: the certificate of the client is revoked")


def test_the_end_of_a_list_is_announced(
    files: Files,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    passed_s = 0.0
    clock = SimpleNamespace(
        time=lambda: NOW.timestamp() + passed_s,
        monotonic=lambda: passed_s,
        strftime=time.strftime,
        gmtime=time.gmtime,
    )
    monkeypatch.setattr(certificates, "time", clock)
    listed = revoke(authority, tmp_path / "crl.pem")
    pair = {"certificate": files.certificate, "key": files.key}
    ca = authority.write(tmp_path / "ca.pem")
    clients = {"client_ca": ca, "client_crl": listed, "client_certificate": "required"}
    used = certificates.Certificates(resolve({**pair, **clients}, environ={}))
    hour_s, end = 3600.0, f"{NOW + DAY:%Y-%m-%d %H:%M} UTC"
    soon, over = f"expires on {end}, and its", f"expired on {end}; its clients are refused: replace"
    # Of its three days, the last 18 hours.
    for hours, expected in ((5.9, ""), (6.1, soon), (23.9, ""), (24.1, over), (25, "")):
        caplog.clear()
        passed_s = hours * hour_s
        assert not used.look()
        lines = [line for line in caplog.messages if "the revocation list of " in line]
        assert len(lines) == bool(expected)
        assert expected in "".join(lines)


def test_a_long_list_and_a_long_key_are_warned_of(
    files: Files, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each handshake hashes the list, or signs with the key, on the worker's loop."""
    listed = revoke(authority, tmp_path / "crl.pem")
    ca = authority.write(tmp_path / "ca.pem")
    clients = {"client_ca": ca, "client_crl": listed, "client_certificate": "required"}
    pair = {"certificate": files.certificate, "key": files.key}
    settings = resolve({**pair, **clients}, environ={})
    certificates.Certificates(settings)
    assert "hashed" not in caplog.text and "RSA" not in caplog.text
    revoke(authority, listed, serials=range(1 << 150, (1 << 150) + 28_000))
    certificates.Certificates(settings)
    assert f" in {listed} has 1." in caplog.text
    assert "leave out certificates that have expired?" in caplog.text

    key = rsa.generate_private_key(65537, 4096)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW - DAY, NOW + 30 * DAY)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    made = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    files.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    certificates.Certificates(resolve(pair, environ={}))
    assert f"the key {files.key} is an RSA key of 4096 bits: " in caplog.text


@pytest.mark.parametrize("kind", ["missing", "expired"])
def test_without_a_valid_list_of_its_authority_nobody_is_served(
    start: Start, options: tuple[str, ...], authority: Authority, tmp_path: Path, kind: str
) -> None:
    good, listed = authority.issue(tmp_path, "good.test"), tmp_path / "crl.pem"
    if kind == "missing":
        revoke(Authority(), listed)
    else:
        revoke(authority, listed, until=NOW - DAY)
    server = serve(start, options, listed)
    assert not is_served(server, authority.client(good))
    warned = [line for line in server.lines if "the revocation list of " in line]
    assert len(warned) == (kind == "expired")
    assert all(f"in {listed} expired on " in line for line in warned)


@pytest.mark.slow
def test_a_new_list_is_used_and_ends_sessions_of_before(
    start: Start, options: tuple[str, ...], authority: Authority, tmp_path: Path
) -> None:
    files = authority.issue(tmp_path, "client.test")
    listed = revoke(authority, tmp_path / "crl.pem")
    server = serve(start, options, listed)
    client = authority.client(files)
    session = session_of(server, client)
    assert resume(server, client, session, 3)[0] == 3
    revoke(authority, tmp_path / "new.pem", files).replace(listed)
    server.signal(signal.SIGHUP)
    server.wait_line("read again")
    # Nobody is let in by an earlier decision.
    for _ in range(100):
        if not is_resumed(server, client, session):
            break
    else:
        pytest.fail("the list is not used")
    assert not is_served(server, client)


def test_mistakes(files: Files, authority: Authority, tmp_path: Path) -> None:
    ca = authority.write(tmp_path / "ca.pem")
    pair = {"certificate": files.certificate, "key": files.key}
    clients = {**pair, "client_ca": ca, "client_certificate": "required"}
    good, bad = revoke(authority, tmp_path / "good.pem"), tmp_path / "bad.pem"
    bad.write_bytes(b"-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n")
    found = refusal(**clients, client_crl=[good, bad])
    assert found.startswith(f"client_crl: {bad} cannot be used: ")
    text = "has a certificate and no revocation list; give the file with the revocation list"
    assert refusal(**clients, client_crl=[good, ca]) == f"client_crl: {ca} {text}"
    missing = tmp_path / "missing.pem"
    found = refusal(**clients, client_crl=missing)
    assert found.startswith(f"client_crl: cannot read {missing}: No such file or directory; ")
    found = refusal(**pair, client_crl=good)
    assert found.startswith("client_crl: clients are not asked for a certificate; ")
