"""Sockets that are passed to the server, what systemd is notified of, and the port of platforms."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.config.address import Address
from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.server.systemd import Notifications, passed
from support.client import Connection
from support.server import APPLICATIONS, Start, clean_environ

pytestmark = pytest.mark.slow

ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.execv(sys.executable, [sys.executable, "-W", "error", "-m", "bolide", "serve", *sys.argv[2:]])
"""
"""Does what systemd does for a service with a socket."""


@pytest.fixture
def notified(tmp_path: Path) -> Iterator[socket.socket]:
    """Return the socket at which systemd would be notified."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind(str(tmp_path / "notify"))
        receiving.settimeout(20)
        yield receiving


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6, socket.AF_UNIX])
def test_a_socket_of_systemd_is_served_and_stays(
    family: socket.AddressFamily, tmp_path: Path
) -> None:
    names = {socket.AF_INET: ("127.0.0.1", 0), socket.AF_INET6: ("::1", 0)}
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.bind(names.get(family, str(tmp_path / "socket")))
        listening.listen()
        name = listening.getsockname()
        address = name if isinstance(name, str) else name[:2]
        # A client that connects before the server runs is served.
        with Connection(address) as client:
            server = subprocess.Popen(
                [sys.executable, "-c", ACTIVATE, str(listening.fileno()), "basic.py"],
                pass_fds=[listening.fileno()],
                cwd=APPLICATIONS,
                env=clean_environ(),
                stderr=subprocess.PIPE,
                text=True,
            )
            try:
                assert client.get("/").content == b"hello"
            finally:
                server.terminate()
                errors = server.communicate(timeout=20)[1]
        assert server.returncode == 0
        shown = f"unix:{name}" if isinstance(name, str) else f"]:{name[1]}".lstrip("]")
        assert shown in errors
        # The socket is systemd's: it listens on, and its file stays.
        with Connection(address):
            pass


def test_sockets_of_another_process_are_left_alone() -> None:
    environ = {"LISTEN_FDS": "2", "LISTEN_PID": "1"}
    assert passed(environ) == []
    environ["LISTEN_PID"] = str(os.getpid())
    assert passed(environ) == [Address(fd=3), Address(fd=4)]
    assert environ == {} and passed(environ) == []
    with pytest.raises(ConfigError, match="LISTEN_FDS: 'two' is not a number of sockets"):
        passed({"LISTEN_FDS": "two", "LISTEN_PID": str(os.getpid())})


@pytest.mark.parametrize("form", ["fd:{}", "fd://{}"])
def test_a_descriptor_is_an_address(form: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        fd = listening.fileno()
        server = subprocess.Popen(
            [sys.executable, "-m", "bolide", "serve", "basic.py", "--bind", form.format(fd)],
            pass_fds=[fd],
            cwd=APPLICATIONS,
            env=clean_environ(),
            stderr=subprocess.DEVNULL,
        )
        try:
            with Connection(listening.getsockname()) as client:
                assert client.get("/").content == b"hello"
        finally:
            server.terminate()
        assert server.wait(timeout=20) == 0


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        ("fd:99", "cannot listen on fd:99: 99 is not the descriptor of a socket: Bad file descrip"),
        ("fd:0", "cannot listen on fd:0: 0 is not the descriptor of a socket: Socket operation on"),
        ("fd:x", "--bind: 'fd:x' names no descriptor; give fd:N, such as fd:3"),
    ],
)
def test_what_is_no_socket_is_refused(bind: str, message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bolide", "serve", "basic.py", "--bind", bind],
        cwd=APPLICATIONS,
        env=clean_environ(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 2 and done.stderr.startswith(f"bolide: error: {message}")
    assert done.stderr.count("\n") == 1


def test_systemd_is_notified_of_each_state(start: Start, notified: socket.socket) -> None:
    server = start("basic.py", env={"NOTIFY_SOCKET": str(notified.getsockname())})
    status = "STATUS=serving basic.py (1 worker)"
    assert notified.recv(4096).decode() == f"READY=1\n{status}"
    server.signal(signal.SIGHUP)
    lines = notified.recv(4096).decode().splitlines()
    assert (lines[0], lines[2]) == ("RELOADING=1", "STATUS=reloading")
    assert lines[1].removeprefix("MONOTONIC_USEC=").isdigit()
    assert notified.recv(4096).decode() == f"READY=1\n{status}"
    server.signal(signal.SIGTERM)
    assert notified.recv(4096).decode() == "STOPPING=1\nSTATUS=stopping"
    assert server.wait() == 0


def test_a_reload_that_is_refused_ends_for_systemd_too(
    start: Start, notified: socket.socket, tmp_path: Path
) -> None:
    config = tmp_path / "bolide.toml"
    config.write_text("backlog = 100\n")
    environ = {"NOTIFY_SOCKET": str(notified.getsockname())}
    server = start("basic.py", "--config", str(config), env=environ)
    assert notified.recv(4096).startswith(b"READY=1\n")
    config.write_text("backlog = 'x'\n")
    server.signal(signal.SIGHUP)
    assert notified.recv(4096).startswith(b"RELOADING=1\n")
    assert notified.recv(4096).startswith(b"READY=1\n")
    server.wait_line("cannot reload: .*backlog.*; keeping the current workers$")


def test_the_watchdog_is_notified_twice_as_often_as_it_needs(
    start: Start, notified: socket.socket
) -> None:
    environ = {"NOTIFY_SOCKET": str(notified.getsockname()), "WATCHDOG_USEC": "200000"}
    start("basic.py", env=environ)
    assert notified.recv(4096).startswith(b"READY=1")
    assert [notified.recv(4096) for _ in range(3)] == [b"WATCHDOG=1"] * 3


def test_more_sockets_than_files_may_be_open_are_refused() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    for count in (str(min(soft, 65_536) + 1), "99999999", "9" * 5000):
        with pytest.raises(ConfigError, match=f"LISTEN_FDS: {count[:20]} sockets are more than"):
            passed({"LISTEN_FDS": count, "LISTEN_PID": str(os.getpid())})
    assert passed({"LISTEN_FDS": "0001", "LISTEN_PID": str(os.getpid())}) == [Address(fd=3)]


@pytest.mark.parametrize("interval_us", ["1", "99999"])
def test_a_watchdog_with_a_short_interval_does_not_keep_the_supervisor_busy(
    notified: socket.socket, caplog: pytest.LogCaptureFixture, interval_us: str
) -> None:
    name = str(notified.getsockname())
    made = Notifications({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": interval_us})
    (warning,) = caplog.messages
    assert "systemd is notified for an interval of 0.1 s, not of " in warning
    before = time.monotonic()
    made.watch()
    assert made.due is not None and before + 0.05 <= made.due <= time.monotonic() + 0.05


@pytest.mark.parametrize("interval_us", ["0", "9" * 5000])
def test_no_interval_is_no_watchdog(interval_us: str, notified: socket.socket) -> None:
    name = str(notified.getsockname())
    made = Notifications({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": interval_us})
    made.watch()
    assert made.due is None


def test_nobody_is_notified_without_systemd_and_a_watchdog_of_another_process() -> None:
    Notifications({}).ready("any")
    Notifications({"NOTIFY_SOCKET": "/no/such/socket"}).stopping()
    other = Notifications({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"})
    other.watch()
    assert other.due is None


@pytest.mark.parametrize(
    ("given", "environ", "address"),
    [
        ({}, {}, "127.0.0.1:8000"),
        ({}, {"PORT": "5000"}, "0.0.0.0:5000"),
        ({}, {"PORT": ""}, "127.0.0.1:8000"),
        ({"host": "::"}, {"PORT": "5000"}, "[::]:5000"),
        ({"port": 1}, {"PORT": "5000"}, "127.0.0.1:1"),
        ({"bind": "h:2"}, {"PORT": "5000"}, "h:2"),
        ({}, {"PORT": "5000", "BOLIDE_UDS": "/s"}, "unix:/s"),
    ],
)
def test_platforms_set_the_port(
    given: dict[str, object], environ: dict[str, str], address: str
) -> None:
    (found,) = resolve(given, environ=environ).addresses
    assert str(found) == address


def test_a_port_of_a_platform_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match="the variable PORT: 'tcp://10.0.0.1:80' is not"):
        resolve({}, environ={"PORT": "tcp://10.0.0.1:80"})
