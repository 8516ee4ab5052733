"""TLS handshakes that fail: what their clients see, and the log."""

from __future__ import annotations

import re
import signal
import socket
import ssl

import pytest

from support.server import Start
from tls.authority import Authority, Files

pytestmark = pytest.mark.slow


def test_a_client_without_its_certificate_gets_an_alert_and_a_line_in_the_log(
    start: Start, files: Files, authority: Authority, client: ssl.SSLContext
) -> None:
    ca = authority.write(files.key.parent / "ca.pem")
    required = ("--client-ca", str(ca), "--client-certificate", "required")
    server = start("basic.py", *files.options, *required)
    address = server.address
    assert isinstance(address, tuple)
    for _ in range(5):
        with (
            socket.create_connection(address, timeout=20) as plain,
            client.wrap_socket(plain, server_hostname="localhost") as secure,
            pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED") as caught,
        ):
            # TLS 1.3: the client has finished before the server refuses it, and goes on sending.
            for _ in range(200):
                secure.sendall(b"x" * 1000)
            secure.recv(1)
        assert not isinstance(caught.value, ssl.SSLEOFError)
    server.wait_line(r"1 TLS handshake failed: 127\.0\.0\.1: the client sent no certificate$")


def test_what_a_client_did_is_in_words(
    start: Start, files: Files, authority: Authority, client: ssl.SSLContext
) -> None:
    server = start("basic.py", *files.options, "--log-level", "debug")
    address = server.address
    assert isinstance(address, tuple)
    stranger, old = ssl.create_default_context(), authority.client()
    old.set_ciphers("ECDHE-ECDSA-AES256-SHA")
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    remedy = "; does its file have the intermediate certificate?"
    for context, text in (
        (stranger, f"the client does not trust the certificate{re.escape(remedy)}"),
        (old, "the client offers no cipher suite in common"),
        (None, "what the client sent is not TLS"),
    ):
        with socket.create_connection(address, timeout=20) as plain:
            if context is None:
                plain.sendall(b"\x00" * 20)
            else:
                with pytest.raises(ssl.SSLError):
                    context.wrap_socket(plain, server_hostname="localhost")
            server.wait_line(f"DEBUG bolide.error: a TLS handshake failed: 127.0.0.1: {text}$")


@pytest.mark.parametrize("application", ["basic.py", "wsgi_plain.py"])
def test_at_debug_level_each_is_a_line(
    start: Start, files: Files, client: ssl.SSLContext, application: str
) -> None:
    server = start(application, *files.options, "--log-level", "debug")
    address = server.address
    assert isinstance(address, tuple)
    client.set_alpn_protocols(["unknown"])
    for _ in range(3):
        with (
            socket.create_connection(address, timeout=20) as plain,
            pytest.raises(ssl.SSLError),
        ):
            client.wrap_socket(plain, server_hostname="localhost")
        server.wait_line(r"DEBUG bolide\.error: a TLS handshake failed: 127\.0\.0\.1: ")
    server.signal(signal.SIGTERM)
    server.wait()
    assert sum("WARN" in line and "1 TLS handshake failed: " in line for line in server.lines) == 1
