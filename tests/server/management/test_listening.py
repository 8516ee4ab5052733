"""The management listener of a running server: pages, commands, and clients that are slow."""

from __future__ import annotations

import os
import signal
import socket
import stat
import time
from pathlib import Path

import pytest

from bolide import _core
from bolide.server.management.listening import CONNECTIONS_MAX, TIMEOUT_S
from support.client import Connection
from support.management import COMMAND, Managed
from support.server import Start, command, wait_for_end
from support.waiting import wait_until

pytestmark = pytest.mark.slow

GET = 'bolide_http_requests_total{method="GET",status="%s"}'
DURATIONS = "bolide_http_request_duration_seconds_count"


def test_requests_are_counted_by_method_and_status(start: Start) -> None:
    managed = Managed(start)
    with managed.server.connect() as client:
        for path in ("/", "/slow/1", "/nowhere", "/"):
            client.get(path)
        client.post("/", b"content")
        wait_until(lambda: managed.metrics()["bolide_connections"] == 1)
    wait_until(lambda: managed.metrics()["bolide_connections"] == 0)
    metrics = managed.metrics()
    assert metrics[GET % "2xx"] == 3
    assert metrics[GET % "4xx"] == 1
    assert metrics['bolide_http_requests_total{method="POST",status="4xx"}'] == 1
    assert metrics[DURATIONS] == 5
    assert 0.001 <= metrics["bolide_http_request_duration_seconds_sum"] < 10
    assert metrics["bolide_connections_accepted_total"] == 1
    assert metrics["bolide_received_bytes_total"] > metrics["bolide_sent_bytes_total"] / 10 > 0
    assert metrics[f'bolide_info{{version="{_core.__version__}"}}'] == 1
    assert abs(metrics["bolide_start_time_seconds"] - time.time()) < 60


def test_totals_of_several_workers_stay_when_they_are_replaced(start: Start) -> None:
    managed = Managed(start, "basic.py", "--workers", "2")
    for _ in range(4):
        with managed.server.connect() as client:
            client.get("/")
    assert managed.metrics()[GET % "2xx"] == 4
    before = managed.server.workers()
    assert managed.ask("/reload", "POST", COMMAND).status == 202
    managed.server.wait_line(r"reloaded in")
    wait_until(lambda: not set(managed.server.workers()) & set(before))
    wait_until(lambda: managed.status()["exits"] == {"stopped": 2})
    metrics = managed.metrics()
    assert metrics[GET % "2xx"] == 4
    assert metrics['bolide_reloads_total{result="completed"}'] == 1
    assert metrics['bolide_worker_exits_total{cause="stopped"}'] == 2
    assert metrics['bolide_workers{state="serving"}'] == 2
    os.kill(managed.server.workers()[0], signal.SIGKILL)
    wait_until(lambda: managed.metrics()['bolide_worker_exits_total{cause="signal"}'] == 1)
    assert managed.metrics()[GET % "2xx"] == 4


def test_it_responds_while_the_only_worker_is_stuck(start: Start) -> None:
    managed = Managed(start)
    with managed.server.connect() as client:
        client.send(b"GET /compute/2000 HTTP/1.1\r\nHost: test\r\n\r\n")
        managed.server.wait_line("blocking")
        wait_until(lambda: managed.metrics()["bolide_event_loop_lag_seconds"] > 0.2)
        [worker] = managed.status()["workers"]
        assert worker["busy_s"] > 0.2
        assert worker["connections"] == 1
        assert managed.ask("/health").status == 200
        assert client.read().content == b"done"
    wait_until(lambda: managed.metrics()["bolide_event_loop_lag_seconds"] == 0)
    metrics = managed.metrics()
    assert (
        metrics['bolide_event_loop_pause_seconds_bucket{le="1.0"}']
        < metrics["bolide_event_loop_pause_seconds_count"]
    )
    assert (
        metrics[DURATIONS] - metrics['bolide_http_request_duration_seconds_bucket{le="1.0"}'] == 1
    )


def test_ready_is_false_before_the_server_serves_and_while_it_drains(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(
        "import bolide\napp = bolide.App()\n"
        "@app.on_startup\nasync def wait():\n    open('fifo').read()\n"
        "@app.get('/slow')\nasync def slow(request):\n"
        "    import asyncio, sys\n    print('in flight', file=sys.stderr, flush=True)\n"
        "    await asyncio.sleep(0.5)\n    return 'x'\n"
    )
    os.mkfifo(tmp_path / "fifo")
    managed = Managed(start, "app.py", cwd=tmp_path, ready=False)
    for path, state in (
        ("/ready", b"not ready: starting\n"),
        ("/health", b"0 workers are serving\n"),
    ):
        reply = managed.ask(path)
        assert (reply.status, reply.content) == (503, state)
    assert managed.metrics()['bolide_workers{state="starting"}'] == 1
    reply = managed.ask("/reload", "POST", COMMAND)
    assert (reply.status, reply.content) == (409, b"cannot reload while the server is starting\n")
    (tmp_path / "fifo").write_text("")
    managed.server.wait_ready()
    assert managed.ask("/ready").status == managed.ask("/health").status == 200
    assert managed.ask("/health").content == b"1 worker is serving\n"
    with managed.server.connect() as client:
        client.send(b"GET /slow HTTP/1.1\r\nHost: test\r\n\r\n")
        managed.server.wait_line("in flight")
        assert managed.ask("/stop", "POST", COMMAND).status == 202
        assert (managed.ask("/ready").status, managed.ask("/health").status) == (503, 200)
        assert managed.ask("/stop", "POST", COMMAND).status == 409
        assert client.read().content == b"x"
    assert managed.server.wait() == 0


def test_the_status_shows_workers_and_options_without_secrets(start: Start, tmp_path: Path) -> None:
    managed = Managed(start, "basic.py", "--workers", "2", "--certificate", "self-signed")
    status = managed.status()
    assert status["version"] == _core.__version__
    assert (status["pid"], status["application"]) == (managed.server.pid, "basic.py")
    assert (status["state"], status["is_reloading"]) == ("serving", False)
    assert [each["pid"] for each in status["workers"]] == managed.server.workers()
    for number, each in enumerate(status["workers"]):
        assert (each["number"], each["state"], each["requests"]) == (number + 1, "serving", 0)
        assert each["rss_bytes"] > 1 << 20
        assert 0 < each["age_s"] < 60
    options = status["options"]
    assert (options["workers"], options["certificate"]) == (2, ["self-signed"])
    assert {"key", "key_password_file", "threads"}.isdisjoint(options)


def test_pages_have_methods(start: Start) -> None:
    managed = Managed(start)
    assert managed.ask("/metrics", "HEAD").status == 200
    for path, method, allowed in (("/metrics", "POST", "GET, HEAD"), ("/stop", "GET", "POST")):
        reply = managed.ask(path, method, COMMAND)
        assert (reply.status, reply.get("allow")) == (405, allowed)
    reply = managed.ask("/")
    assert reply.status == 404 and reply.content.startswith(b"not found; try /metrics, /health, ")
    assert managed.ask("/stop", "POST").status == 403


def test_a_unix_socket_is_for_its_owner_and_ends_with_the_server(
    start: Start, tmp_path: Path
) -> None:
    path = tmp_path / "management"
    managed = Managed(start, address=f"unix:{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert managed.ask("/stop", "POST", COMMAND).status == 202
    assert managed.server.wait() == 0
    assert not path.exists()


def test_clients_that_are_silent_or_slow_stop_nobody(start: Start) -> None:
    managed = Managed(start)
    silent = [Connection(managed.address) for _ in range(2 * CONNECTIONS_MAX)]
    silent[-1].send(b"GET /metrics HT")
    assert managed.ask("/health").status == 200
    assert silent[0].is_closed()  # the oldest leave first
    silent[-1].send(b"TP/1.1\r\nHost: localhost\r\n\r\n")
    assert silent[-1].read().status == 200
    long = Connection(managed.address)
    long.send(b"GET / HTTP/1.1\r\nX: " + b"a" * 9000)
    assert long.read().status == 431
    began = time.monotonic()
    assert silent[-2].is_closed()
    assert time.monotonic() - began <= TIMEOUT_S + 5
    for each in (*silent, long):
        each.socket.close()


def test_a_worker_has_no_descriptor_of_it(start: Start) -> None:
    managed = Managed(start, "basic.py", "--workers", "2")
    with Connection(managed.address):
        wait_until(lambda: len(of_management(managed)) == 2)
        before = managed.server.workers()
        os.kill(before[0], signal.SIGKILL)
        managed.server.wait_line("the next one starts")
        wait_until(
            lambda: [each["state"] for each in managed.status()["workers"]] == ["serving"] * 2
        )
        own = of_management(managed)
        assert own <= sockets(managed.server.pid)
        for pid in managed.server.workers():
            assert not own & sockets(pid)


@pytest.mark.parametrize("is_unix", [False, True])
def test_the_process_of_an_upgrade_takes_it_over(
    start: Start, tmp_path: Path, is_unix: bool
) -> None:
    address = f"unix:{tmp_path / 'management'}" if is_unix else "127.0.0.1:0"
    managed = Managed(start, address=address)
    completed = 'bolide_upgrades_total{result="completed"}'
    assert managed.metrics()[completed] == 0
    managed.server.signal(signal.SIGUSR2)
    new = int(managed.server.wait_line(r"process (\d+) serves, and this one drains")[1])
    try:
        assert managed.server.wait() == 0
        assert managed.status()["pid"] == new
        assert managed.metrics()[completed] == 1
        assert managed.ask("/stop", "POST", COMMAND).status == 202
    finally:
        assert wait_for_end(new)
    assert not (tmp_path / "management").exists()


def of_management(managed: Managed) -> set[str]:
    """Return the inodes of the management listener and its connections."""
    port = f":{managed.address[1]:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return {line[9] for line in lines if line[1].endswith(port)} - {"0"}


def sockets(pid: int) -> set[str]:
    """Return the inodes of a process's sockets."""
    links = [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
    return {link[8:-1] for link in links if link.startswith("socket:[")}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--port", "PORT", "--management", "127.0.0.1:PORT"], "where the application is served"),
        (["--port", "PORT", "--management", "0.0.0.0:PORT"], "where the application is served"),
        (["--uds", "socket", "--management", "unix:./socket"], "where the application is served"),
        (["--management", "fd:3"], "give HOST:PORT or unix:PATH"),
        (["--management", "9000"], "is not an address"),
    ],
)
def test_an_address_that_clients_reach_is_refused(
    tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "app.py").write_text("import bolide\napp = bolide.App()\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    options = [option.replace("PORT", port) for option in options]
    code, _, errors = command("serve", "app", *options, cwd=tmp_path)
    assert code == 2
    assert len(errors.splitlines()) == 1
    assert message in errors


def test_an_address_that_others_reach_is_warned_of(start: Start) -> None:
    managed = Managed(start, address="0.0.0.0:0")
    [line] = [line for line in managed.server.lines if "can read the server's metrics" in line]
    assert "WARN" in line
    local = Managed(start)
    assert not [line for line in local.server.lines if "can read the server's metrics" in line]
