"""`bolide.run` and `bolide.serve`: the server started from Python."""

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import bolide
from bolide.errors import ConfigError
from support.client import Connection
from support.server import READY, clean_environ

pytestmark = pytest.mark.slow

SCRIPT = """\
import os
import bolide

app = bolide.App()

@app.get("/")
def parent(request):
    return {"parent": os.getppid()}

if __name__ == "__main__":
    bolide.run(app, port=0, workers=2)
    print("after run")
"""


def test_run_serves_an_object_until_it_is_stopped(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, "-W", "error", str(script)],
        env=clean_environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            match = next(filter(None, map(READY.search, process.stderr)))
            port = int(match[1].rpartition(":")[2])
            with Connection(("127.0.0.1", port)) as client:
                assert client.get("/").json() == {"parent": process.pid}
            process.send_signal(signal.SIGTERM)
            out, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "after run\n")
    assert "Traceback" not in errors


def test_run_raises_for_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="port='x' is not a whole number"):
        bolide.run(bolide.App(), port="x")
    with pytest.raises(ConfigError, match="the application is neither .* but a dict"):
        bolide.run({}, port=0)  # type: ignore[arg-type]


def test_run_in_a_running_loop_says_what_to_do() -> None:
    async def main() -> None:
        bolide.run(bolide.App(), port=0)

    with pytest.raises(ConfigError, match="use `await bolide.serve"):
        asyncio.run(main())


def shop() -> bolide.App:
    app = bolide.App()
    calls: list[str] = []
    app.state.calls = calls

    @app.on_startup
    async def startup() -> None:
        calls.append("startup")

    @app.on_shutdown
    async def shutdown() -> None:
        calls.append("shutdown")

    @app.get("/slow")
    async def slow(request: bolide.Request) -> str:
        calls.append("in flight")
        app.state.arrived.set()
        await asyncio.sleep(0.2)
        return "done"

    return app


async def begin(
    app: bolide.App, caplog: pytest.LogCaptureFixture, **settings: Any
) -> tuple[asyncio.Task[None], int]:
    """Start serving as a task; return it and the port."""
    app.state.arrived = asyncio.Event()
    task = asyncio.create_task(bolide.serve(app, port=0, **settings))
    while not (match := READY_HERE(caplog.text)):
        await asyncio.sleep(0)
        assert not task.done(), task
    return task, match


def READY_HERE(text: str) -> int:  # noqa: N802 - reads like the pattern it stands for
    """Return the port that a server in this process said it serves on."""
    _, found, rest = text.partition("serving the application on http://127.0.0.1:")
    return int(rest.split()[0]) if found else 0


def test_serve_lives_in_a_running_loop(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO, "bolide")
    app = shop()

    async def main() -> None:
        task, port = await begin(app, caplog)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /slow HTTP/1.1\r\nHost: test\r\n\r\n")
        await app.state.arrived.wait()
        task.cancel()
        reply = await reader.read()
        assert reply.startswith(b"HTTP/1.1 200 ") and reply.endswith(b"done")
        writer.close()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(main())
    assert app.state.calls == ["startup", "in flight", "shutdown"]


def test_serve_leaves_nothing(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO, "bolide")

    async def main() -> None:
        caplog.clear()
        task, _ = await begin(shop(), caplog, access_log="access.log")
        task.cancel()
        await asyncio.wait([task])

    def descriptors_after_it() -> int:
        asyncio.run(main())
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    before = descriptors_after_it()
    assert [descriptors_after_it() for _ in range(3)] == [before] * 3


def test_serve_calls_a_factory(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bolide")
    made: list[bolide.App] = []

    def create_app() -> bolide.App:
        made.append(shop())
        return made[-1]

    async def main() -> None:
        task = asyncio.create_task(bolide.serve(create_app, factory=True, port=0))
        while not READY_HERE(caplog.text):
            await asyncio.sleep(0)
            assert not task.done(), task
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    assert [app.state.calls for app in made] == [["startup", "shutdown"]]


def test_serve_takes_no_process_options() -> None:
    with pytest.raises(ConfigError, match="workers= is for bolide.run"):
        asyncio.run(bolide.serve(bolide.App(), workers=2))


def test_import_of_the_framework_leaves_the_shell_alone() -> None:
    """An application that defines routes loads no command, supervisor or test client."""
    code = (
        "import sys; from bolide import App, Response; "
        "print([m for m in sys.modules if m in ('click', 'tomllib', 'asyncio', 'email') or "
        "m.startswith(('bolide.cli', 'bolide.server', 'bolide.config', 'bolide.web.testclient'))])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
