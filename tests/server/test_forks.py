"""What a worker takes over from the process that forks it, and what it leaves alone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from bolide.server import child
from support.server import READY, children, clean_environ, wait_for_end

pytestmark = pytest.mark.slow

PROCESSES = """
import multiprocessing, sys, time
import bolide

app = bolide.App()

def work():
    time.sleep(600)

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    process = context.Process(target=work, daemon=sys.argv[1] == "daemon")
    process.start()
    print(process.pid, flush=True)
    try:
        bolide.run(app, port=0, workers=2)
    finally:
        process.kill()
        process.join()
"""
BUFFERED = """
import sys
import bolide

app = bolide.App()

if __name__ == "__main__":
    print("the service starts")
    bolide.run(app, port=0, workers=2)
    print("the service has ended")
"""
NO_FORK = """
import errno, os, sys
from bolide.cli import main

fork, forks = os.fork, []

def failing():
    forks.append(len(os.listdir("/proc/self/fd")))
    if len(forks) <= {works}:
        return fork()
    sys.stderr.write(f"open files: {{forks[-1]}}\\n")
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

os.fork = failing
main(["serve", "app:app", "--port", "0"])
"""
NOT_WRITTEN = """
import os, signal, sys
from bolide.server import child

sys.stdout.write("once")
started = child.start(lambda report_fd: 0, [], [signal.SIGTERM])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(started.pid, 0)[1]))
"""


class Script:
    """A script that calls `bolide.run`, until it has ended."""

    def __init__(self, text: str, cwd: Path, *arguments: str) -> None:
        (cwd / "script.py").write_text(text)
        self.process = subprocess.Popen(
            [sys.executable, "script.py", *arguments],
            cwd=cwd,
            env={**clean_environ(), "PYTHONUNBUFFERED": ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self, pattern: str) -> re.Match[str]:
        """Wait for a line on standard error."""
        assert self.process.stderr is not None
        lines = iter(self.process.stderr.readline, "")
        return next(found for line in lines if (found := re.search(pattern, line)))

    def stop(self) -> tuple[int, str, str]:
        """Ask it to stop; return its exit code and the rest that it writes."""
        self.process.terminate()
        output, errors = self.process.communicate(timeout=20)
        return self.process.returncode, output, errors


@pytest.mark.parametrize("kind", ["daemon", "plain"])
def test_a_worker_that_ends_leaves_processes_of_the_application_alone(
    tmp_path: Path, kind: str
) -> None:
    script = Script(PROCESSES, tmp_path, kind)
    assert script.process.stdout is not None
    pid = int(script.process.stdout.readline())
    script.line(READY.pattern)
    worker = next(each for each in children(script.process.pid) if each != pid)
    os.kill(worker, signal.SIGTERM)
    assert script.line(rf"worker \d \(pid {worker}\) ended: (.+);")[1] == "exit status 0"
    assert not wait_for_end(pid, timeout_s=0.2)
    code, _, errors = script.stop()
    assert (code, "Traceback" in errors) == (0, False), errors


def test_buffered_text_is_written_once(tmp_path: Path) -> None:
    script = Script(BUFFERED, tmp_path)
    script.line(READY.pattern)
    code, output, _ = script.stop()
    assert (code, output) == (0, "the service starts\nthe service has ended\n")


def test_text_that_could_not_be_written_is_not_the_childs(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(NOT_WRITTEN)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**clean_environ(), "PYTHONUNBUFFERED": ""},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "once", "")


def test_output_that_nobody_reads_does_not_hold_the_start() -> None:
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    with suppress(BlockingIOError):
        while os.write(write_fd, bytes(65536)):
            pass
    os.set_blocking(write_fd, True)
    writer = open(write_fd, "w")
    writer.write("x" * 100)
    before, sys.stdout = sys.stdout, writer
    handler = signal.getsignal(signal.SIGALRM)
    timer = signal.getitimer(signal.ITIMER_REAL)[0]  # such as that of pytest-timeout
    try:
        began = time.monotonic()
        child.flush_output()
        assert time.monotonic() - began < 10
    finally:
        sys.stdout = before
        os.read(read_fd, 1 << 20)
        writer.close()
        os.close(read_fd)
    assert signal.getsignal(signal.SIGALRM) is handler
    assert bool(timer) == bool(signal.getitimer(signal.ITIMER_REAL)[0])


def application(folder: Path) -> None:
    (folder / "app.py").write_text("import bolide\napp = bolide.App()\n")


def test_a_first_start_that_can_fork_nothing_fails(tmp_path: Path) -> None:
    application(tmp_path)
    (tmp_path / "script.py").write_text(NO_FORK.format(works=0))
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=clean_environ(),
        capture_output=True,
        text=True,
        timeout=20,
    )
    what = "worker 1 cannot start: Resource temporarily unavailable"
    remedy = "is a limit of processes reached (ulimit -u, pids.max)?"
    assert done.returncode == 3
    assert done.stderr.splitlines()[1:] == [f"bolide: error: {what}; {remedy}"]


def test_a_fork_that_fails_later_is_tried_again_and_leaves_no_descriptor(tmp_path: Path) -> None:
    application(tmp_path)
    script = Script(NO_FORK.format(works=1), tmp_path)
    script.line(READY.pattern)
    [worker] = children(script.process.pid)
    os.kill(worker, signal.SIGKILL)
    counts = [script.line(r"open files: (\d+)")[1] for _ in range(3)]
    assert len({*counts}) == 1
    assert script.stop()[0] == 0
