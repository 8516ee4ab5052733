"""The processes: starting, replacing, draining and stopping them, seen from outside."""

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bolide.server import worker
from bolide.server.process import signals
from support.client import Connection
from support.server import READY, Start, as_address, clean_environ, wait_for_end

pytestmark = pytest.mark.slow

HOLD_MS = 1500
"""How long a request is held in flight: long enough for a signal to arrive in it."""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_serves_and_ends_with_zero(start: Start, workers: str) -> None:
    server = start("basic.py", "--workers", workers)
    with server.connect() as client:
        assert client.get("/").content == b"hello"
        assert client.get("/pid").json()["pid"] in server.workers()
    assert len(server.workers()) == int(workers)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert server.errors.count("startup ran") == server.errors.count("shutdown ran") == int(workers)


def test_says_how_much_a_peer_can_make_a_connection_hold(start: Start) -> None:
    limits = ("--body-bytes-max", "--websocket-message-bytes-max")
    each = [argument for limit in limits for argument in (limit, "1048576")]
    server = start("basic.py", *each, "--memory-max", "64M")
    assert re.search(
        r"memory limit: 64 MiB per worker \(memory_max\), at most 2\.\d+ MiB per connection$",
        server.errors,
        re.MULTILINE,
    )


def test_dead_worker_is_replaced(start: Start) -> None:
    server = start("basic.py", "--workers", "2")
    before = server.workers()
    os.kill(before[0], signal.SIGKILL)
    ended = server.wait_line(rf"worker 1 \(pid {before[0]}\) ended: signal SIGKILL; .* in 0\.1 s.*")
    assert ended[0].endswith("; if nobody sent it, the kernel may have (out of memory: see dmesg)")
    server.wait_line("startup ran")
    after = server.workers()
    assert len(after) == 2
    assert before[0] not in after and before[1] in after
    with server.connect() as client:
        assert client.get("/").content == b"hello"


DRAINS_SLOWLY = """
import asyncio, os
import bolide

app = bolide.App()

@app.on_shutdown
async def wait():
    while os.path.exists("gate"):
        await asyncio.sleep(0.01)
"""


def test_workers_that_drain_of_all_groups_are_not_many(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(DRAINS_SLOWLY)
    (tmp_path / "gate").touch()
    server = start("app.py", cwd=tmp_path)
    for workers in (1, 1, 2):  # two need other siblings than one
        (tmp_path / "bolide.toml").write_text(f"workers = {workers}\n")
        server.signal(signal.SIGHUP)
        server.wait_line(f"reloaded in .*: {workers} workers?$")
    assert len(server.workers()) == 5
    server.signal(signal.SIGHUP)
    server.wait_line(r"worker 1 \(pid \d+\) serves; pid \d+ drains$")
    assert server.is_silent(0.5)
    assert len(server.workers()) == 6
    (tmp_path / "gate").unlink()
    server.wait_line("reloaded in .*: 2 workers$")


def test_replacements_come_ever_later(start: Start) -> None:
    server = start()
    for delay in ("0.1", "0.2", "0.4"):
        os.kill(server.workers()[0], signal.SIGKILL)
        server.wait_line(f"signal SIGKILL; the next one starts in {delay} s")
        server.wait_line("startup ran")


def test_a_worker_that_has_served_is_replaced_soon_however_often_it_ends(start: Start) -> None:
    server = start("basic.py")
    for _ in range(5):
        [worker] = server.workers()
        os.kill(worker, signal.SIGKILL)
        delay_s = float(server.wait_line(r"SIGKILL; the next one starts in (\d\.\d) s")[1])
        assert delay_s <= 0.5
        with server.connect() as client:
            assert client.get("/").content == b"hello"


def test_worker_that_was_stopped_is_replaced(start: Start) -> None:
    server = start()
    os.kill(server.workers()[0], signal.SIGTERM)
    server.wait_line("shutdown ran")
    server.wait_line("ended: exit status 0")
    server.wait_line("startup ran")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_request_in_flight_is_finished(start: Start, number: signal.Signals) -> None:
    server = start()
    with server.connect() as idle, server.connect() as client:
        assert idle.get("/").status == 200
        client.send(f"GET /slow/{HOLD_MS} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        server.wait_line("in flight")
        server.signal(number)
        server.wait_line("stopping")
        assert idle.is_closed()
        with pytest.raises(ConnectionRefusedError):
            server.connect()
        reply = client.read()
        assert (reply.status, reply.content, reply.is_last) == (200, b"done", True)
        assert client.is_closed()
    assert server.wait() == 0
    assert "shutdown ran" in server.errors


def test_signal_to_the_whole_group_drains_too(start: Start) -> None:
    """Ctrl-C in a terminal reaches the workers as well."""
    server = start()
    with server.connect() as client:
        client.send(f"GET /slow/{HOLD_MS} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        server.wait_line("in flight")
        for pid in (*server.workers(), server.pid):
            os.kill(pid, signal.SIGINT)
        assert client.read().content == b"done"
    assert server.wait() == 0


def test_second_signal_stops_now(start: Start) -> None:
    server = start()
    with server.connect() as client:
        client.send(b"GET /slow/20000 HTTP/1.1\r\nHost: test\r\n\r\n")
        server.wait_line("in flight")
        server.signal_twice()
        assert server.wait() == 1
        assert client.is_closed()
    assert (
        "stopping: requests in flight have up to 22.5 s to finish; a second signal stops now"
        in server.errors
    )


def test_signals_that_come_together_are_one(start: Start) -> None:
    """As from a terminal and from the program that runs the server in it."""
    server = start()
    with server.connect() as client:
        client.send(f"GET /slow/{HOLD_MS} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        server.wait_line("in flight")
        server.signal(signal.SIGINT)
        server.signal(signal.SIGTERM)
        assert client.read().content == b"done"
    assert server.wait() == 0


@pytest.mark.parametrize("name", ["SIGALRM"])
def test_signals_without_a_meaning_end_nothing(start: Start, name: str) -> None:
    server = start()
    before = server.workers()
    with server.connect() as client:
        for pid in (server.pid, *before):
            os.kill(pid, signal.Signals[name])
        server.wait_line(f"{name} is ignored: TERM or INT stops the server, QUIT stops it at once")
        client.send(f"GET /slow/{HOLD_MS} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        server.wait_line("in flight")
        server.signal(signal.SIGTERM)
        server.wait_line("stopping")
        server.signal(signal.Signals[name])
        server.wait_line(f"{name} is ignored")
        assert server.workers() == before
        assert client.read().content == b"done"
    assert server.wait() == 0


EXITING = """
import asyncio, sys
import bolide

app = bolide.App()

@app.get("/task")
async def task(request):
    async def work():
        await asyncio.sleep(0)
        sys.exit(5)
    app.task = asyncio.create_task(work())

@app.get("/callback")
async def callback(request):
    asyncio.get_running_loop().call_later(0, sys.exit, 5)
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("path", ["/task", "/callback"])
def test_an_exit_in_a_background_task_is_an_error_of_the_application(
    start: Start, tmp_path: Path, path: str, loop: str
) -> None:
    (tmp_path / "app.py").write_text(EXITING)
    server = start("app.py", "--loop", loop, cwd=tmp_path)
    [worker_pid] = server.workers()
    with server.connect() as client:
        client.send(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        server.wait_line(rf"worker 1 \(pid {worker_pid}\) ended: exit status 1; ")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    text = r"ERROR bolide: the application called sys\.exit\(5\) outside of a request, which ends"
    assert re.search(text, server.errors)
    assert ("in work\n    sys.exit(5)\n" in server.errors) == (path == "/task")
    assert "CRIT" not in server.errors and "bolide/server" not in server.errors


def test_a_stop_comes_before_what_takes_time() -> None:
    hang_up, term, quit_now, ended = signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD
    given = bytes([hang_up, ended, hang_up, signal.SIGUSR1, term, hang_up, quit_now, ended])
    assert signals.in_order(given) == [quit_now, term, hang_up, signal.SIGUSR1, ended]


def test_a_signal_that_came_before_a_stop_does_not_delay_it(start: Start) -> None:
    server = start()
    server.signal(signal.SIGSTOP)
    server.signal(signal.SIGINT)
    server.signal(signal.SIGUSR2)  # of several, the handler of the highest number runs first
    server.signal(signal.SIGCONT)
    assert server.wait() == 0
    events = re.findall(r"bolide: (stopping|SIGUSR2 is ignored|stopped)", server.errors)
    assert events == ["stopping", "SIGUSR2 is ignored", "stopped"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_that_is_repeated_until_the_end_is_one(start: Start, number: signal.Signals) -> None:
    server = start()
    server.signal(number)
    server.wait_line("stopped")
    while server.process.poll() is None:
        server.signal(number)
    assert server.wait() == 0
    assert "Traceback" not in server.errors


def test_an_error_in_the_supervisor_does_not_end_it(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import os\n"
        "from bolide.server import supervisor\n"
        "def fails(self): raise LookupError('unexpected')\n"
        "supervisor.Supervisor._reload = fails\n"
    )
    server = start(env={"PYTHONPATH": str(folder)})
    before = server.workers()
    server.signal(signal.SIGHUP)
    server.wait_line("unexpected error in the supervisor; continuing")
    server.wait_line("LookupError: unexpected")
    assert server.workers() == before
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


def test_a_socket_file_that_cannot_be_removed_does_not_cut_requests(
    start: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import errno, os\n"
        "def unlink(path): raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)\n"
        "os.unlink = unlink\n"
    )
    where = tmp_path / "socket"
    server = start("basic.py", "--uds", str(where), env={"PYTHONPATH": str(folder)})
    with server.connect() as client:
        client.send(b"GET /slow/300 HTTP/1.1\r\nHost: test\r\n\r\n")
        server.wait_line("in flight")
        server.signal(signal.SIGTERM)
        server.wait_line(f"socket's file {where} could not be removed: Permission denied")
        assert client.read().content == b"done"
    assert server.wait() == 0


def test_quit_stops_at_once(start: Start) -> None:
    server = start()
    with server.connect() as client:
        client.send(b"GET /slow/20000 HTTP/1.1\r\nHost: test\r\n\r\n")
        server.wait_line("in flight")
        server.signal(signal.SIGQUIT)
        assert server.wait() == 1
        assert client.is_closed()
    assert "stopping now; killing 1 worker(s)" in server.errors


def test_graceful_time_is_a_bound(start: Start) -> None:
    server = start("basic.py", "--graceful-timeout-ms", "300")
    with server.connect() as client:
        client.send(b"GET /slow/20000 HTTP/1.1\r\nHost: test\r\n\r\n")
        server.wait_line("in flight")
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert client.read().status == 503
        assert client.is_closed()
    assert "closing 1 connection" in server.errors
    assert "shutdown ran" in server.errors


def test_blocked_worker_is_killed_in_the_end(start: Start) -> None:
    server = start("basic.py", "--graceful-timeout-ms", "300")
    with server.connect() as client:
        client.send(b"GET /block/20000 HTTP/1.1\r\nHost: test\r\n\r\n")
        server.wait_line("blocking")
        server.signal(signal.SIGTERM)
        assert server.wait() == 1
        assert client.is_closed()
    assert "the graceful time is over; killing 1 worker(s)" in server.errors
    _, _, stacks = server.errors.partition(" has not ended; its threads:\n")
    assert re.search(r'^  File ".*/basic.py", line \d+ in block$', stacks, re.M)


def test_workers_end_with_a_killed_supervisor(start: Start) -> None:
    server = start("basic.py", "--workers", "2")
    workers = server.workers()
    server.signal(signal.SIGKILL)
    assert server.process.wait(timeout=10) == -signal.SIGKILL
    assert all(wait_for_end(pid) for pid in workers)


@pytest.mark.parametrize("path", ["/block/20000", "/compute/20000"])
def test_worker_that_hangs_ends_with_a_killed_supervisor(start: Start, path: str) -> None:
    server = start("basic.py", "--graceful-timeout-ms", "300")
    [worker] = server.workers()
    with server.connect() as client:
        client.send(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        server.wait_line("blocking")
        server.signal(signal.SIGKILL)
        assert wait_for_end(worker)
        assert client.is_closed()
    server.wait_line("the supervisor has ended, and this worker has not: ending it")


def test_startup_that_fails_stops_the_server(start: Start) -> None:
    server = start("startup_fails.py", "--workers", "2", ready=False)
    assert server.wait() == 3
    assert server.errors.count("bolide: error: ") == 1
    assert server.errors.endswith(
        "bolide: error: the application's startup failed: RuntimeError: no database\n"
    )
    assert 'raise RuntimeError("no database")' in server.errors
    assert "site-packages" not in server.errors and "lifespan.py" not in server.errors


def test_port_in_use(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        server = start("basic.py", "--port", port, ready=False)
        assert server.wait() == 2
    assert server.errors == (
        f"bolide: error: cannot listen on 127.0.0.1:{port}: the address is in use; "
        "stop the process that uses it, or choose another port\n"
    )


def test_ipv6(start: Start) -> None:
    server = start("basic.py", "--host", "::1", "--port", "0")
    assert server.urls[0].startswith("http://[::1]:")
    with server.connect() as client:
        assert client.get("/").content == b"hello"


def test_several_addresses(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    binds = ("127.0.0.1:0", "[::1]:0", f"unix:{path}")
    options = [word for bind in binds for word in ("--bind", bind)]
    server = start("basic.py", *options, "--workers", "2")
    assert len(server.urls) == 3
    for url in server.urls:
        with Connection(as_address(url)) as client:
            assert client.get("/").content == b"hello"


def test_unix_socket_is_removed_at_the_end(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    server = start("basic.py", "--uds", str(path))
    assert server.urls == [f"unix:{path}"]
    assert stat.S_ISSOCK(path.stat().st_mode)
    with server.connect() as client:
        assert client.get("/").content == b"hello"
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert not path.exists()


def test_the_line_at_startup_has_the_mode_of_a_unix_socket(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    before = os.umask(0o007)
    try:
        server = start("basic.py", "--uds", str(path))
    finally:
        os.umask(before)
    says = f"basic.py on unix:{path} (1 worker, pid {server.pid}, socket mode 0770)\n"
    assert server.lines[-1].endswith(says)


def test_stale_unix_socket_is_replaced(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    server = start("basic.py", "--uds", str(path))
    server.signal(signal.SIGKILL)
    server.process.wait(timeout=10)
    again = start("basic.py", "--uds", str(path))
    with again.connect() as client:
        assert client.get("/").content == b"hello"


def test_living_unix_socket_is_not_taken(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    first = start("basic.py", "--uds", str(path))
    second = start("basic.py", "--uds", str(path), ready=False)
    assert second.wait() == 2
    assert "another process serves there" in second.errors
    with first.connect() as client:
        assert client.get("/").content == b"hello"


def test_file_in_the_place_of_a_socket_stays(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("keep me")
    server = start("basic.py", "--uds", str(path), ready=False)
    assert server.wait() == 2
    assert "a file that is not a socket is there; choose another path" in server.errors
    assert path.read_text() == "keep me"


@pytest.mark.parametrize(
    ("name", "module"), [("asyncio", "bolide.server.loop"), ("uvloop", "uvloop")]
)
def test_loop_is_the_one_asked_for(start: Start, name: str, module: str) -> None:
    server = start("basic.py", "--loop", name)
    with server.connect() as client:
        assert client.get("/loop").json()["loop"].startswith(module)
        client.send(f"GET /slow/{HOLD_MS} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        server.wait_line("in flight")
        server.signal(signal.SIGTERM)
        assert client.read().content == b"done"
    assert server.wait() == 0


def test_second_server_on_a_free_port_is_another_one(start: Start) -> None:
    assert start().address != start().address


@pytest.mark.parametrize(
    ("graceful_s", "drain_s"), [(25.0, 22.5), (2.0, 1.8), (1.0, 0.85), (0.3, 0.15), (0.1, 0.05)]
)
def test_the_shutdown_has_a_part_of_the_graceful_time(graceful_s: float, drain_s: float) -> None:
    assert worker.drain_s(graceful_s) == pytest.approx(drain_s)


def test_access_log_on_a_full_disk_is_reported_once(start: Start) -> None:
    server = start("basic.py", "--access-log", "/dev/full")
    with server.connect() as client:
        for _ in range(3):
            assert client.get("/").status == 200
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    lost = "the access log cannot be written: No space left on device (os error 28); "
    assert server.errors.count(lost) == 1
    assert server.errors.count("3 lines of the access log were lost") == 1


STARTUP = """
import asyncio, sys

async def app(scope, receive, send):
    assert scope["type"] == "lifespan"
    await receive()
    print("lock taken", file=sys.stderr, flush=True)
    try:
        await asyncio.sleep(10_000)
    finally:
        print("lock released", file=sys.stderr, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_startup_that_has_begun_is_cancelled_by_the_stop(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "app.py").write_text(STARTUP)
    server = start("app:app", ready=False, cwd=tmp_path)
    server.wait_line("lock taken")
    server.signal(number)
    server.wait_line("stopping: the application's startup is cancelled; a second signal stops now")
    assert server.wait() == 0
    assert server.errors.splitlines()[-1].endswith(" INFO  bolide: stopped")
    assert "lock released" in server.errors
    assert " serving " not in server.errors


def test_terminal_output_stops_nobody(start: Start) -> None:
    server = start()
    for pid in (server.pid, *server.workers()):
        os.kill(pid, signal.SIGTTOU)
    server.wait_line("SIGTTOU is ignored: there is only one worker")
    with server.connect() as client:
        assert client.get("/").status == 200
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


EXITS = """
import atexit, logging.handlers, tempfile, weakref
from bolide import App
import bolide

app = App()
parents = tempfile.TemporaryDirectory(dir=".")
atexit.register(lambda: open("atexit of the parent", "a").write("ran"))

@app.get("/")
def hello(request):
    global ours, handler
    ours = tempfile.TemporaryDirectory(dir=".", prefix="worker")
    target = logging.FileHandler("log")
    handler = logging.handlers.MemoryHandler(1000, target=target)
    logging.getLogger("mine").addHandler(handler)
    logging.getLogger("mine").warning("buffered")
    return ours.name

if __name__ == "__main__":
    bolide.run(app, port=0)
    assert weakref.finalize._registered_with_atexit
    assert open("log").read() == "buffered\\n", "the handler was not closed"
    import os
    assert os.path.isdir(parents.name), "a worker has removed the parent's"
    assert [name for name in os.listdir() if name.startswith("worker")] == []
    print("all as it should be")
"""


def test_exit_functions_of_modules_are_the_workers_own(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(EXITS)
    process = subprocess.Popen(
        [sys.executable, "app.py"],
        cwd=tmp_path,
        env=clean_environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    url = next(found[1] for line in lines if (found := re.search(READY, line)))
    with Connection(as_address(url)) as client:
        assert (tmp_path / client.get("/").content.decode()).is_dir()
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=20)
    assert (process.returncode, output) == (0, "all as it should be\n"), errors


def test_a_parent_that_blocks_signals_does_not_prevent_a_stop(start: Start) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD])
    try:
        server = start("basic.py", "--workers", "2")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
