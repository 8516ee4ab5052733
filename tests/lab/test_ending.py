"""A race that is asked to end does so at every stage: nothing runs on, what is measured is kept."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from bolide.lab.record import journal, schema
from lab.tiny_race import LIAR, processes_with

pytestmark = pytest.mark.slow

RACER = """\
import signal
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test in the background ignores it
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from bolide.lab import race
from lab.tiny_race import CPU, Silent, liar, study, workload

way, content, folder = sys.argv[2:5]

class Printing(Silent):
    def running(self, slot):
        print("running", flush=True)

    def ended(self, found):
        print("ended", found.failure, flush=True)

load = workload(content=content, duration_s=float(sys.argv[5]))
options = race.Options(out=Path(folder), server_cpus=(CPU,), load_cpus=(CPU,), is_quick=True)
try:
    is_whole = race.run(study(load, rounds=2), [way], options, Printing(), {way: liar(way)})
except KeyboardInterrupt:  # as the command does with one that comes later still
    sys.exit(130)
sys.exit(0 if is_whole else 130)
"""
TESTS = Path(__file__).parents[1]


def _wait(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < give_up, "it did not come to that"
        time.sleep(0.01)


@contextmanager
def _racing(way: str, out: Path, duration_s: float = 60.0) -> Iterator[subprocess.Popen[str]]:
    """Run a race of one; its content, which its tool is given, is `out`'s own."""
    words = (str(TESTS), way, str(out), str(out), str(duration_s))
    with subprocess.Popen(
        [sys.executable, "-c", RACER, *words], stdout=subprocess.PIPE, text=True
    ) as race:
        try:
            yield race
        finally:
            race.kill()


def _is_asked() -> bool:
    for pid in processes_with(str(LIAR)):
        with suppress(psutil.Error):
            found = psutil.Process(pid).net_connections("tcp")
            if any(each.status == psutil.CONN_ESTABLISHED for each in found):
                return True
    return False


def _is_loaded(out: Path) -> bool:
    for pid in processes_with(str(out)):
        with suppress(OSError):
            if b"--expect-body" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return True
    return False


@pytest.mark.parametrize(
    ("stage", "number"),
    [
        ("start", signal.SIGINT),
        ("proof", signal.SIGTERM),
        ("load", signal.SIGINT),
        ("load", signal.SIGTERM),
        ("load", signal.SIGHUP),
    ],
)
def test_a_signal_at_each_stage(stage: str, number: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "out"
    way = {"start": "never-listens", "proof": "drips", "load": "honest"}[stage]
    with _racing(way, out) as race:
        assert race.stdout is not None
        assert race.stdout.readline() == "running\n"
        _wait(lambda: processes_with(str(LIAR)))
        if stage == "proof":
            _wait(_is_asked)
        if stage == "load":
            _wait(lambda: _is_loaded(out))
        race.send_signal(number)
        assert race.wait(15) == 130
    # A signal while the guard itself starts: nobody waits for it, and it ends by its closed pipe.
    _wait(lambda: not processes_with(str(LIAR)))
    _wait(lambda: not processes_with(str(out)))
    kinds = [type(each) for each in journal.read(out)]
    assert kinds == [schema.Machine, schema.Study, schema.Contestant]


def test_a_second_signal_while_it_ends_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with _racing("escapes", out) as race:  # deaf to TERM: its end takes a second
        _wait(lambda: _is_loaded(out))
        race.send_signal(signal.SIGINT)
        race.send_signal(signal.SIGTERM)
        assert race.wait(15) == 130
    _wait(lambda: not processes_with(str(LIAR)))


def test_a_killed_race_can_go_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with _racing("honest", out) as race:
        _wait(lambda: _is_loaded(out))
        race.kill()
        race.wait(15)
    _wait(lambda: not processes_with(str(LIAR)))
    path = out / journal.FILE_NAME
    path.write_bytes(path.read_bytes() + b'{"kind":"trial","sch')
    with journal.Journal(out):
        assert len(journal.read(out)) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_before_the_first_trial_a_signal_ends_a_race_too(
    number: signal.Signals, tmp_path: Path
) -> None:
    study, out = tmp_path / "x.toml", tmp_path / "out"
    script = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "from bolide import cli\n"
        "from bolide.lab.plan import study\n"
        "def load(*_):\n"
        "    print('loading', flush=True)\n"
        "    sys.stdin.read()\n"
        "study.load = load\n"
        "cli.main(sys.argv[1:], handles_interrupt=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, "race", str(study), "--out", str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as race:
        assert race.stdout is not None and race.stderr is not None
        assert race.stdout.readline() == "loading\n"
        race.send_signal(number)
        assert race.wait(15) == 130
        assert race.stderr.read() == "stopped early\n"
    assert not out.exists()
