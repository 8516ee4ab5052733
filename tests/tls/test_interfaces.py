"""What applications of each interface see of a TLS session."""

from __future__ import annotations

import json
import shutil
import signal
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from support.server import Server, Start
from tls.authority import Authority, Files, SecureConnection
from tls.conftest import SEEN

pytestmark = pytest.mark.slow

SUITE = {
    "TLSv1.3": (0x0304, {0x1301, 0x1302, 0x1303}),
    "TLSv1.2": (0x0303, {0xC02B, 0xC02C, 0xCCA9, 0xC02F, 0xC030, 0xCCA8}),
}


def ask(server: Server, context: ssl.SSLContext, path: str = "/") -> tuple[Any, SecureConnection]:
    with SecureConnection(server, context) as connection:
        return connection.get(path).json(), connection


def pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


@pytest.fixture
def clients(authority: Authority, tmp_path: Path) -> tuple[str, ...]:
    path = authority.write(tmp_path / "ca.pem")
    return "--client-ca", str(path), "--client-certificate", "optional"


@pytest.fixture
def theirs(authority: Authority, tmp_path: Path) -> Files:
    """Issue a certificate to a client, whose name needs escapes."""
    (tmp_path / "client").mkdir()
    return authority.issue(tmp_path / "client", "client.test", common_name='Müller, "Anna"')


@pytest.mark.parametrize("version", ["TLSv1.3", "TLSv1.2"])
@pytest.mark.parametrize("path", ["/", "/later"])
def test_a_native_request_has_its_session(
    start: Start, files: Files, client: ssl.SSLContext, version: str, path: str
) -> None:
    client.maximum_version = ssl.TLSVersion[version.replace(".", "_")]
    server = start("seen_native.py", *files.options, cwd=SEEN)
    seen, _ = ask(server, client, path)
    assert seen["scheme"] == "https"
    assert seen["url"] == f"https://test{path}"
    session = seen["tls"]
    assert session["version"] == version
    assert session["cipher"] in {each["name"] for each in client.get_ciphers()}
    assert session["server_name"] == "localhost"
    assert [session[name] for name in ("client_name", "client_certificate")] == [None, None]
    assert session["client_chain"] == []


def test_a_native_request_has_its_clients_certificate(
    start: Start, files: Files, authority: Authority, theirs: Files, clients: tuple[str, ...]
) -> None:
    server = start("seen_native.py", *files.options, *clients, cwd=SEEN)
    session = ask(server, authority.client(theirs))[0]["tls"]
    assert session["client_name"] == theirs.x509.subject.rfc4514_string()
    assert 'CN=Müller\\, \\"Anna\\"' in session["client_name"]
    assert bytes.fromhex(session["client_certificate"]) == theirs.x509.public_bytes(Encoding.DER)
    assert session["client_chain"][0] == pem(theirs.x509)


def test_without_tls_there_is_none(start: Start) -> None:
    with start("seen_native.py", cwd=SEEN).connect() as connection:
        assert connection.get("/").json()["tls"] is None
    with start("seen_asgi.py", cwd=SEEN).connect() as connection:
        assert "tls" not in connection.get("/").json()["extensions"]
    with start("seen_wsgi.py", cwd=SEEN).connect() as connection:
        assert {*connection.get("/").json()} == {"pid", "wsgi.url_scheme"}


@pytest.mark.parametrize("version", ["TLSv1.3", "TLSv1.2"])
def test_an_asgi_scope_has_the_extension(
    start: Start, files: Files, client: ssl.SSLContext, version: str
) -> None:
    client.maximum_version = ssl.TLSVersion[version.replace(".", "_")]
    server = start("seen_asgi.py", *files.options, cwd=SEEN)
    seen, connection = ask(server, client)
    assert seen["scheme"] == "https"
    number, suites = SUITE[version]
    session = seen["tls"]
    assert session.pop("tls_version") == number
    assert session.pop("cipher_suite") in suites
    assert session == {
        "server_cert": pem(files.x509),
        "client_cert_chain": [],
        "client_cert_name": None,
        "client_cert_error": None,
    }
    assert connection is not None


def test_an_asgi_scope_has_the_clients_certificate_and_no_other_ones(
    start: Start, files: Files, authority: Authority, theirs: Files, clients: tuple[str, ...]
) -> None:
    server = start("seen_asgi.py", *files.options, *clients, cwd=SEEN)
    known, unknown = authority.client(theirs), authority.client()
    with SecureConnection(server, known) as one, SecureConnection(server, unknown) as other:
        for _ in range(3):
            session = one.get("/").json()["tls"]
            assert session["client_cert_name"] == theirs.x509.subject.rfc4514_string()
            assert session["client_cert_chain"][0] == pem(theirs.x509)
            assert session["client_cert_error"] is None
            assert other.get("/").json()["tls"]["client_cert_chain"] == []


def test_what_an_application_changes_in_the_extension_is_not_seen_again(
    start: Start, files: Files, client: ssl.SSLContext
) -> None:
    server = start("seen_asgi.py", *files.options, cwd=SEEN)
    with SecureConnection(server, client) as connection:
        first = connection.get("/change").json()
        assert connection.get("/change").json() == first
        assert connection.get("/").json() == first


@pytest.mark.parametrize("threads", ["1", "2"])
def test_an_environ_has_the_items_of_mod_ssl(
    start: Start,
    files: Files,
    authority: Authority,
    theirs: Files,
    clients: tuple[str, ...],
    threads: str,
) -> None:
    server = start("seen_wsgi.py", *files.options, *clients, "--threads", threads, cwd=SEEN)
    known, unknown = authority.client(theirs), authority.client()
    with SecureConnection(server, known) as one, SecureConnection(server, unknown) as other:
        for _ in range(3):
            mine = one.get("/").json()
            theirs_not = other.get("/").json()
            del mine["pid"], theirs_not["pid"]
            assert theirs_not == {
                "HTTPS": "on",
                "wsgi.url_scheme": "https",
                "SSL_PROTOCOL": "TLSv1.3",
                "SSL_CIPHER": "TLS_AES_256_GCM_SHA384",
                "SSL_TLS_SNI": "localhost",
                "SSL_CLIENT_VERIFY": "NONE",
            }
            certificate = theirs.x509
            subject = certificate.subject.rfc4514_string()
            assert mine.pop("SSL_CLIENT_S_DN").encode("latin-1").decode() == subject
            assert mine.pop("SSL_CLIENT_S_DN_CN").encode("latin-1").decode() == 'Müller, "Anna"'
            assert mine.pop("SSL_CLIENT_I_DN") == certificate.issuer.rfc4514_string()
            assert int(mine.pop("SSL_CLIENT_M_SERIAL"), 16) == certificate.serial_number
            assert mine.pop("SSL_CLIENT_CERT") == pem(certificate)
            # OpenSSL's clients send the authority too, if they trust it.
            chain = authority.ca.cert_pem.bytes().decode()
            assert mine.pop("SSL_CLIENT_CERT_CHAIN_0") == chain
            assert mine == theirs_not | {"SSL_CLIENT_VERIFY": "SUCCESS"}


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_a_session_is_the_same_over_http2(
    start: Start, files: Files, authority: Authority, tmp_path: Path
) -> None:
    trusted = authority.write(tmp_path / "ca.pem")
    for name, version in (("native", "version"), ("asgi", "tls_version")):
        server = start(f"seen_{name}.py", *files.options, cwd=SEEN)
        found = []
        for protocol in ("--http1.1", "--http2"):
            url = f"https://localhost:{server.address[1]}/"
            how = [
                "--cacert",
                str(trusted),
                "--resolve",
                f"localhost:{server.address[1]}:127.0.0.1",
            ]
            done = subprocess.run(
                ["curl", "-sS", protocol, "-w", "\n%{http_version}", *how, url],
                check=True,
                capture_output=True,
                text=True,
                timeout=20,
            )
            content, number = done.stdout.rsplit("\n", 1)
            assert number == protocol.removeprefix("--http")
            found.append(json.loads(content)["tls"])
        assert found[0] == found[1]
        assert found[0][version]


@pytest.mark.parametrize("version", list(SUITE))
def test_the_access_log_may_have_the_session(
    start: Start, files: Files, client: ssl.SSLContext, tmp_path: Path, version: str
) -> None:
    log = tmp_path / "access.log"
    form = "{tls_version} {tls_cipher} {tls_server_name} {status}"
    given = ("--access-log", str(log), "--access-log-format", form)
    server = start("seen_native.py", *files.options, *given, cwd=SEEN)
    client.maximum_version = ssl.TLSVersion[version.replace(".", "_")]
    with SecureConnection(server, client) as connection:
        assert connection.get("/").status == 200
        cipher = connection.socket.cipher()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert cipher is not None
    assert log.read_text() == f"{version} {cipher[0]} localhost 200\n"
