"""`--certificate self-signed`: a certificate in memory, for development."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from support.server import Start
from tls.authority import Files, SecureConnection
from tls.conftest import SEEN

pytestmark = pytest.mark.slow


def trusting_nobody() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_it_is_for_localhost_and_its_fingerprint_is_logged(start: Start, tmp_path: Path) -> None:
    server = start(str(SEEN / "seen_native.py"), "--certificate", "self-signed", cwd=tmp_path)
    assert server.urls[0].startswith("https://127.0.0.1:")
    [line] = [line for line in server.lines if "self-signed" in line]
    assert " WARN " in line
    with SecureConnection(server, trusting_nobody()) as connection:
        made = connection.certificate
        assert connection.get("/").json()["scheme"] == "https"
    assert line.strip().endswith(made.fingerprint(SHA256()).hex(":").upper())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    addresses = names.get_values_for_type(x509.IPAddress)
    assert [str(address) for address in addresses] == ["127.0.0.1", "::1"]
    assert (made.not_valid_after_utc - made.not_valid_before_utc).days == 365
    assert not os.listdir(tmp_path)


def test_a_client_that_trusts_it_verifies_it(start: Start) -> None:
    server = start("basic.py", "--certificate", "self-signed", "--workers", "2")
    with SecureConnection(server, trusting_nobody()) as connection:
        der = connection.socket.getpeercert(binary_form=True)
        assert der is not None
    trusting = ssl.create_default_context(cadata=der)
    for name in ("localhost", "127.0.0.1", "::1"):
        with SecureConnection(server, trusting, name) as connection:
            assert connection.get("/").status == 200


def test_it_may_be_given_beside_others(start: Start, files: Files, client: ssl.SSLContext) -> None:
    server = start("basic.py", "--certificate", "self-signed", *files.options)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    with SecureConnection(server, client, "localhost") as connection:
        assert connection.certificate.serial_number != files.x509.serial_number
