"""Signals that are sent by mistake, and those that stop a container."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from bolide.server.process import signals
from support.server import Start

pytestmark = pytest.mark.slow

HOLD_MS = 1500


def test_signals_sent_by_mistake_end_nothing(start: Start) -> None:
    server = start()
    before = server.workers()
    containers = {signal.SIGPWR, signal.SIGRTMIN + 3}
    real_time = set(range(signal.SIGRTMIN, signal.SIGRTMAX + 1)) - containers
    names = ("SIGSTKFLT", "SIGXCPU", "SIGVTALRM", "SIGPROF", "SIGIO")
    for number in sorted({*real_time, *(signal.Signals[name] for name in names)}):
        os.kill(server.pid, number)
    for name in (*names, "SIGRTMIN", r"SIGRTMIN\+4", "SIGRTMAX"):
        server.wait_line(f"{name} is ignored: TERM or INT stops the server")
    for number in sorted({*real_time, *containers, *(signal.Signals[name] for name in names)}):
        os.kill(before[0], number)
    with server.connect() as client:
        assert client.get("/").status == 200
    assert server.workers() == before


def test_what_an_application_handles_is_left_to_it(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import signal, sys, bolide\n"
        "signal.signal(signal.SIGPROF, lambda *_: sys.stderr.write('profiled\\n'))\n"
        "app = bolide.App()\n"
    )
    server = start("app:app", "--preload", cwd=tmp_path)
    server.signal(signal.SIGPROF)
    server.wait_line("^profiled$")
    [worker] = server.workers()
    os.kill(worker, signal.SIGPROF)
    server.wait_line("^profiled$")


@pytest.mark.parametrize("number", [signal.SIGPWR, signal.SIGRTMIN + 3])
def test_what_stops_a_container_drains(start: Start, number: int) -> None:
    server = start()
    with server.connect() as client:
        client.send(f"GET /slow/{HOLD_MS} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        server.wait_line("in flight")
        os.kill(server.pid, number)
        assert client.read().content == b"done"
    assert server.wait() == 0


FORKS = """
import os, signal, warnings
import bolide

app = bolide.App()
warnings.simplefilter("ignore")

@app.get("/{number:int}")
def ended_by(request, number):
    if (forked := os.fork()) == 0:
        os.kill(os.getpid(), number)
        os._exit(0)
    return str(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGXCPU, signal.SIGVTALRM])
def test_a_process_that_a_handler_forks_is_ended_by_signals(
    start: Start, tmp_path: Path, number: int
) -> None:
    (tmp_path / "app.py").write_text(FORKS)
    server = start("app:app", cwd=tmp_path)
    with server.connect() as client:
        assert client.get(f"/{number}").content == str(-number).encode()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


def test_a_signal_that_comes_while_handlers_are_installed_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install = signals.handle

    def install_and_send(number: int, handler: signal.Handlers) -> object:
        before = install(number, handler)
        if number == signal.SIGUSR2 and handler is signals.note:
            os.kill(os.getpid(), number)
        return before

    monkeypatch.setattr(signals, "handle", install_and_send)
    numbers = (signal.SIGUSR2, signal.SIGUSR1)
    with signals.written_to_a_pipe(numbers, ends_process=False) as (read_fd, _):
        assert signals.read(read_fd) == [signal.SIGUSR2]
