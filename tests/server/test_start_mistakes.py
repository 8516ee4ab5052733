"""Mistakes and interruptions at the start: one clear line, the right exit code, no traceback."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.server import clean_environ, command

pytestmark = pytest.mark.slow

NATIVE = """
import sys
from bolide import App
app = App()

@app.on_startup
def connect():
    sys.exit("no database")
"""
ASGI = """
import sys

async def app(scope, receive, send):
    await receive()
    sys.exit(4)
"""


def serve(cwd: Path, *arguments: str) -> tuple[int, str]:
    code, _, errors = command("serve", "app:app", "--bind", "127.0.0.1:0", *arguments, cwd=cwd)
    return code, errors


@pytest.mark.parametrize(("text", "given"), [(NATIVE, "'no database'"), (ASGI, "4")])
def test_exit_in_a_startup_hook(tmp_path: Path, text: str, given: str) -> None:
    (tmp_path / "app.py").write_text(text)
    error = f"bolide: error: the application's startup failed: it called sys.exit({given})\n"
    assert serve(tmp_path) == (3, error)


def test_fifo_without_a_reader_as_the_access_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    error = "bolide: error: cannot write the access log log: the FIFO has no reader\n"
    assert serve(tmp_path, "--access-log", "log") == (2, error)


def test_closed_standard_output_as_the_access_log(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import bolide\napp = bolide.App()\n")
    done = subprocess.run(
        [sys.executable, "-m", "bolide", "serve", "app:app", "--port", "0", "--access-log", "-"],
        cwd=tmp_path,
        env=clean_environ(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=20,
        preexec_fn=lambda: os.close(1),
    )
    what = "cannot write the access log -: standard output is closed; give a file"
    assert (done.returncode, done.stderr) == (2, f"bolide: error: {what}\n")


@pytest.mark.parametrize("address", ["127.0.0.1:8123", "unix:socket"])
def test_an_address_twice(tmp_path: Path, address: str) -> None:
    error = f"bolide: error: the address {address} is given twice; name it once\n"
    assert serve(tmp_path, "--bind", address, "--bind", address) == (2, error)
    assert not (tmp_path / "socket").exists()


def test_too_few_open_files(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bolide", "serve", "app:app", "--workers", "8"],
        cwd=tmp_path,
        env=clean_environ(),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)),
        check=False,
        timeout=20,
    )
    assert done.stderr == (
        "bolide: error: 16 open files are too few for 8 workers: at least 48; "
        "raise the limit (ulimit -n, or LimitNOFILE in systemd's unit)\n"
    )
    assert done.returncode == 2


SLOW = """
from bolide.server import supervisor
supervisor.SLOW_START_S = 0.1
from bolide.cli import main
main(["serve", "slow.py", "--port", "0"])
"""


def test_an_import_that_does_not_end_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)\n")
    with subprocess.Popen(
        [sys.executable, "-c", SLOW],
        cwd=tmp_path,
        env=clean_environ(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(timeout=20) == 0
    assert first.endswith(
        "WARN  bolide: still importing or starting slow.py: if it calls app.run(), "
        'put the call under `if __name__ == "__main__":`\n'
    )
    assert "still importing" not in rest


INTERRUPTED = """
import os, signal, sys

MODULE = sys.argv[1]

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from bolide import __main__
sys.argv[:] = ["bolide", "serve", "nothing:app"]
__main__.main()
"""


@pytest.mark.parametrize(
    "module",
    ["bolide.cli", "bolide._core", "msgspec", "click", "bolide.server.supervisor", "asyncio"],
)
def test_interrupt_while_the_command_is_imported(tmp_path: Path, module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module],
        cwd=tmp_path,
        env=clean_environ(),
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert done.stderr in ("", "\n")  # the second is click's
    assert done.returncode in (-signal.SIGINT, 130)
