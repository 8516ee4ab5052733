"""Certificates are read again without a restart."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

import bolide
from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.server.tls.certificates import Certificates
from support.server import Server, Start
from tls.authority import Authority, Files, SecureConnection
from tls.conftest import SEEN

pytestmark = pytest.mark.slow

AGAIN = r"INFO .* the certificate was read again: .*, valid until \d{4}-\d\d-\d\d \d\d:\d\d UTC$"
KEPT = r"ERROR .*; the previous certificates remain in use"


def served(server: Server, client: ssl.SSLContext, count: int = 8) -> set[tuple[int, int]]:
    """Return the worker and the serial number of each of some concurrent connections."""
    found = set()
    with ExitStack() as open_connections:
        for _ in range(count):
            connection = open_connections.enter_context(SecureConnection(server, client))
            pid = connection.get("/").json()["pid"]
            found.add((pid, connection.certificate.serial_number))
    return found


def wait_for(server: Server, client: ssl.SSLContext, serial: int, workers: int) -> None:
    """Wait until that many workers use a certificate."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = served(server, client)
        if {number for _, number in found} == {serial} and len(found) == workers:
            return
    pytest.fail(f"not all workers use it: {found}")


def test_new_certificates_are_used_by_all_workers_and_connections_stay_open(
    start: Start, files: Files, authority: Authority, client: ssl.SSLContext, tmp_path: Path
) -> None:
    server = start("seen_native.py", *files.options, "--workers", "2", cwd=SEEN)
    before = {*server.workers()}
    renewed = authority.issue(tmp_path, "localhost")
    serial = renewed.x509.serial_number
    with SecureConnection(server, client) as connection:
        connection.get("/")
        files.replace(renewed)
        server.wait_line(AGAIN)
        wait_for(server, client, serial, workers=2)
        assert connection.get("/").status == 200
    assert {*server.workers()} == before


def test_a_hup_replaces_the_workers_by_some_that_have_the_new_certificate(
    start: Start, files: Files, authority: Authority, client: ssl.SSLContext, tmp_path: Path
) -> None:
    server = start("seen_native.py", *files.options, "--workers", "2", cwd=SEEN)
    renewed = authority.issue(tmp_path, "localhost")
    serial = renewed.x509.serial_number
    files.replace(renewed)
    server.signal(signal.SIGHUP)
    server.wait_line(AGAIN)
    server.wait_line("reloaded")
    wait_for(server, client, serial, workers=2)


def test_a_hup_reads_which_certificates_there_are(
    start: Start, files: Files, authority: Authority, client: ssl.SSLContext, tmp_path: Path
) -> None:
    config = tmp_path / "bolide.toml"
    config.write_text(f"certificate = '{files.certificate}'\nkey = '{files.key}'\n")
    server = start("seen_native.py", "--config", str(config), cwd=SEEN)
    other = authority.issue(tmp_path, "localhost")
    config.write_text(f"certificate = '{other.certificate}'\nkey = 'no/such/file'\n")
    server.signal(signal.SIGHUP)
    server.wait_line(
        "cannot reload: key: cannot read no/such/file: .*; keeping the current workers"
    )
    wait_for(server, client, files.x509.serial_number, workers=1)
    config.write_text(f"certificate = '{other.certificate}'\nkey = '{other.key}'\n")
    server.signal(signal.SIGHUP)
    server.wait_line("reloaded")
    wait_for(server, client, other.x509.serial_number, workers=1)


def test_a_broken_pair_is_logged_once_and_the_one_of_before_stays(
    start: Start, files: Files, authority: Authority, client: ssl.SSLContext, tmp_path: Path
) -> None:
    server = start("seen_native.py", *files.options, cwd=SEEN)
    serial = files.x509.serial_number
    other = authority.issue(tmp_path, "localhost")
    other.key.replace(files.key)
    server.wait_line(KEPT)
    server.signal(signal.SIGHUP)  # asked for again, so it is logged again
    server.wait_line(KEPT)
    server.wait_line("reloaded")
    assert server.is_silent(4.5)  # two looks
    wait_for(server, client, serial, workers=1)
    other.certificate.replace(files.certificate)
    server.wait_line(AGAIN)
    wait_for(server, client, files.x509.serial_number, workers=1)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert server.errors.count("remain in use") == 2


def test_permission_that_comes_later_is_noticed(
    files: Files, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"certificate": files.certificate, "key": files.key}
    certificates = Certificates(resolve(given, environ={}))
    os.utime(files.key)
    real_open = os.open

    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert [certificates.look() for _ in range(5)] == [False] * 5
    assert caplog.text.count("Permission denied; let the user of the server read it") == 1
    monkeypatch.setattr(os, "open", real_open)
    assert certificates.look()
    assert not certificates.look()


def test_a_file_system_that_does_not_respond_is_waited_for_once(
    files: Files, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"certificate": files.certificate, "key": files.key}
    monkeypatch.setattr("bolide.server.tls.certificates.WAIT_S", 0.2)
    certificates = Certificates(resolve(given, environ={}))
    before = certificates.current
    real_stat, responds = os.stat, threading.Event()

    def hang(path: str, **options: bool) -> os.stat_result:
        if path == str(files.key):
            responds.wait(20)
        return real_stat(path, **options)

    monkeypatch.setattr(os, "stat", hang)
    began = time.monotonic()
    assert [certificates.look() for _ in range(5)] == [False] * 5
    assert time.monotonic() - began < 5
    assert certificates.current is before
    text = f"key: {files.key} could not be read within 0.2 s; is its file system available?"
    assert caplog.text.count(f"{text}; the previous certificates remain in use") == 1
    assert not certificates.renew()  # asked for: it is logged again
    assert caplog.text.count(text) == 2
    responds.set()
    deadline = time.monotonic() + 20
    while not certificates.look():
        assert time.monotonic() < deadline
    assert certificates.current is not before
    assert not certificates.look()


def no_thread(self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_process_that_can_have_no_thread_keeps_its_certificates(
    files: Files, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"certificate": files.certificate, "key": files.key}
    certificates = Certificates(resolve(given, environ={}))
    before = certificates.current
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        assert [certificates.look() for _ in range(3)] == [False] * 3
        with pytest.raises(ConfigError, match="could not be read: no thread can be started"):
            Certificates(resolve(given, environ={}))
    assert certificates.current is before
    text = f"certificate: {files.certificate} could not be read: no thread can be started"
    assert caplog.text.count(text) == 1
    assert certificates.look()


def test_a_server_inside_a_loop_that_can_have_no_thread_serves_on(
    files: Files, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("bolide.server.embedded.CHECK_S", 0.05)
    looks = []

    async def denied(*_: object) -> None:
        looks.append(None)
        if len(looks) == 3:
            enough.set()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio, "to_thread", denied)

    async def serve() -> None:
        pair = {"certificate": str(files.certificate), "key": str(files.key)}
        async with bolide.Server(bolide.App(), port=0, tls=[pair]), asyncio.timeout(20):
            await enough.wait()

    enough = asyncio.Event()
    asyncio.run(serve())
    text = "the certificates could not be looked at: no thread can be started"
    assert caplog.text.count(text) == 1


@pytest.mark.parametrize("is_broken", [False, True])
def test_files_are_looked_at_in_a_thread_only(
    files: Files, monkeypatch: pytest.MonkeyPatch, is_broken: bool
) -> None:
    """Their file system may not respond: the supervisor itself waits for none of them."""
    given = {"certificate": files.certificate, "key": files.key}
    certificates = Certificates(resolve(given, environ={}))
    if is_broken:
        files.key.write_text("")
    real_open, real_stat = os.open, os.stat
    threads = set()

    def noted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **named: Any) -> Any:
            if path in (str(files.certificate), str(files.key)):
                threads.add(threading.current_thread().name)
            return real(path, *rest, **named)

        return call

    monkeypatch.setattr(os, "open", noted(real_open))
    monkeypatch.setattr(os, "stat", noted(real_stat))
    assert certificates.renew() != is_broken
    assert threads == {"bolide-patience"}


def test_a_worker_that_replaces_another_has_the_new_certificate(
    start: Start, files: Files, authority: Authority, client: ssl.SSLContext, tmp_path: Path
) -> None:
    server = start("seen_native.py", *files.options, cwd=SEEN)
    renewed = authority.issue(tmp_path, "localhost")
    serial = renewed.x509.serial_number
    files.replace(renewed)
    server.signal(signal.SIGHUP)
    server.wait_line(AGAIN)
    server.wait_line("reloaded")
    os.kill(server.workers()[-1], signal.SIGKILL)
    server.wait_line("the next one starts")
    wait_for(server, client, serial, workers=1)


def test_a_server_inside_a_loop_reads_them_again_too(
    files: Files, authority: Authority, client: ssl.SSLContext, tmp_path: Path
) -> None:
    app = bolide.App()

    @app.get("/")
    def hello(request: bolide.Request) -> str:
        return "hello"

    async def serial(port: int) -> int:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client, server_hostname="localhost"
        )
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return x509.load_der_x509_certificate(der).serial_number

    async def serve() -> None:
        pair = {"certificate": str(files.certificate), "key": str(files.key)}
        async with bolide.Server(app, port=0, tls=[pair]) as server:
            [address] = server.addresses
            assert address.url == f"https://127.0.0.1:{address.port}"
            assert await serial(address.port) == files.x509.serial_number
            renewed = authority.issue(tmp_path, "localhost")
            expected = renewed.x509.serial_number
            files.replace(renewed)
            async with asyncio.timeout(20):
                while await serial(address.port) != expected:
                    await asyncio.sleep(0.1)

    asyncio.run(serve())


def test_a_certificate_that_expires_soon_is_a_warning(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    for days, text in ((10, "expires on"), (-1, "expired on")):
        files = authority.issue(tmp_path, "localhost", days=days)
        server = start("basic.py", *files.options, ready=False)
        server.wait_line(rf"WARN .* the certificate {files.certificate} {text} \d{{4}}-")
        server.wait_line("serving")
    files = authority.issue(tmp_path, "localhost", days=20)
    server = start("basic.py", *files.options)
    assert not any("WARN" in line for line in server.lines)
