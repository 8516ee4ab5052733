"""Mistakes and interruptions at the start: one clear line, the right exit code, no traceback."""

import os
import re
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.server.supervisor import Supervisor
from support.server import Start, clean_environ, command

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


RAISING = """
import asyncio
from bolide import App
app = App()

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")

class Base(BaseException):
    pass

@app.on_{event}
async def connect():
    raise {error}
"""
RAISED = [
    ("KeyboardInterrupt", "KeyboardInterrupt"),
    ("asyncio.CancelledError", "CancelledError"),
    ("GeneratorExit", "GeneratorExit"),
    ("Base('no database')", "Base: no database"),
    ("BaseExceptionGroup('g', [Base()])", "BaseExceptionGroup: g (1 sub-exception)"),
    ("Mute", "Mute: (no text: its __str__ raised RuntimeError)"),
]
"""What a hook raises, and how the message names it."""


@pytest.mark.parametrize(("raised", "named"), RAISED)
def test_a_startup_hook_raises(tmp_path: Path, raised: str, named: str) -> None:
    (tmp_path / "app.py").write_text(RAISING.format(event="startup", error=raised))
    code, errors = serve(tmp_path)
    assert code == 3
    assert errors.endswith(f"bolide: error: the application's startup failed: {named}\n")
    assert "in connect\n" in errors
    assert "lifespan.py" not in errors and "worker.py" not in errors


@pytest.mark.parametrize("raised", [*(raised for raised, _ in RAISED), "SystemExit(7)"])
def test_a_shutdown_hook_raises(start: Start, tmp_path: Path, raised: str) -> None:
    (tmp_path / "app.py").write_text(RAISING.format(event="shutdown", error=raised))
    server = start("app:app", cwd=tmp_path)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert re.search("ERROR bolide.error: the shutdown hook .*connect.* failed\n", server.errors)
    assert "CRIT " not in server.errors and "worker.py" not in server.errors


def test_a_startup_hook_raises_with_a_long_text(tmp_path: Path) -> None:
    text = RAISING.format(event="startup", error="ValueError('begin' + 'x' * 5_000_000 + 'end')")
    (tmp_path / "app.py").write_text(text)
    code, errors = serve(tmp_path)
    *_, before, last = errors.splitlines()
    assert code == 3
    assert last.startswith("bolide: error: the application's startup failed: ValueError: beginxxx")
    assert "xxx [4990008 characters are left out] xxx" in last and last.endswith("xxxend")
    assert len(last) < 11_000 and len(before) < 110_000


def test_fifo_without_a_writer_as_the_configuration(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "settings.toml")
    error = "cannot read the configuration file settings.toml: it is a FIFO"
    assert serve(tmp_path, "--config", "settings.toml") == (2, f"bolide: error: {error}\n")


@pytest.mark.parametrize("option", ["config", "log-config"])
@pytest.mark.parametrize("is_device", [True, False])
def test_a_file_without_a_bound(tmp_path: Path, option: str, is_device: bool) -> None:
    path = tmp_path / "settings.toml"
    if is_device:
        path.symlink_to("/dev/zero")
    else:
        path.write_text("#" * (1 << 20) + "\n")
    what = "the configuration file" if option == "config" else "log_config: cannot read"
    code, errors = serve(tmp_path, f"--{option}", "settings.toml")
    assert code == 2 and len(errors.splitlines()) == 1
    assert what in errors and errors.endswith("settings.toml: it is larger than 1 MiB\n")


@pytest.mark.parametrize("host", ["a" * 300, "\u00e9..x", ".x"])
def test_a_host_that_no_name_can_be(tmp_path: Path, host: str) -> None:
    reason = f"{host!r} is not the name of a host; a part has 1 to 63 characters"
    error = f"bolide: error: cannot listen on {host}:0: {reason}\n"
    assert command("serve", "app:app", "--bind", f"{host}:0", cwd=tmp_path) == (2, "", error)


def test_a_unix_socket_under_two_names(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    second = "unix:d/../d/socket"
    error = f"bolide: error: the address {second} is given twice; name it once\n"
    bind = ("--bind", "unix:d/socket", "--bind", second)
    assert command("serve", "app:app", *bind, cwd=tmp_path) == (2, "", error)
    assert not (tmp_path / "d/socket").exists()


ASYNC_STARTUP = """
import asyncio, sys
from bolide import App

app = App()

@app.on_startup
async def connect():
    print("startup began", file=sys.stderr, flush=True)
    try:
        await asyncio.sleep(10_000)
    finally:
        print("startup cancelled", file=sys.stderr, flush=True)

@app.on_shutdown
def disconnect():
    print("shutdown ran", file=sys.stderr, flush=True)
"""


def test_the_supervisor_is_killed_during_the_startup(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(ASYNC_STARTUP)
    with subprocess.Popen(
        [sys.executable, "-m", "bolide", "serve", "app:app", "--port", "0"],
        cwd=tmp_path,
        env=clean_environ(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "startup began\n"
        process.kill()
        process.wait(timeout=20)
        assert process.stderr.read() == "startup cancelled\n"


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
        "bolide: error: 16 open files are too few for 8 workers: at least 104; "
        "raise the limit (ulimit -n, or LimitNOFILE in systemd's unit)\n"
    )
    assert done.returncode == 2


@pytest.mark.parametrize("preload", [False, True])
def test_a_supervisor_that_fails_leaves_no_descriptor(tmp_path: Path, preload: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = 0 if preload else taken.getsockname()[1]
        values = {"port": port, "preload": preload, "access_log": str(tmp_path / "log")}
        settings = resolve(values, environ={})
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with pytest.raises(ConfigError):
                Supervisor("no_such_module:app", settings)
        assert len(os.listdir("/proc/self/fd")) == before


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


def test_a_failed_import_is_reported_once_with_several_workers(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import missing_package\n")
    for _ in range(3):
        code, errors = serve(tmp_path, "--workers", "4")
        assert code == 2
        assert [line for line in errors.splitlines() if "ended" in line] == []
        assert errors.splitlines()[-1].startswith("bolide: error: importing app failed: ")


def test_a_path_of_a_socket_needs_no_scheme(tmp_path: Path) -> None:
    code, _, errors = command("serve", "app:app", "--uds", "unix:/run/app.sock", cwd=tmp_path)
    assert code == 2
    wrong = "--uds: 'unix:/run/app.sock' has a scheme"
    assert errors == f"bolide: error: {wrong}; give the path alone: /run/app.sock\n"


def test_a_directory_for_spooled_responses_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def app(environ, start_response):\n    return []\n")
    code, errors = serve(tmp_path, "--spool-directory", "missing")
    assert code == 2
    wrong = "--spool-directory: 'missing' is not a directory"
    assert errors == f"bolide: error: {wrong}; create it, or give another\n"
