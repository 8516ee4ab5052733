"""Everything that a race starts ends with it, also when nobody asks it to."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bolide.lab.trial.guard import descendants
from bolide.lab.trial.process import Process, free_port
from lab.tiny_race import CPU, LIAR, processes_with

pytestmark = pytest.mark.slow

STARTER = """\
import os
import sys
from pathlib import Path
from bolide.lab.trial.process import Process
liar, way, port, folder = sys.argv[1:]
process = Process([sys.executable, liar, way, "127.0.0.1", port], folder=Path(folder),
                  cpus=[min(os.sched_getaffinity(0))], log=Path(folder) / "log", variables={})
process.wait_ready(("127.0.0.1", int(port)))
print(*process.pids(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("way", ["honest", "escapes"])
def test_a_killed_race_leaves_nothing(way: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(LIAR), way, str(free_port()), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as race:
        assert race.stdout is not None
        pids = [int(word) for word in race.stdout.readline().split()]
        assert pids
        race.send_signal(signal.SIGKILL)
    give_up = time.monotonic() + 15
    while processes_with(str(LIAR)):
        assert time.monotonic() < give_up, "it lives still"
        time.sleep(0.02)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@contextmanager
def _ended(folder: Path, *command: str, **variables: str) -> Iterator[Process]:
    """Run a command to its end; its log is `l` in the folder."""
    log = folder / "l"
    with Process(command, cpus=(CPU,), folder=folder, log=log, variables=variables) as process:
        process.wait(10)
        yield process


def test_a_signal_is_named(tmp_path: Path) -> None:
    script = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    with _ended(tmp_path, sys.executable, "-c", script) as process:
        assert process.end_reason() == "ended by SIGSEGV: it wrote nothing"


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with _ended(tmp_path, "/nonsense/server") as process:
        assert process.end_reason() == "ended with 127: /nonsense/server: No such file or directory"


STEERING = (
    *("WEB_CONCURRENCY", "FORWARDED_ALLOW_IPS", "PYTHONOPTIMIZE", "PYTHONMALLOC"),
    *("BOLIDE_PORT", "GRANIAN_WORKERS", "GUNICORN_CMD_ARGS", "HYPERCORN_CONFIG"),
    *("SANIC_ACCESS_LOG", "UVICORN_WORKERS", "UWSGI_PROCESSES", "AIOHTTP_NO_EXTENSIONS"),
    *("GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "NODE_OPTIONS", "UV_THREADPOOL_SIZE"),
    *("PHPRC", "PHP_INI_SCAN_DIR", "RUST_MIN_STACK", "TOKIO_WORKER_THREADS"),
)


def test_variables_that_steer_servers_are_not_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in STEERING:
        monkeypatch.setenv(name, "9")
    monkeypatch.setenv("KEPT", "yes")
    names = {*STEERING, "KEPT", "GIVEN"}
    script = f"import os; print(*sorted({names!r} & set(os.environ)))"
    with _ended(tmp_path, sys.executable, "-c", script, GIVEN="yes") as process:
        assert process.last_output() == "GIVEN KEPT"


def test_last_output_is_the_end_of_a_log_without_its_colours(tmp_path: Path) -> None:
    script = (
        "print('x' * 9_000_000); print('y' * 1000); print();"
        " print('\\x1b[31mred\\x1b[0m\\a \\x9bm[/b]')"
    )
    with _ended(tmp_path, sys.executable, "-c", script) as process:
        assert process.last_output() == f"{'x' * 300} / {'y' * 300} / red m[/b]"


def test_no_server_can_fill_the_disk(tmp_path: Path) -> None:
    script = "import resource; print(*resource.getrlimit(resource.RLIMIT_FSIZE))"
    with _ended(tmp_path, sys.executable, "-c", script) as process:
        assert process.last_output() == f"{1 << 30} {resource.RLIM_INFINITY}"


def test_a_log_begins_anew_and_keeps_what_is_written_to_it_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "l").write_text("of another start")
    script = (
        "print('first', flush=True); print('second', file=open('/dev/stdout', 'a'), flush=True);"
        " print('third')"
    )
    with _ended(tmp_path, sys.executable, "-c", script) as process:
        assert process.last_output() == "first / second / third"


def _lives(pid: int) -> bool:
    """Whether it is a process, and not one that has ended and waits for its parent."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def _guards(process: Process) -> list[int]:
    """Return both processes of a guard, the outer one first."""
    outer = process._guard.pid
    return [outer, *(pid for pid in descendants(outer) if os.getsid(pid) == outer)]


@pytest.mark.parametrize("killed", [(0,), (1,), (0, 1), (1, 0)])
@pytest.mark.parametrize("way", ["honest", "escapes"])
def test_a_killed_guard_leaves_nothing(way: str, killed: tuple[int, ...], tmp_path: Path) -> None:
    port = free_port()
    command = (sys.executable, str(LIAR), way, "127.0.0.1", str(port))
    log = tmp_path / "log"
    with Process(command, cpus=(CPU,), folder=tmp_path, log=log, variables={}) as process:
        process.wait_ready(("127.0.0.1", port))
        guards = _guards(process)
        assert len(guards) == 2
        pids = process.pids()
        assert pids and not {*pids} & {*guards}
        for number in killed:
            os.kill(guards[number], signal.SIGKILL)
        process.wait(10)
        assert process.end_reason().startswith("ended by SIGKILL: ")  # so a trial fails
    assert not any(_lives(pid) for pid in (*pids, *guards))
    assert not processes_with(str(port))


def test_an_ended_process_ends_again(tmp_path: Path) -> None:
    with _ended(tmp_path, sys.executable, "-c", "raise SystemExit(3)") as process:
        process.end()
        assert process.exit_code == 3
