"""HUP, TTIN and TTOU: other workers take over, and no request is lost."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.server.process import signals
from bolide.server.reload import unchangeable_kept
from support.client import Connection
from support.server import READY, Server, Start, clean_environ, wait_for_end
from support.waiting import wait_until

pytestmark = pytest.mark.slow

APP = """
import asyncio, os, sys
import bolide

app = bolide.App()
VERSION = {version!r}
{more}

@app.get("/")
def version(request):
    return VERSION

@app.get("/pid")
def pid(request):
    return str(os.getpid())

@app.get("/slow")
async def slow(request):
    print("in flight", file=sys.stderr, flush=True)
    await asyncio.sleep(1)
    return VERSION

@app.post("/count")
async def count(request):
    return str(len(await request.body()))
"""


def write(folder: Path, version: str, more: str = "") -> None:
    (folder / "app.py").write_text(APP.format(version=version, more=more))


def get(server: Server, path: str = "/") -> bytes:
    with server.connect() as client:
        return client.get(path).content


def workers_after(server: Server, before: list[int]) -> list[int]:
    """Wait until those have ended; return the others."""
    wait_until(lambda: not set(server.workers()) & set(before))
    return server.workers()


def pids_that_serve(server: Server, count: int) -> set[bytes]:
    """Open connections until `count` workers serve them; return the workers.

    One after another is not enough: the worker that served the last may always be the first that
    waits again.
    """
    pids: set[bytes] = set()
    with ExitStack() as stack:
        for _ in range(100):
            if len(pids) < count:
                pids.add(stack.enter_context(server.connect()).get("/pid").content)
    return pids


def serves(server: Server, version: bytes) -> None:
    """Wait until it responds with that: a worker that is to drain accepts what is waiting."""
    wait_until(lambda: get(server) == version)


def reloaded(server: Server) -> None:
    server.signal(signal.SIGHUP)
    server.wait_line(r"reloaded in \d+\.\d s: \d workers?$")


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_reload_replaces_each_worker_by_one_with_the_application_of_now(
    start: Start, tmp_path: Path, workers: str
) -> None:
    write(tmp_path, "old")
    server = start("app:app", "--workers", workers, cwd=tmp_path)
    before = server.workers()
    write(tmp_path, "a newer one")  # the length differs, so no compiled file of the old one fits
    reloaded(server)
    serves(server, b"a newer one")
    after = workers_after(server, before)
    assert len(after) == int(workers)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "ERROR" not in server.errors and "WARN" not in server.errors


def test_workers_are_replaced_one_after_the_other(start: Start, tmp_path: Path) -> None:
    write(tmp_path, "any")
    server = start("app:app", "--workers", "2", cwd=tmp_path)
    before = server.workers()
    reloaded(server)
    lines = re.findall(r"worker (\d) \(pid \d+\) serves; pid (\d+) drains", server.errors)
    assert lines == [("1", str(before[0])), ("2", str(before[1]))]


def test_a_request_in_flight_gets_its_response_from_the_worker_before(
    start: Start, tmp_path: Path
) -> None:
    write(tmp_path, "old")
    server = start("app:app", cwd=tmp_path)
    with server.connect() as client, server.connect() as idle:
        assert idle.get("/").content == b"old"
        client.send(b"GET /slow HTTP/1.1\r\nHost: test\r\n\r\n")
        server.wait_line("in flight")
        write(tmp_path, "a newer one")
        reloaded(server)
        serves(server, b"a newer one")
        reply = client.read()
        assert (reply.status, reply.content, reply.is_last) == (200, b"old", True)
        assert idle.is_closed()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("raise LookupError('broken')", r"importing app failed: LookupError: broken"),
        ("1 +", r"importing app failed: SyntaxError"),
        (
            "@app.on_startup\nasync def fail():\n    raise OSError('no database')",
            "the application's startup failed: OSError: no database",
        ),
        ("os.kill(os.getpid(), 9)", r"signal SIGKILL"),
    ],
    ids=["import", "syntax", "startup", "killed"],
)
def test_a_broken_application_leaves_the_workers_before(
    start: Start, tmp_path: Path, more: str, message: str
) -> None:
    write(tmp_path, "old")
    server = start("app:app", "--workers", "2", cwd=tmp_path)
    before = server.workers()
    write(tmp_path, "a newer one", more)
    server.signal(signal.SIGHUP)
    server.wait_line(
        rf"the reload has failed: worker 1 \(pid \d+\) ended: {message}.*; no worker was replaced$"
    )
    assert server.workers() == before
    assert get(server) == b"old"
    write(tmp_path, "the repaired one")
    reloaded(server)
    serves(server, b"the repaired one")


HANGS = """
import time
print("hanging", file=sys.stderr, flush=True)
time.sleep(60)
"""


def test_another_reload_replaces_one_that_does_not_come_to_an_end(
    start: Start, tmp_path: Path
) -> None:
    write(tmp_path, "old")
    server = start("app:app", "--workers", "2", cwd=tmp_path)
    write(tmp_path, "never", HANGS)
    server.signal(signal.SIGHUP)
    server.wait_line("hanging")
    assert get(server) == b"old"
    write(tmp_path, "the repaired one")
    reloaded(server)
    serves(server, b"the repaired one")
    assert "ERROR" not in server.errors


WAITING = """
import time
print("waiting", file=sys.stderr, flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
"""


def test_a_reload_that_is_asked_for_during_the_start_follows_it(
    start: Start, tmp_path: Path
) -> None:
    write(tmp_path, "old", WAITING)
    server = start("app:app", cwd=tmp_path, ready=False)
    server.wait_line("waiting$")
    server.signal(signal.SIGHUP)
    server.wait_line("the reload begins when the start has ended$")
    write(tmp_path, "new")
    (tmp_path / "go").touch()
    server.wait_ready()
    server.wait_line("reloaded in")
    serves(server, b"new")


def test_a_stop_ends_a_reload(start: Start, tmp_path: Path) -> None:
    write(tmp_path, "old")
    server = start("app:app", cwd=tmp_path)
    write(tmp_path, "never", HANGS)
    server.signal(signal.SIGHUP)
    server.wait_line("hanging")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


def test_a_worker_that_ends_during_a_reload_is_followed_by_its_successor(
    start: Start, tmp_path: Path
) -> None:
    write(tmp_path, "old")
    server = start("app:app", cwd=tmp_path)
    (before,) = server.workers()
    (tmp_path / "gate").touch()
    waiting = "import time\nprint('waiting', file=sys.stderr, flush=True)\n"
    write(tmp_path, "newer", waiting + "while os.path.exists('gate'): time.sleep(0.01)")
    server.signal(signal.SIGHUP)
    server.wait_line("waiting")
    os.kill(before, signal.SIGKILL)
    server.wait_line(rf"pid {before}\) ended: signal SIGKILL; its successor is starting")
    (tmp_path / "gate").unlink()
    server.wait_line("reloaded")
    assert get(server) == b"newer"
    assert len(server.workers()) == 1


def test_a_reload_ends_if_the_worker_before_ends_and_its_successor_fails(
    start: Start, tmp_path: Path
) -> None:
    write(tmp_path, "old")
    config = tmp_path / "bolide.toml"
    config.write_text("body_bytes_max = 10\n")
    server = start("app:app", cwd=tmp_path)
    (before,) = server.workers()
    (tmp_path / "gate").touch()
    waiting = "import time\nprint('waiting', file=sys.stderr, flush=True)\n"
    until = "while os.path.exists('gate'): time.sleep(0.01)\nraise LookupError('broken')"
    write(tmp_path, "newer", waiting + until)
    config.write_text("body_bytes_max = 11\n")
    server.signal(signal.SIGHUP)
    server.wait_line("waiting")
    os.kill(before, signal.SIGKILL)
    server.wait_line(rf"pid {before}\) ended: signal SIGKILL; its successor is starting")
    (tmp_path / "gate").unlink()
    server.wait_line("the reload has failed: worker 1 .* broken; no worker was replaced$")
    server.wait_line("worker 1 .* broken; the next one starts in")
    write(tmp_path, "the repaired one")
    server.signal(signal.SIGUSR2)
    server.wait_line("upgrading: process")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


def test_workers_that_drain_are_not_many(start: Start, tmp_path: Path) -> None:
    """Otherwise each HUP would add a process for the graceful time."""
    more = "@app.get('/hold')\nasync def hold(request):\n"
    more += "    print('held', file=sys.stderr, flush=True)\n"
    more += "    while not os.path.exists('gate'): await asyncio.sleep(0.01)\n"
    write(tmp_path, "any", more)
    server = start("app:app", cwd=tmp_path)
    holding: set[bytes] = set()
    with ExitStack() as stack:
        for number in range(3):
            pid = b""
            while pid in {b"", *holding}:  # one that drains may accept a client at first
                client = stack.enter_context(server.connect())
                pid = client.get("/pid").content
            holding.add(pid)
            client.send(b"GET /hold HTTP/1.1\r\nHost: test\r\n\r\n")
            server.wait_line("held")
            if number < 2:
                reloaded(server)
        assert len(server.workers()) == 3
        server.signal(signal.SIGHUP)
        server.wait_line("reloading: replacing 1 worker")
        assert server.is_silent(1)
        (tmp_path / "gate").touch()
        server.wait_line("reloaded in")


def test_more_workers_than_there_are_descriptors_for_change_nothing(
    start: Start, tmp_path: Path
) -> None:
    write(tmp_path, "any")
    binds = [argument for _ in range(60) for argument in ("--bind", "127.0.0.1:0")]
    server = start("app:app", "--workers", "2", *binds, cwd=tmp_path)
    before = server.workers()
    limit = len(os.listdir(f"/proc/{server.pid}/fd")) + 4  # 9 more would be necessary
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, limit))
    server.signal(signal.SIGTTIN)
    server.wait_line("ERROR bolide: cannot have 3 workers: Too many open files")
    server.signal(signal.SIGTTOU)
    server.wait_line("now running 1 worker$")
    server.signal(signal.SIGUSR2)
    server.wait_line("upgrading: process|the upgrade has failed: no process can be started")
    assert before[0] in server.workers()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "Traceback" not in server.errors


def test_a_worker_that_does_not_drain_is_killed(start: Start, tmp_path: Path) -> None:
    write(tmp_path, "old", "import time\n@app.get('/stuck')\ndef stuck(request): time.sleep(60)")
    server = start("app:app", "--graceful-timeout-ms", "300", cwd=tmp_path)
    (before,) = server.workers()
    with server.connect() as client:
        client.send(b"GET /stuck HTTP/1.1\r\nHost: test\r\n\r\n")
        reloaded(server)
        server.wait_line(rf"worker 1 \(pid {before}\) has not drained in time; killing it")
        assert wait_for_end(before)
    assert get(server) == b"old"


def test_the_configuration_is_read_again(start: Start, tmp_path: Path) -> None:
    write(tmp_path, "any")
    config = tmp_path / "bolide.toml"
    config.write_text("body_bytes_max = 10\n")
    server = start("app:app", cwd=tmp_path)
    sent = b"POST /count HTTP/1.1\r\nHost: test\r\nContent-Length: 11\r\n\r\nhello world"
    with server.connect() as client:
        client.send(sent)
        assert client.read().status == 413
    before = server.workers()
    config.write_text("body_bytes_max = 11\nworkers = 2\n")
    server.signal(signal.SIGHUP)
    server.wait_line("reloaded in .*: 2 workers$")
    before = workers_after(server, before)
    with server.connect() as client:
        client.send(sent)
        assert client.read().content == b"11"
    for text, message in {
        "body_bytes_max = -1\n": "body_bytes_max in bolide.toml: -1",
        "certificate = 'self-signed'\n": "TLS was switched on, which needs a restart",
        "access_log = 'no/such/folder'\n": "cannot write the access log no/such/folder",
    }.items():
        config.write_text(text)
        server.signal(signal.SIGHUP)
        server.wait_line(f"cannot reload: .*{message}.*; keeping the current workers")
    assert server.workers() == before


def test_the_access_log_is_opened_again(start: Start, tmp_path: Path) -> None:
    write(tmp_path, "any")
    log, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    server = start("app:app", "--access-log", str(log), cwd=tmp_path)
    get(server, "/first")
    log.rename(moved)
    before = get(server, "/pid")
    reloaded(server)
    wait_until(lambda: get(server, "/pid") != before)
    get(server, "/second")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "/first" in moved.read_text() and "/second" not in moved.read_text()
    assert "/second" in log.read_text()


def test_workers_are_added_and_taken_away(start: Start, tmp_path: Path) -> None:
    write(tmp_path, "any")
    server = start("app:app", cwd=tmp_path)
    for count in (2, 3):
        server.signal(signal.SIGTTIN)
        server.wait_line(f"now running {count} workers")
        server.wait_line("reloaded")  # those before knew of fewer
        assert len(pids_that_serve(server, count)) == count
    wait_until(lambda: len(server.workers()) == 3)  # the others have drained
    before = server.workers()
    for count in ("2 workers", "1 worker"):
        server.signal(signal.SIGTTOU)
        server.wait_line(f"now running {count}$")
    assert workers_after(server, before[1:]) == before[:1]
    server.signal(signal.SIGTTOU)
    server.wait_line("SIGTTOU is ignored: there is only one worker")
    reloaded(server)
    assert len(workers_after(server, before[:1])) == 1
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "ERROR" not in server.errors


def test_workers_that_the_limit_of_open_files_does_not_allow_are_refused(
    start: Start, tmp_path: Path
) -> None:
    write(tmp_path, "any")
    config = tmp_path / "bolide.toml"
    config.write_text("")
    server = start("app:app", cwd=tmp_path)
    before = server.workers()
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (40, 40))
    server.signal(signal.SIGTTIN)
    server.wait_line("ERROR bolide: cannot have 2 workers: 40 open files are too few")
    config.write_text("workers = 2\n")
    server.signal(signal.SIGHUP)
    server.wait_line("ERROR bolide: cannot reload: 40 open files are too few for 2 workers")
    assert server.workers() == before
    assert get(server) == b"any"
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "Traceback" not in server.errors


def test_addresses_stay_and_a_change_of_them_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    now = resolve({"host": "127.0.0.1", "port": 80}, environ={})
    read = resolve({"bind": "127.0.0.1:81", "backlog": 5}, environ={})
    kept = unchangeable_kept(now, read)
    assert kept.addresses == now.addresses and kept.backlog == 5
    (record,) = caplog.records
    text = "port and bind were changed, which take effect after a restart"
    assert record.getMessage() == text


def test_an_option_that_does_not_go_with_one_that_stays_is_refused() -> None:
    now = resolve({"debug": True}, environ={})
    read = resolve({"untrusted_forwarded": "remove"}, environ={})
    with pytest.raises(ConfigError, match="debug does not go with untrusted_forwarded=remove"):
        unchangeable_kept(now, read)


def test_a_redirect_that_stays_does_not_go_with_the_proxy_protocol() -> None:
    tls = {"certificate": "self-signed"}
    now = resolve({**tls, "redirect_to_https": "127.0.0.1:80"}, environ={})
    read = resolve({**tls, "proxy_protocol": True}, environ={})
    with pytest.raises(ConfigError, match="proxy_protocol does not go with redirect_to_https"):
        unchangeable_kept(now, read)


def test_a_terminal_keeps_its_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda fd: fd == 1)
    assert signals.has_terminal()
    monkeypatch.setattr(os, "isatty", lambda _: False)
    assert not signals.has_terminal()


JUNK = """
@app.on_startup
async def write_to_every_pipe():
    def junk():
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2 and os.path.exists(f"/proc/self/fd/{name}"):
                if os.readlink(f"/proc/self/fd/{name}").startswith("pipe:"):
                    try:
                        os.write(int(name), b"junk\\n")
                    except OSError:
                        pass
    asyncio.get_running_loop().call_later(0.2, junk)
"""
"""An application that writes to descriptors which it has not opened."""


def test_the_options_of_a_failed_reload_are_not_used_later(start: Start, tmp_path: Path) -> None:
    write(tmp_path, "old")
    config = tmp_path / "bolide.toml"
    config.write_text("workers = 2\naccess_log = 'first.log'\n")
    server = start("app:app", cwd=tmp_path)
    before = server.workers()
    write(tmp_path, "broken", "raise LookupError('broken')")
    config.write_text("workers = 3\naccess_log = 'second.log'\nlog_level = 'error'\n")
    server.signal(signal.SIGHUP)
    server.wait_line("the reload has failed: .* no worker was replaced$")
    write(tmp_path, "the repaired one")
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not set(server.workers()) & set(before) and len(server.workers()) == 2)
    serves(server, b"the repaired one")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "the repaired one" not in (tmp_path / "second.log").read_text()
    assert (tmp_path / "first.log").read_text().count("GET / ") >= 1
    assert (tmp_path / "second.log").read_text() == ""
    assert "stopped" in server.errors  # which the level of the failed reload would not have


def test_a_reload_that_fails_keeps_the_number_of_workers(start: Start, tmp_path: Path) -> None:
    write(tmp_path, "old")
    config = tmp_path / "bolide.toml"
    config.write_text("workers = 3\n")
    server = start("app:app", cwd=tmp_path)
    write(tmp_path, "broken", "raise LookupError('broken')")
    config.write_text("workers = 1\n")
    server.signal(signal.SIGHUP)
    server.wait_line("the reload has failed: .* no worker was replaced$")
    write(tmp_path, "the repaired one")
    wait_until(lambda: len(server.workers()) == 3)
    assert get(server) in (b"old", b"the repaired one")


def test_what_is_no_report_does_not_stop_the_supervisor(start: Start, tmp_path: Path) -> None:
    write(tmp_path, "old", JUNK)
    server = start("app:app", "--requests-max", "1000", cwd=tmp_path)
    (worker,) = server.workers()
    server.wait_line(
        rf"ERROR bolide: the report of process {worker} is malformed \(b'junk'\); does "
    )
    assert get(server) == b"old"
    os.kill(worker, signal.SIGKILL)
    server.wait_line(rf"worker 1 \(pid {worker}\) ended: signal SIGKILL; the next one starts")
    serves(server, b"old")


@pytest.mark.alone
@pytest.mark.parametrize("workers", ["1", "2"])
def test_no_request_is_lost_while_the_server_reloads_again_and_again(
    start: Start, tmp_path: Path, workers: str
) -> None:
    """Five kinds of clients, each with a ledger: what is not a whole response is an error."""
    write(tmp_path, "any")
    server = start("app:app", "--workers", workers, cwd=tmp_path)
    url = server.urls[0]
    kinds = [
        ["--connections", "8"],
        ["--connections", "2", "--pipeline", "8"],
        ["--connections", "2", "--no-keep-alive"],
    ]
    loads = [
        subprocess.Popen(
            [sys.executable, "-m", "bolide", "load", url, *kind, "-d", "6", "--json"],
            env=clean_environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for kind in kinds
    ]
    uploads: list[str] = []
    over = threading.Event()
    uploading = threading.Thread(target=upload, args=(server, over, uploads))
    uploading.start()
    try:
        for _ in range(6):
            reloaded(server)
        outputs = [load.communicate(timeout=60)[0] for load in loads]
    finally:
        over.set()
        uploading.join()
    assert set(uploads) == {"200 100000"}
    for output in outputs:
        assert '"failed": 0' in output, output


def upload(server: Server, over: threading.Event, seen: list[str]) -> None:
    """Upload one content after the other, each in two parts, on new connections."""
    while not over.is_set():
        with Connection(server.address) as client:
            client.send(b"POST /count HTTP/1.1\r\nHost: test\r\nContent-Length: 100000\r\n\r\n")
            client.send(b"x" * 50_000)
            over.wait(0.05)
            client.send(b"x" * 50_000)
            reply = client.read()
            seen.append(f"{reply.status} {reply.content.decode()}")


def test_an_application_object_is_served_by_new_workers(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import bolide\n"
        "app = bolide.App()\n"
        "@app.get('/')\n"
        "def hello(request): return 'hello'\n"
        "bolide.run(app, port=0)\n"
    )

    class Script(Server):
        program = ()

    server = Script(["script.py"], tmp_path)
    try:
        assert re.search(READY, server.wait_line(READY.pattern)[0])
        before = server.workers()
        reloaded(server)
        assert len(workers_after(server, before)) == 1
    finally:
        server.close()


def test_a_socket_whose_file_is_gone_is_reported(start: Start, tmp_path: Path) -> None:
    server = start("basic.py", "--uds", str(tmp_path / "socket"))
    server.signal(signal.SIGHUP)
    server.wait_line("reloaded in ")
    assert "was removed" not in server.errors
    (tmp_path / "socket").unlink()
    server.signal(signal.SIGHUP)
    server.wait_line(
        rf"WARN  bolide: the UNIX socket's file {tmp_path}/socket was removed or replaced, so that "
        r"no client can connect to it: restart the server$"
    )
