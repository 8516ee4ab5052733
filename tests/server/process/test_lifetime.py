"""Workers that have served enough, long enough or grown too much are replaced by fresh ones."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.server.kernel import rss_bytes
from bolide.server.process import lifetime
from bolide.server.process.lifetime import Life, Pause, Stage
from support.server import Server, Start, clean_environ
from support.waiting import wait_until

APP = """
import os
from pathlib import Path
import bolide

app = bolide.App()
kept = []

@app.get("/")
def pid(request):
    return str(os.getpid())

@app.get("/grow")
def grow(request):
    kept.append(b"x" * (200 << 20))
    return "grown"

@app.post("/count")
async def count(request):
    return str(len(await request.body()))
"""
WAITS = """
@app.on_shutdown
async def wait():
    import asyncio
    while Path("gate").exists():
        await asyncio.sleep(0.01)
"""

WSGI = """
def app(environ, start_response):
    content = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Length", str(len(content)))])
    return [content]
"""

REPLACED = r"worker (\d) \(pid (\d+)\) serves; pid (\d+) drains$"


def get(server: Server, path: str = "/") -> bytes:
    with server.connect() as client:
        reply = client.get(path)
        assert reply.status == 200
        return reply.content


@pytest.mark.slow
@pytest.mark.parametrize(
    ("app", "options"),
    [(APP, []), (APP, ["--loop", "uvloop"]), (WSGI, []), (WSGI, ["--threads", "1"])],
    ids=["native", "uvloop", "wsgi", "wsgi-1"],
)
def test_a_worker_is_replaced_after_exactly_as_many_requests(
    start: Start, tmp_path: Path, app: str, options: list[str]
) -> None:
    (tmp_path / "app.py").write_text(app)
    server = start("app:app", "--requests-max", "5", *options, cwd=tmp_path)
    [before] = server.workers()
    with server.connect() as client:
        client.send(b"POST /count HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nx")
        client.send(b"x")
        assert client.read().status == 200
        for _ in range(3):
            assert client.get("/").status == 200
        assert server.is_silent(0.2)
        assert client.get("/").status == 200
        what = rf"INFO  bolide: worker 1 \(pid {before}\) has served 5 requests"
        server.wait_line(what + r" \(--requests-max 5\); replacing it$")
        assert server.wait_line(REPLACED)[3] == str(before)
        assert client.is_closed()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "ERROR" not in server.errors


@pytest.mark.slow
def test_workers_that_need_little_time_for_their_requests_are_kept_longer(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP)
    server = start("app:app", "--requests-max", "1", cwd=tmp_path)
    get(server)
    server.wait_line(r"has served 1 request \(--requests-max 1\); replacing it$")
    after = server.wait_line(REPLACED)[2].encode()
    wait_until(lambda: get(server) == after)
    server.wait_line(r"within [\d.]+ s of its start, so it is replaced in 1 s; is the limit too")
    assert server.is_silent(0.3)
    server.wait_line(REPLACED)


@pytest.mark.slow
def test_a_broken_application_leaves_the_worker_before(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    server = start("app:app", "--requests-max", "2", cwd=tmp_path)
    [before] = server.workers()
    (tmp_path / "app.py").write_text(APP + "raise LookupError('broken')\n")
    for _ in range(2):
        get(server)
    failed = (
        rf"worker 1 \(pid {before}\) was not replaced and keeps serving: worker 1 \(pid \d+\) ended"
    )
    for delay in (2, 4):
        text = f"importing app failed: LookupError: broken; tried again in {delay} s$"
        server.wait_line(f"ERROR bolide: {failed}: {text}")
        assert get(server) == str(before).encode()
    (tmp_path / "app.py").write_text(APP)
    assert server.wait_line(REPLACED)[3] == str(before)


@pytest.mark.slow
def test_a_successor_that_hangs_does_not_keep_the_others(start: Start, tmp_path: Path) -> None:
    waits = WAITS.replace("gate", "hangs")
    (tmp_path / "app.py").write_text(APP + waits.replace("on_shutdown", "on_startup"))
    limits = ("--worker-lifetime-s", "1", "--upgrade-timeout-ms", "3000")
    server = start("app:app", "--workers", "2", *limits, cwd=tmp_path)
    workers = server.workers()
    (tmp_path / "hangs").touch()
    for _ in workers:
        kept = server.wait_line(
            r"ERROR bolide: worker \d \(pid (\d+)\) was not replaced and keeps serving: worker \d"
            r" \(pid \d+\) has not started in time \(--upgrade-timeout-ms 3000\); tried again in 2"
        )
        workers.remove(int(kept[1]))
    (tmp_path / "hangs").unlink()
    server.wait_line(REPLACED)


@pytest.mark.slow
def test_workers_are_replaced_when_the_one_before_has_ended(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP + WAITS)
    (tmp_path / "gate").touch()
    server = start("app:app", "--worker-lifetime-s", "1", "--workers", "2", cwd=tmp_path)
    due, drains = [], []
    while len(due) < 2 or not drains:  # in either order, with the first replacement in between
        match = server.wait_line(rf"pid (\d+)\) has served for 1 s \(|{REPLACED}")
        (due if match[1] else drains).append(match[1] or match[4])
    assert drains == due[:1]
    assert server.is_silent(0.5)
    assert int(due[1]) in server.workers()
    (tmp_path / "gate").unlink()
    assert server.wait_line(REPLACED)[3] == due[1]


@pytest.mark.slow
def test_a_worker_that_has_grown_is_replaced(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    server = start("app:app", "--worker-memory-max", "150M", cwd=tmp_path)
    [before] = server.workers()
    get(server, "/grow")
    server.wait_line(rf"pid {before}\) uses [12][\d.]+ MiB \(--worker-memory-max 150M\); replacing")
    after = server.wait_line(REPLACED)[2].encode()
    wait_until(lambda: get(server) == after)


@pytest.mark.slow
def test_a_limit_that_is_below_a_fresh_worker_is_reported_with_delays(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP)
    server = start("app:app", "--worker-memory-max", "1M", cwd=tmp_path)
    for delay in (1, 2):
        text = rf"\(--worker-memory-max 1M\) at its start already, so it is replaced in {delay} s;"
        server.wait_line(text + r" is the limit too low\?$")
    get(server)


@pytest.mark.alone
@pytest.mark.slow
def test_no_request_is_lost_by_replacements(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    options = ("--workers", "2", "--requests-max", "500", "--requests-max-jitter", "500")
    server = start("app:app", *options, cwd=tmp_path)
    load = ["-m", "bolide", "load", server.urls[0], "-d", "4", "--json", "--connections", "8"]
    done = subprocess.run(
        [sys.executable, *load],
        env=clean_environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=50,
        check=True,
    )
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert len(re.findall(REPLACED, server.errors, re.MULTILINE)) >= 2
    assert '"failed": 0' in done.stdout, done.stdout


def life(pause: Pause, **options: object) -> Life:
    return Life(1, resolve(options, environ={}), 100.0, pause)


def test_a_lifetime_may_be_longer_than_the_kernel_waits(start: Start) -> None:
    month = ("--worker-lifetime-s", "2592000", "--graceful-timeout-ms", "1000000000")
    server = start("basic.py", *month, "--worker-timeout-ms", "0")
    server.signal(signal.SIGHUP)
    server.wait_line("reloaded in .*: 1 worker$")
    with server.connect() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\n")
        server.signal(signal.SIGTERM)
        server.wait_line("stopping: requests in flight have up to ")
    assert server.wait() == 0


def test_a_lifetime_is_looked_at_when_it_ends() -> None:
    lived = life(Pause(), worker_lifetime_s=3600)
    assert lived.due == 3700.0
    assert lived.look(3699.0) == "" and lived.stage is Stage.WITHIN
    assert lived.look(3700.0) == "has served for 3600 s (worker_lifetime_s=3600); replacing it"
    assert lived.stage is Stage.OVER and lived.due is None
    assert lived.has_served(5, 3701.0) == ""


def test_memory_is_read_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    used = [1 << 20, 3 << 20]
    monkeypatch.setattr(lifetime, "rss_bytes", lambda _: used.pop(0))
    grown = life(Pause(), worker_memory_max="2M")
    assert grown.look(100.0) == "" and grown.due == 101.0
    assert grown.look(110.0) == "uses 3 MiB (worker_memory_max=2M); replacing it"


def test_without_a_limit_nothing_is_due() -> None:
    assert life(Pause()).due is None


def test_delays_grow_and_end() -> None:
    pause = Pause()
    assert [pause.after(5.0) for _ in range(7)] == [0.0, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert pause.after(10.0) == 0.0
    assert [pause.after(0.0) for _ in range(11)][-3:] == [256.0, 512.0, 600.0]


def test_each_worker_has_a_number_of_requests_of_its_own() -> None:
    settings = resolve({"requests_max": 10, "requests_max_jitter": 5}, environ={})
    assert {lifetime.requests_of_one(settings) for _ in range(200)} == {*range(10, 16)}
    assert lifetime.requests_of_one(resolve({"requests_max_jitter": 5}, environ={})) == 0


def test_memory_of_a_process_that_has_ended_is_nothing() -> None:
    assert rss_bytes(1 << 30) == 0


@pytest.mark.parametrize(
    ("given", "size"),
    [("0", 0), (7, 7), ("512M", 512 << 20), ("1.5 GiB", 3 << 29), ("64kb", 65536), ("9b", 9)],
)
def test_sizes(given: object, size: int) -> None:
    assert resolve({"worker_memory_max": given}, environ={}).worker_memory_max == size


@pytest.mark.parametrize("given", ["", "M", "-1", "1 X", -1, True, 1.5, "1.M"])
def test_what_is_no_size(given: object) -> None:
    if given == "":
        given = " "
    with pytest.raises(ConfigError, match=r"worker_memory_max=.* is not a size; give bytes, or"):
        resolve({"worker_memory_max": given}, environ={})
