"""Mistakes in `--fleet` and `bolide agent`: one line, and what to write instead."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.conftest import LOAD_S
from support.server import Start, clean_environ, command

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--fleet", "local:0"), "--fleet: a fleet has 1 to 64 agents, not 0"),
        (
            ("--fleet", "tcp://127.0.0.1:1", "--agents", "65"),
            "--fleet: a fleet has 1 to 64 agents, not 65",
        ),
        (
            ("--fleet", "tcp://127.0.0.1:1", "--agents", "3", "-t", "2", "-c", "5"),
            "--connections: 5 are fewer than the threads of 3 agents with 2 each; give at least 6",
        ),
        (
            ("--fleet", "tcp://127.0.0.1:1", "--agents", "3", "--stages", "1s:1c,1s:2c"),
            "--connections: 2 are fewer than the threads of 3 agents with 1 each; give at least 3",
        ),
        (("--fleet", "local"), "'local' is not a fleet; give local:N or tcp://HOST:PORT"),
        (("--fleet", "tcp://[::1:1"), "'tcp://[::1:1' is not a fleet; give local:N or"),
        (("--fleet", "tcp://127.0.0.1:99999"), "is not a fleet; give local:N or tcp://HOST:PORT"),
        (("--fleet", "127.0.0.1:8786"), "is not a fleet; give local:N or tcp://HOST:PORT"),
        (
            ("--fleet", "tcp://192.0.2.1:8786"),
            "tcp://192.0.2.1:8786 is not on this machine, so its agents need a secret: give the "
            "--secret-file that they were started with, or use tls://",
        ),
        (
            ("--fleet", "local:2", "-n", "5", "-d", "5s"),
            "--duration and --requests both set the end; give only one of them",
        ),
        (("--fleet", "local:2", "--find", "p99 > 1ms"), "is met ever better at higher rates"),
        (("--fleet", "local:2", "--cpus", "0"), "start agents with `taskset -c` instead"),
        (("--agents", "2"), "--agents is for a fleet; give --fleet too"),
        (("--secret-file", "x"), "--secret-file is for a fleet; give --fleet too"),
        (("--without-agent", "x"), "--without-agent is for a fleet; give --fleet too"),
        (("--fleet", "local:2", "--agents", "2"), "local:2 starts its agents itself; leave out"),
        (
            ("--fleet", "tcp://127.0.0.1:1", "--secret-file", "none"),
            "--secret-file: cannot read none: No such file or directory; make one with: (umask",
        ),
        (
            ("--fleet", "tls://127.0.0.1:1"),
            "tls://127.0.0.1:1 needs certificates in Dask's configuration (distributed.comm.tls",
        ),
    ],
)
def test_a_fleet_that_is_none(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    code, page, written = command("load", "http://127.0.0.1:9/", *arguments, cwd=tmp_path)
    assert (code, page) == (2, "")
    assert message in written and written.count("\n") == 1


@pytest.mark.slow
def test_a_scheduler_that_is_not_there(
    tmp_path: Path, load: Callable[..., tuple[int, str, str]]
) -> None:
    url, fleet = "http://127.0.0.1:9/", "tcp://127.0.0.1:1"
    code, page, written = load(url, "--fleet", fleet)
    assert (code, page) == (3, "")
    assert written.startswith(f"bolide: error: no Dask scheduler at {fleet}: ")
    assert written.count("\n") == 1
    code, _, written = command("agent", fleet, "--wait", "300ms", cwd=tmp_path)
    assert (code, written) == (3, f"bolide: error: no Dask scheduler at {fleet} within 0 s\n")


def test_a_server_that_is_not_there(load: Callable[..., tuple[int, str, str]]) -> None:
    code, page, written = load("http://127.0.0.1:9/", "--fleet", "local:1", "-c", "1", "-d", "1s")
    assert (code, page) == (3, "")
    assert "agent local-0: cannot connect to 127.0.0.1:9: Connection refused\n" in written
    assert written.count("\n") == 1


def silent(client: socket.socket) -> None:
    """Wait for the end."""
    while client.recv(1 << 16):
        pass


def echo(client: socket.socket) -> None:
    """Send everything back."""
    while octets := client.recv(1 << 16):
        client.sendall(octets)


def http(client: socket.socket) -> None:
    """Respond as a server of HTTP."""
    client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    silent(client)


@contextlib.contextmanager
def listening(respond: Callable[[socket.socket], None]) -> Iterator[str]:
    """Listen on a port of this machine; return its address for `--fleet`."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):
                respond(self.request)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("respond", "why"),
    [
        (silent, "what listens there did not respond within 6 s"),
        (echo, "something else listens there"),
        (http, "something else listens there (a message has more than 128 MiB)"),
    ],
)
def test_something_else_than_a_scheduler(
    respond: Callable[[socket.socket], None], why: str, load: Callable[..., tuple[int, str, str]]
) -> None:
    with listening(respond) as fleet:
        done = load("http://127.0.0.1:9/", "--fleet", fleet)
    assert done == (3, "", f"bolide: error: no Dask scheduler at {fleet}: {why}\n")


HANGS_LATER = """
import asyncio
import bolide.fleet.dask as module
module._greet = lambda *_: asyncio.sleep(0)
module.GREET_S = 1.0
from bolide.cli import main
main()
"""


def test_a_scheduler_that_hangs_after_it_has_identified_itself(tmp_path: Path) -> None:
    with listening(silent) as fleet:
        done = subprocess.run(
            [sys.executable, "-c", HANGS_LATER, "load", "http://127.0.0.1:9/", "--fleet", fleet],
            cwd=tmp_path,
            env=clean_environ(),
            capture_output=True,
            text=True,
            timeout=LOAD_S,
        )
    expected = f"bolide: error: no Dask scheduler at {fleet}: it did not respond in time\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", expected)


def test_an_agent_of_something_else_than_a_scheduler(
    tmp_path: Path,
) -> None:
    with listening(echo) as fleet:
        code, _, written = command("agent", fleet, cwd=tmp_path, timeout_s=LOAD_S)
    expected = f"bolide: error: no Dask scheduler at {fleet}: something else listens there\n"
    assert (code, written) == (3, expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tcp://[::1:1",), "'tcp://[::1:1' is not a scheduler; give tcp://HOST:PORT"),
        (("tcp://127.0.0.1:0",), "'tcp://127.0.0.1:0' is not a scheduler; give tcp://HOST:PORT"),
        (("127.0.0.1:8786",), "'127.0.0.1:8786' is not a scheduler; give tcp://HOST:PORT"),
        (("tcp://127.0.0.1:1", "--allow", "10.0.0.1/8"), "--allow: '10.0.0.1/8' is not a network"),
        (
            ("tcp://127.0.0.1:1", "--host", "192.0.2.1"),
            "everybody who reaches 192.0.2.1 could use this agent, because it has no secret: give "
            "the --secret-file of `bolide load`",
        ),
        (
            ("tcp://127.0.0.1:1", "--duration-max", "13h"),
            "--duration-max: no load of a fleet takes more than 12 hours; give 12h",
        ),
        (("tls://127.0.0.1:1", "--wait", "5s"), "needs certificates in Dask's configuration"),
    ],
)
def test_an_agent_with_a_mistake(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    code, _, written = command("agent", *arguments, cwd=tmp_path)
    assert code == 2 and message in written and written.count("\n") == 1


def test_without_dask_the_message_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['distributed'] = None\n")
    environ = {"PYTHONPATH": str(tmp_path)}
    for arguments in (
        ("load", "http://127.0.0.1:9/", "--fleet", "local:2"),
        ("load", "http://127.0.0.1:9/", "--fleet", "tcp://127.0.0.1:1"),
        ("agent", "tcp://127.0.0.1:1"),
    ):
        code, _, written = command(*arguments, cwd=tmp_path, env=environ)
        expected = "a fleet needs Dask, which is not installed; pip install 'bolide[fleet]'"
        assert (code, written) == (2, f"bolide: error: {expected}\n")


def test_a_load_without_a_fleet_imports_nothing_of_it(start: Start) -> None:
    code = (
        "import sys\nfrom bolide.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith(('bolide.fleet', 'dask', 'distributed', "
        "'tornado'))])"
    )
    url = f"{start().urls[0]}/"
    arguments = ["load", url, "-n", "5", "-c", "1", "--json", "--quiet"]
    out = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    report, modules = out.stdout.splitlines()
    assert json.loads(report)["ok"] + json.loads(report)["failed"] == 5
    assert modules == "[]"
