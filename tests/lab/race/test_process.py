"""Everything that a race starts ends with it, also when nobody asks it to."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bolide.lab.process import Process, free_port
from lab.race.conftest import CPU, LIAR, processes_with

STARTER = """\
import os
import sys
from pathlib import Path
from bolide.lab.process import Process
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


def test_a_signal_is_named(tmp_path: Path) -> None:
    script = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    with Process(
        [sys.executable, "-c", script],
        cpus=(CPU,),
        folder=tmp_path,
        log=tmp_path / "l",
        variables={},
    ) as process:
        process.wait(10)
        assert process.end_told() == "ended by SIGSEGV: it wrote nothing"


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with Process(
        ["/nonsense/server"],
        cpus=(CPU,),
        folder=tmp_path,
        log=tmp_path / "l",
        variables={},
    ) as process:
        process.wait(10)
        assert process.end_told() == "ended with 127: /nonsense/server: No such file or directory"


def test_variables_that_steer_servers_are_not_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOLIDE_PORT", "1")
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--workers 9")
    monkeypatch.setenv("KEPT", "yes")
    names = "BOLIDE_PORT GUNICORN_CMD_ARGS KEPT GIVEN"
    script = f"import os; print(*sorted(set({names!r}.split()) & set(os.environ)))"
    with Process(
        [sys.executable, "-c", script],
        cpus=(CPU,),
        folder=tmp_path,
        log=tmp_path / "l",
        variables={"GIVEN": "yes"},
    ) as process:
        process.wait(10)
        assert process.last_words() == "GIVEN KEPT"


def test_last_words_are_the_end_of_a_log_without_its_colours(tmp_path: Path) -> None:
    script = (
        "print('x' * 9_000_000); print('y' * 1000); print();"
        " print('\\x1b[31mred\\x1b[0m\\a \\x9bm[/b]')"
    )
    with Process(
        [sys.executable, "-c", script],
        cpus=(CPU,),
        folder=tmp_path,
        log=tmp_path / "l",
        variables={},
    ) as process:
        process.wait(10)
        assert process.last_words() == f"{'x' * 300} / {'y' * 300} / red m[/b]"


def test_no_server_can_fill_the_disk(tmp_path: Path) -> None:
    script = "import resource; print(*resource.getrlimit(resource.RLIMIT_FSIZE))"
    with Process(
        [sys.executable, "-c", script],
        cpus=(CPU,),
        folder=tmp_path,
        log=tmp_path / "l",
        variables={},
    ) as process:
        process.wait(10)
        assert process.last_words() == f"{1 << 30} {resource.RLIM_INFINITY}"


def test_a_log_begins_anew_and_keeps_what_is_written_to_it_by_its_name(tmp_path: Path) -> None:
    log = tmp_path / "l"
    log.write_text("of another start")
    script = (
        "print('first', flush=True); print('second', file=open('/dev/stdout', 'a'), flush=True);"
        " print('third')"
    )
    with Process(
        [sys.executable, "-c", script], cpus=(0,), folder=tmp_path, log=log, variables={}
    ) as process:
        process.wait(10)
        assert process.last_words() == "first / second / third"
