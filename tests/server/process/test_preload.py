"""An application that is imported once, hooks of workers, and their processors."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.server.kernel import has_ended
from bolide.server.process import preload, signals
from support.server import Server, Start, command, kill, wait_for_end
from support.waiting import wait_until

pytestmark = pytest.mark.slow

APP = """
import os, sys, threading
import bolide

app = bolide.App()
IMPORTED_BY = os.getpid()
HOOKED = []
{more}

@app.get("/")
def imported_by(request):
    return f"{{IMPORTED_BY}} {{os.getpid()}}"

@app.get("/state")
def state(request):
    return {{"hooked": HOOKED, "cpus": sorted(os.sched_getaffinity(0)), "pid": os.getpid()}}
"""
HOOK = """
import os, sys

def start(number):
    sys.stderr.write(f"hook {number} {'app' in sys.modules}\\n")  # one line, in one write
    if "app" in sys.modules:
        sys.modules["app"].HOOKED.append([number, os.getpid()])

def fails(number):
    raise LookupError("broken")

async def coroutine(number): ...
"""


def write(folder: Path, more: str = "") -> None:
    (folder / "app.py").write_text(APP.format(more=more))
    (folder / "hook.py").write_text(HOOK)


def get(server: Server) -> list[int]:
    """Return by which process the application was imported, and which one has responded."""
    with server.connect() as client:
        return [int(word) for word in client.get("/").content.split()]


def test_the_application_is_imported_by_the_supervisor(start: Start, tmp_path: Path) -> None:
    write(tmp_path)
    server = start("app:app", "--preload", "--workers", "2", cwd=tmp_path)
    before = server.workers()
    imported_by, pid = get(server)
    assert imported_by == server.pid and pid in before
    write(tmp_path, "raise LookupError('broken')")
    server.signal(signal.SIGHUP)
    server.wait_line("the application is not imported again, because of preload: USR2 does that$")
    server.wait_line("reloaded in .*: 2 workers$")
    wait_until(lambda: not set(server.workers()) & set(before))
    assert get(server)[0] == server.pid
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "WARN" not in server.errors and "ERROR" not in server.errors


def test_without_it_each_worker_imports_the_application(start: Start, tmp_path: Path) -> None:
    write(tmp_path)
    imported_by, pid = get(start("app:app", cwd=tmp_path))
    assert imported_by == pid


def test_a_broken_application_is_reported_and_leaves_no_socket(tmp_path: Path) -> None:
    write(tmp_path, "raise LookupError('broken')")
    arguments = ("--preload", "--uds", str(tmp_path / "socket"))
    code, _, errors = command("serve", "app:app", *arguments, cwd=tmp_path)
    assert code == 2
    assert errors.count("raise LookupError('broken')") == 1
    assert errors.endswith("\nbolide: error: importing app failed: LookupError: broken\n")
    assert not (tmp_path / "socket").exists()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGQUIT, 1)]
)
def test_a_signal_that_stops_ends_the_import(
    start: Start, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    write(tmp_path, "sys.stderr.write('importing\\n'); threading.Event().wait()")
    where = tmp_path / "socket"
    server = start("app:app", "--preload", "--uds", str(where), cwd=tmp_path, ready=False)
    server.wait_line("^importing$")
    server.signal(number)
    assert server.wait() == code
    assert server.lines[-1].endswith("INFO  bolide: stopped while the application was imported\n")
    assert "Traceback" not in server.errors and not where.exists()


CAUGHT = """
try:
    sys.stderr.write("importing\\n")
    threading.Event().wait()
except BaseException as error:
    {then}
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGQUIT, 1)])
def test_a_signal_that_the_import_catches_stops_the_server(
    start: Start, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    write(tmp_path, CAUGHT.format(then="pass"))
    where = tmp_path / "socket"
    server = start("app:app", "--preload", "--uds", str(where), cwd=tmp_path, ready=False)
    server.wait_line("^importing$")
    server.signal(number)
    assert server.wait() == code
    assert server.lines[-1].endswith("INFO  bolide: stopped\n")
    assert "Traceback" not in server.errors and not where.exists()


def test_a_signal_that_the_import_turns_into_another_error_stops_it(
    start: Start, tmp_path: Path
) -> None:
    write(tmp_path, CAUGHT.format(then='raise ImportError("it is broken") from error'))
    server = start("app:app", "--preload", cwd=tmp_path, ready=False)
    server.wait_line("^importing$")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert server.lines[-1].endswith("INFO  bolide: stopped while the application was imported\n")
    assert "Traceback" not in server.errors


def test_a_check_whose_import_catches_a_signal_has_not_succeeded(
    start: Start, tmp_path: Path
) -> None:
    write(tmp_path, CAUGHT.format(then="pass"))
    server = start("app:app", "--check", cwd=tmp_path, ready=False)
    server.wait_line("^importing$")
    server.signal(signal.SIGTERM)
    assert server.wait() == signals.SIGNALED + signal.SIGTERM


def test_other_signals_wait_for_the_end_of_the_import(start: Start, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    write(tmp_path, "sys.stderr.write('importing\\n'); open('gate').read()")
    server = start("app:app", "--preload", cwd=tmp_path, ready=False)
    server.wait_line("^importing$")
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM):
        server.signal(number)
    (tmp_path / "gate").write_text("go on")
    server.wait_line("SIGUSR1 is ignored: no log is written to a file")
    server.wait_line("reloaded in .*: 1 worker$")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


def test_a_server_in_the_module_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "bolide.run(app)")
    code, _, errors = command("serve", "app:app", "--preload", "--port", "0", cwd=tmp_path)
    assert code == 2
    assert "bolide.run() was called while a worker imported the application" in errors


def check(folder: Path, *options: str) -> tuple[int, str, str]:
    return command("serve", "app:app", "--check", *options, cwd=folder)


def test_a_check_binds_nothing_and_starts_nothing(tmp_path: Path) -> None:
    write(tmp_path, "@app.on_startup\ndef start(): raise LookupError('started')")
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = str(occupied.getsockname()[1])
        found = check(tmp_path, "--port", port, "--on-worker-start", "hook:fails")
    assert found == (0, "app:app can be served: its options, files and import are right\n", "")


def test_a_check_finds_mistakes(tmp_path: Path) -> None:
    write(tmp_path, "raise LookupError('broken')")
    code, out, errors = check(tmp_path)
    assert (code, out) == (2, "")
    assert errors.count("raise LookupError('broken')") == 1
    assert errors.endswith("\nbolide: error: importing app failed: LookupError: broken\n")
    write(tmp_path)
    assert check(tmp_path, "--workers", "x")[0] == 2
    code, out, errors = check(tmp_path, "--certificate", "none.pem", "--key", "none.pem")
    assert (code, out, len(errors.splitlines())) == (2, "", 1)
    assert "none.pem" in errors


def test_a_check_finds_what_only_the_start_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    (tmp_path / "log").mkdir()
    for log in ("none/log", "log"):
        code, out, errors = check(tmp_path, "--access-log", log)
        assert (code, out) == (2, "")
        assert errors.startswith(f"bolide: error: cannot write the access log {log}: ")
    assert check(tmp_path, "--access-log-format", "%(nothing)s")[:2] == (2, "")
    assert check(tmp_path, "--access-log", "log/new")[0] == 0
    os.mkfifo(tmp_path / "fifo")
    assert check(tmp_path, "--access-log", "fifo")[0] == 0
    assert not os.listdir(tmp_path / "log")
    monkeypatch.setattr("bolide.server.development.watch.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="watchfiles is not installed"):
        preload.check("app:app", resolve({"reload": True}, environ={}))


LOG_CONFIGS = {
    "log.json": json.dumps(
        {
            "handlers": {"file": {"class": "logging.FileHandler", "filename": "log", "mode": "w"}},
            "root": {"handlers": ["file"], "level": "DEBUG"},
        }
    ),
    "log.ini": "[loggers]\nkeys=root\n[handlers]\nkeys=file\n[formatters]\nkeys=\n"
    "[logger_root]\nlevel=DEBUG\nhandlers=file\n"
    "[handler_file]\nclass=FileHandler\nargs=('log', 'w')\n",
}


@pytest.mark.parametrize("name", LOG_CONFIGS)
def test_a_check_leaves_the_log_of_the_server_that_runs(tmp_path: Path, name: str) -> None:
    write(tmp_path)
    (tmp_path / name).write_text(LOG_CONFIGS[name])
    (tmp_path / "log").write_text("of the server\n")
    code, out, _ = check(tmp_path, "--log-config", name, "--log-level", "debug")
    assert (code, out.count("can be served")) == (0, 1)
    assert (tmp_path / "log").read_text() == "of the server\n"
    quote = '"' if name == "log.json" else "'"
    mistakes = ((f"{quote}log{quote}", f"{quote}none/log{quote}"), ("DEBUG", "DEBUGG"))
    for right, wrong in mistakes:
        (tmp_path / name).write_text(LOG_CONFIGS[name].replace(right, wrong))
        assert check(tmp_path, "--log-config", name)[0] == 2, wrong


def test_a_check_has_the_core_read_the_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise ValueError("no such option")

    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bolide._core.Server", refuses)
    with pytest.raises(ConfigError, match="no such option"):
        preload.check(f"{tmp_path / 'app.py'}:app", resolve({}, environ={}))


@pytest.mark.parametrize("more", ["", "raise LookupError('broken')"])
def test_a_check_does_not_wait_for_threads_of_the_import(tmp_path: Path, more: str) -> None:
    lines = (
        "import atexit",
        "atexit.register(print, 'the exit functions ran')",
        "threading.Thread(target=threading.Event().wait).start()",
        more,
    )
    write(tmp_path, "\n".join(lines))
    code, out, errors = check(tmp_path)
    assert code == (2 if more else 0)
    assert out.endswith("the exit functions ran\n")
    assert ("importing app failed: LookupError: broken" in errors) == bool(more)


@pytest.mark.parametrize("number", [*signals.STOPS])
def test_a_check_that_is_stopped_does_not_succeed(
    start: Start, tmp_path: Path, number: int
) -> None:
    write(tmp_path, "sys.stderr.write('importing\\n'); threading.Event().wait()")
    server = start("app:app", "--check", cwd=tmp_path, ready=False)
    server.wait_line("^importing$")
    os.kill(server.pid, number)
    assert server.wait() == 128 + number


PATCHES = """
import signal

def set_handler(number, handler):
    return None if number == signal.SIGCHLD else own(number, handler)

own, signal.signal = signal.signal, set_handler
os.waitpid = lambda pid, options: (0, 0)
"""
"""Replaces what gevent.monkey.patch_os() and patch_signal() replace."""


def test_functions_that_the_import_replaces_are_not_the_supervisors(
    start: Start, tmp_path: Path
) -> None:
    write(tmp_path, PATCHES)
    server = start("app:app", "--preload", cwd=tmp_path)
    [before] = server.workers()
    kill(before)
    wait_until(lambda: server.workers() not in ([before], []))
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


@pytest.mark.parametrize("options", [(), ("--preload",)])
def test_a_patched_application_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "gevent").mkdir()
    (tmp_path / "gevent/__init__.py").touch()
    (tmp_path / "gevent/monkey.py").write_text("def is_module_patched(name): return True\n")
    write(tmp_path, "import gevent.monkey")
    code, _, errors = command("serve", "app:app", "--port", "0", *options, cwd=tmp_path)
    assert code == 2
    assert errors.startswith(
        "bolide: error: gevent.monkey.patch_all() was called for app:app: it replaces"
    )
    assert errors.count("\n") == 1


def test_threads_of_the_import_are_a_warning(start: Start, tmp_path: Path) -> None:
    write(
        tmp_path,
        "over = threading.Event()\n"
        "threading.Thread(target=over.wait, name='metrics', daemon=True).start()",
    )
    server = start("app:app", "--preload", cwd=tmp_path)
    text = (
        r"WARN  bolide: workers do not have the threads that app:app started while .* \(metrics\)"
    )
    assert re.search(text, server.errors)


FORKS = """
import signal, warnings
warnings.simplefilter("ignore")
if (forked := os.fork()) == 0:
    os.closerange(0, 3)
    signal.pause()
open("forked", "w").write(str(forked))
"""
"""Leaves a process that waits for ever, as a pool or a manager of multiprocessing does."""


def test_a_process_that_the_import_forks_keeps_neither_workers_nor_addresses(
    start: Start, tmp_path: Path
) -> None:
    write(tmp_path, FORKS)
    options = ("--preload", "--graceful-timeout-ms", "1000")
    server = start("app:app", *options, cwd=tmp_path)
    forked = int((tmp_path / "forked").read_text())
    try:
        [worker] = set(server.workers()) - {forked}
        kill(server.pid)
        assert wait_for_end(worker)
        assert not has_ended(forked)
        with socket.create_server(server.address):
            pass
    finally:
        kill(forked)


FORKS_LATER = """
import signal, warnings
warnings.simplefilter("ignore")

def fork():
    open("gate").read()
    if (forked := os.fork()) == 0:
        os.closerange(0, 3)
        while True:
            signal.pause()
    open("forked", "w").write(f"{forked} ")

threading.Thread(target=fork, daemon=True).start()
"""
"""Forks while the server serves, as a pool of multiprocessing does that replaces its processes."""


def test_signals_of_a_process_that_is_forked_later_do_not_reach_the_server(
    start: Start, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    write(tmp_path, FORKS_LATER)
    server = start("app:app", "--preload", cwd=tmp_path)
    (tmp_path / "gate").write_text("go on")
    found = tmp_path / "forked"
    wait_until(lambda: found.exists() and found.read_text().endswith(" "))
    os.kill(int(found.read_text()), signal.SIGTERM)
    assert wait_for_end(int(found.read_text()))
    assert get(server)[0] == server.pid
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert server.errors.count("stopping: ") == 1


@pytest.mark.parametrize("preload", [True, False])
def test_a_hook_is_called_in_each_worker(start: Start, tmp_path: Path, preload: bool) -> None:
    write(tmp_path)
    options = ["--on-worker-start", "hook:start", "--workers", "2"]
    server = start("app:app", *options, *["--preload"] * preload, cwd=tmp_path)
    for number in (1, 2):
        assert server.errors.count(f"hook {number} {preload}\n") == 1
    with server.connect() as client:
        found = client.get("/state").json()
    number = server.workers().index(found["pid"]) + 1
    assert found["hooked"] == ([[number, found["pid"]]] if preload else [])


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ("hook:fails", "calling hook:fails failed: LookupError: broken"),
        (
            "hook:coroutine",
            "on_worker_start: hook:coroutine is the function .*; give a function that is .*",
        ),
        ("hook:nothing", "on_worker_start: hook has no attribute 'nothing'"),
        ("hook", "on_worker_start: 'hook' names no function; give MODULE:FUNCTION"),
        ("missing:start", "on_worker_start: no module named 'missing' in .*"),
    ],
)
def test_a_hook_that_fails_is_a_mistake(tmp_path: Path, hook: str, message: str) -> None:
    write(tmp_path)
    code, _, errors = command("serve", "app:app", "--on-worker-start", hook, cwd=tmp_path)
    assert code == 2
    assert re.search(rf"bolide: error: {message}\n$", errors), errors
    assert ("in fails\n" in errors) == (hook == "hook:fails")


def test_workers_are_bound_to_processors_in_turn(start: Start, tmp_path: Path) -> None:
    write(tmp_path)
    server = start("app:app", "--cpu-affinity", "auto", "--workers", "3", cwd=tmp_path)
    allowed = sorted(os.sched_getaffinity(0))
    for index, pid in enumerate(server.workers()):
        assert os.sched_getaffinity(pid) == {allowed[index % len(allowed)]}
    assert os.sched_getaffinity(server.pid) == set(allowed)


def test_a_processor_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    write(tmp_path)
    code, _, errors = command("serve", "app:app", "--cpu-affinity", "9999", cwd=tmp_path)
    assert code == 2
    assert errors.endswith("error: cpu_affinity: this process may not use processor 9999\n")


@pytest.mark.parametrize(
    ("given", "cpus"), [("0,2,4-6", (0, 2, 4, 5, 6)), ([1, "3"], (1, 3)), (5, (5,)), ("", ())]
)
def test_lists_of_processors(given: object, cpus: tuple[int, ...]) -> None:
    assert resolve({"cpu_affinity": given}, environ={}).cpu_affinity == cpus


@pytest.mark.parametrize("given", ["all", "1-", [True], 1.5, "-1"])
def test_what_is_no_list_of_processors(given: object) -> None:
    with pytest.raises(ConfigError, match=r"cpu_affinity=.* is not a list of processors; give"):
        resolve({"cpu_affinity": given}, environ={})


@pytest.mark.parametrize(
    ("options", "source", "why"),
    [
        ({}, "app:app", ""),
        ({"preload": True}, object(), "of preload"),
        ({}, object(), "it was given as an object: name it"),
    ],
)
def test_what_is_not_imported_again_has_a_reason(
    options: dict[str, object], source: object, why: str
) -> None:
    job = SimpleNamespace(settings=resolve(options, environ={}), source=source)
    found = preload.hindrance(cast(Any, job))
    assert found.startswith(why) and bool(found) == bool(why)
