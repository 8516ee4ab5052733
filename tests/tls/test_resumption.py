"""Sessions are resumed at any worker of a server."""

from __future__ import annotations

import os
import signal
import ssl
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.server import Server, Start, wait_for_end
from tls.authority import Authority, Files, SecureConnection
from tls.conftest import SEEN

pytestmark = pytest.mark.slow


def session_of(server: Server, client: ssl.SSLContext) -> ssl.SSLSession:
    """Return the session of a connection whose response has been read, as tickets follow it."""
    with SecureConnection(server, client) as connection:
        connection.get("/")
        assert connection.socket.session_reused is False
        session = connection.socket.session
    assert session is not None
    assert session.has_ticket
    return session


def resume(
    server: Server, client: ssl.SSLContext, session: ssl.SSLSession, count: int
) -> tuple[int, set[int]]:
    """Connect; return how many connections have resumed the session, and the workers' ids."""
    resumed, workers = 0, set()
    with ExitStack() as open_connections:
        for _ in range(count):
            made = SecureConnection(server, client, session=session)
            connection = open_connections.enter_context(made)
            workers.add(connection.get("/").json()["pid"])
            resumed += connection.socket.session_reused is True
    return resumed, workers


@pytest.mark.parametrize("version", ["TLSv1_3", "TLSv1_2"])
def test_every_worker_resumes_and_so_do_those_that_replace_them(
    start: Start, files: Files, client: ssl.SSLContext, version: str
) -> None:
    client.maximum_version = ssl.TLSVersion[version]
    server = start("seen_native.py", *files.options, "--workers", "4", cwd=SEEN)
    session = session_of(server, client)
    before = {*server.workers()}
    assert resume(server, client, session, 50) == (50, before)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
        assert wait_for_end(pid)
    resumed, after = resume(server, client, session, 10)
    assert resumed == 10
    assert after.isdisjoint(before)


def test_another_server_does_not_resume(start: Start, files: Files, client: ssl.SSLContext) -> None:
    session = session_of(start("seen_native.py", *files.options, cwd=SEEN), client)
    other = start("seen_native.py", *files.options, cwd=SEEN)
    assert resume(other, client, session, 2)[0] == 0


def test_a_client_that_resumes_keeps_its_certificate_but_only_under_the_same_rules(
    start: Start, files: Files, authority: Authority, tmp_path: Path
) -> None:
    ca = authority.write(tmp_path / "ca.pem")
    options = ("--client-ca", str(ca), "--client-certificate", "required")
    server = start("seen_native.py", *files.options, *options, cwd=SEEN)
    client = authority.client(authority.issue(tmp_path, "client.test", common_name="Anna"))
    session = session_of(server, client)
    with SecureConnection(server, client, session=session) as connection:
        assert "CN=Anna" in connection.get("/").json()["tls"]["client_name"]
        assert connection.socket.session_reused
    # Now clients of another authority are asked for, too: nobody is let in by an earlier decision.
    Authority().ca.cert_pem.write_to_path(ca, append=True)
    server.signal(signal.SIGHUP)
    server.wait_line("read again")
    for _ in range(100):
        with SecureConnection(server, client, session=session) as connection:
            connection.get("/")
            if not connection.socket.session_reused:
                break
    else:
        pytest.fail("a session of before is resumed")


@pytest.mark.parametrize("version", ["TLSv1_3", "TLSv1_2"])
def test_a_session_ends_with_its_client_s_certificate(
    start: Start, files: Files, authority: Authority, tmp_path: Path, version: str
) -> None:
    ca = authority.write(tmp_path / "ca.pem")
    options = ("--client-ca", str(ca), "--client-certificate", "required")
    server = start("seen_native.py", *files.options, *options, cwd=SEEN)
    expires = time.time() + 10
    short = authority.issue(tmp_path, "client.test", days=10 / 86_400)
    client = authority.client(short)
    client.maximum_version = ssl.TLSVersion[version]
    session = session_of(server, client)
    resumptions = 0
    while time.time() < expires + 1:
        try:
            with SecureConnection(server, client, session=session) as connection:
                connection.get("/")
                assert connection.socket.session_reused
                # A newer ticket does not prolong it.
                session = connection.socket.session or session
                resumptions += 1
        except (ssl.SSLError, ConnectionError):
            assert time.time() >= expires - 1
            break
    else:
        pytest.fail("the session outlives the certificate")
    assert resumptions > 0


def test_there_is_no_early_data(start: Start, files: Files, authority: Authority) -> None:
    import shutil
    import subprocess

    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    server = start("basic.py", *files.options)
    assert isinstance(server.address, tuple)
    where = f"{server.address[0]}:{server.address[1]}"
    done = subprocess.run(
        ["openssl", "s_client", "-connect", where, "-servername", "localhost", "-ign_eof"],
        input=b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n",
        capture_output=True,
        timeout=20,
    )
    assert b"Max Early Data: 0" in done.stdout
    assert b"Protocol  : TLSv1.3" in done.stdout
