"""Which clients may connect: certificates of clients, versions, protocols."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from support.server import Server, Start
from tls.authority import Authority, Files, SecureConnection

pytestmark = pytest.mark.slow


def is_served(server: Server, context: ssl.SSLContext) -> bool:
    """Whether the handshake completes. In TLS 1.3 the client learns of a refusal afterwards."""
    try:
        with SecureConnection(server, context) as connection:
            return connection.get("/").status == 200
    except ssl.SSLError:
        return False


@pytest.mark.parametrize(
    ("mode", "without", "with_one", "with_another"),
    [("optional", True, True, False), ("required", False, True, False)],
)
def test_who_is_served(
    start: Start,
    files: Files,
    authority: Authority,
    tmp_path: Path,
    mode: str,
    without: bool,
    with_one: bool,
    with_another: bool,
) -> None:
    ca = authority.write(tmp_path / "ca.pem")
    options = ("--client-ca", str(ca), "--client-certificate", mode)
    server = start("basic.py", *files.options, *options)
    stranger = Authority()
    (tmp_path / "other").mkdir()
    mine = authority.client(authority.issue(tmp_path, "client.test"))
    another = authority.client(stranger.issue(tmp_path / "other", "client.test"))
    expired = authority.client(authority.issue(tmp_path, "late.test", days=-1))
    assert is_served(server, authority.client()) is without
    assert is_served(server, mine) is with_one
    assert is_served(server, another) is with_another
    assert is_served(server, expired) is False


@pytest.mark.parametrize(("minimum", "is_old_served"), [("1.2", True), ("1.3", False)])
def test_the_lowest_version(
    start: Start, files: Files, client: ssl.SSLContext, minimum: str, is_old_served: bool
) -> None:
    server = start("basic.py", *files.options, "--tls-minimum", minimum)
    assert is_served(server, client)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    assert is_served(server, client) is is_old_served


@pytest.mark.parametrize(
    ("options", "offered", "selected"),
    [
        ((), ["unknown", "http/1.1"], "http/1.1"),
        ((), ["http/1.1", "h2"], "h2"),
        (("--alpn", "http/1.1,h2"), ["h2", "http/1.1"], "http/1.1"),
        (("--alpn", "http/1.1"), ["h2", "http/1.1"], "http/1.1"),
        ((), ["http/1.0"], "http/1.0"),
        ((), ["http/1.0", "http/1.1"], "http/1.1"),
        ((), ["http/1.0", "h2"], "h2"),
        ((), [], None),
    ],
)
def test_the_protocol_is_the_one_that_the_server_prefers(
    start: Start,
    files: Files,
    client: ssl.SSLContext,
    options: tuple[str, ...],
    offered: list[str],
    selected: str | None,
) -> None:
    if offered:
        client.set_alpn_protocols(offered)
    server = start("basic.py", *files.options, *options)
    with SecureConnection(server, client) as connection:
        assert connection.socket.selected_alpn_protocol() == selected


def test_a_client_without_a_common_protocol_is_refused(
    start: Start, files: Files, client: ssl.SSLContext
) -> None:
    client.set_alpn_protocols(["h2"])
    server = start("basic.py", *files.options, "--alpn", "http/1.1")
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        SecureConnection(server, client)


def test_a_client_of_http_1_0_is_served(start: Start, files: Files, client: ssl.SSLContext) -> None:
    client.set_alpn_protocols(["http/1.0"])
    with SecureConnection(start("basic.py", *files.options), client) as connection:
        assert connection.socket.selected_alpn_protocol() == "http/1.0"
        connection.send(b"GET / HTTP/1.0\r\n\r\n")
        assert connection.read().status == 200
    # Without HTTP/1.1 there is no 1.0 either.
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        SecureConnection(start("basic.py", *files.options, "--alpn", "h2"), client)
