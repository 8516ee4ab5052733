"""Whole runs of `bolide load` against servers whose own count is known."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.server import Server, command
from support.worker import stopped

pytestmark = pytest.mark.slow

Load = Callable[..., tuple[int, str, str]]


class LoadProcess(Server):
    """A load run that is watched while it goes on."""

    program = ("-m", "bolide", "load")

    @property
    def page(self) -> str:
        """What it printed, once it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.read()


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return a function that runs `bolide load ARGUMENTS...` to its end."""

    def load(*arguments: str) -> tuple[int, str, str]:
        return command("load", *arguments, cwd=tmp_path)

    return load


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., LoadProcess]]:
    """Return a function that starts `bolide load ARGUMENTS...` and goes on."""
    runs: list[LoadProcess] = []
    # a shell's background jobs ignore SIGINT, and what they start does too: not so here
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def started(*arguments: str) -> LoadProcess:
        runs.append(LoadProcess([*arguments], tmp_path))
        return runs[-1]

    yield started
    signal.signal(signal.SIGINT, before)
    for run in runs:
        run.close()


def counts(server: Server) -> dict[str, int]:
    """Ask the server what it has responded to."""
    with server.connect() as client:
        found: dict[str, int] = client.get("/counts").json()
    return found


def report(done: tuple[int, str, str], code: int = 0) -> dict[str, Any]:
    """Return the report of a run that ended with a code and had nothing to say."""
    assert (done[0], done[2]) == (code, "")
    found: dict[str, Any] = json.loads(done[1])
    return found


def due(found: dict[str, Any]) -> int:
    """Return how many requests were due in a run in which none failed.

    How many of them have their responses in time depends on the machine.
    """
    assert found["failed"] == 0 and found["ok"] > 0
    return int(found["ok"] + found["unfinished"])


WAYS: list[tuple[str, ...]] = [
    ("-c", "7"),
    ("-c", "7", "--pipeline", "3"),
    ("-c", "4", "-t", "2"),
    ("-c", "5", "--no-keep-alive"),
    ("-c", "5", "--http1.0"),
    ("-c", "5", "--http1.0", "--no-keep-alive"),
    ("-c", "3", "--source", "127.0.0.2", "--source", "127.0.0.3"),
    ("-c", "3", "--expect-body", "page a", "--expect-length", "6", "--expect-status", "200"),
    ("-c", "3", "--expect-same", "--rate", "10k"),
]


@pytest.mark.parametrize("way", WAYS, ids=[" ".join(way) for way in WAYS])
def test_the_servers_count_agrees_to_the_request(
    counting: Server, load: Load, way: tuple[str, ...]
) -> None:
    url = f"{counting.urls[0]}/page/a"
    found = report(load(url, "-n", "1500", *way, "--json", "--quiet"))
    assert (found["ok"], found["failed"], found["unfinished"]) == (1500, 0, 0)
    assert found["statuses"] == {"200": 1500}
    assert sum(count for _, count in found["histogram"]) == 1500
    assert found["content_bytes_received"] == 1500 * len("page a")
    assert counts(counting) == {"a": 1500}


def test_a_run_by_time_counts_what_was_sent(counting: Server, load: Load) -> None:
    found = report(load(f"{counting.urls[0]}/page/a", "-d", "500ms", "--json", "--quiet"))
    assert found["ok"] + found["unfinished"] == found["requests_sent"]
    assert found["ok"] <= counts(counting)["a"] <= found["requests_sent"]
    assert found["seconds"] == pytest.approx(0.5, abs=0.2)


def test_weights_are_kept_exactly(counting: Server, load: Load) -> None:
    base = f"{counting.urls[0]}/page"
    report(load(f"{base}/a*3", f"{base}/b", "-n", "2000", "-c", "5", "--json", "--quiet"))
    assert counts(counting) == {"a": 1500, "b": 500}


def test_a_mix_from_a_file(counting: Server, load: Load, tmp_path: Path) -> None:
    (tmp_path / "mix.toml").write_text(
        """
        [[request]]
        path = "/page/a"
        weight = 2
        expect_body = "page a"

        [[request]]
        method = "POST"
        path = "/items"
        headers = { Content-Type = "text/x" }
        body = "12345"
        expect_status = 201
        expect_body = "5 text/x"
        """
    )
    plan = ("--request-file", "mix.toml", "-n", "900", "-c", "3", "--json", "--quiet")
    found = report(load(counting.urls[0], *plan))
    assert found["statuses"] == {"200": 600, "201": 300}
    assert (found["ok"], counts(counting)) == (900, {"a": 600, "items": 300})


def test_unix_socket(start_counting: Callable[..., Server], load: Load, tmp_path: Path) -> None:
    server = start_counting("--uds", str(tmp_path / "s"))
    plan = ("--target", "/page/a", "-n", "300", "-c", "2", "--json", "--quiet")
    assert report(load(f"unix:{tmp_path}/s", *plan))["ok"] == 300
    assert counts(server) == {"a": 300}


def test_responses_that_are_not_2xx_are_no_throughput(counting: Server, load: Load) -> None:
    url = f"{counting.urls[0]}/status/503"
    code, out, errors = load(url, "-n", "400", "-c", "4", "--quiet")
    assert (code, errors) == (0, "")
    note = (
        "note: 400 of 400 responses had status 503 instead of 2xx: the rate is not a throughput "
        "(--expect-status 503 counts them as correct)\n"
    )
    assert note in out
    assert "rate            0.0 requests/s\n" in out
    assert "400 x 503" in out
    found = report(load(url, "-n", "400", "-c", "4", "--quiet", "--json", "--expect-status", "503"))
    assert (found["ok"], found["failed"]) == (400, 0)
    code, out, errors = load(url, "-n", "400", "-c", "4", "--quiet", "--view", "wrk")
    assert (code, errors) == (0, note)
    assert "  Non-2xx or 3xx responses: 400\n" in out


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (("--expect-body", "page b"), "wrong_body"),
        (("--expect-length", "7"), "short"),
        (("--expect-status", "204"), "wrong_status"),
        (("--deadline", "1us"), "late"),
    ],
)
def test_what_was_expected_is_checked_in_every_response(
    counting: Server, load: Load, flags: tuple[str, ...], name: str
) -> None:
    url = f"{counting.urls[0]}/page/a"
    found = report(load(url, "-n", "50", "-c", "2", "--json", "--quiet", *flags))
    assert (found["ok"], found["failed"], found["errors"][name]) == (0, 50, 50)
    assert found["latency_us"] is None
    assert found["requests_per_s"] == 0


def test_pages_may_vary_unless_they_may_not(counting: Server, load: Load) -> None:
    url = f"{counting.urls[0]}/longer"
    assert report(load(url, "-n", "40", "-c", "1", "--json", "--quiet"))["ok"] == 40
    same = report(load(url, "-n", "40", "-c", "1", "--json", "--quiet", "--expect-same"))
    assert same["ok"] == 1 and same["failed"] == 39


def test_conditions_decide_the_exit_code(counting: Server, load: Load) -> None:
    plan = (f"{counting.urls[0]}/page/a", "-n", "100", "-c", "2", "--quiet")
    holding = ("--require", "errors == 0", "--require", "requests_per_s > 1")
    code, _, errors = load(*plan, *holding)
    assert (code, errors) == (0, "")
    code, out, errors = load(*plan, *holding, "--require", "p99 < 1us", "--require", "ok == 99")
    assert code == 1
    assert "responses       100 in" in out
    first, second = errors.splitlines()
    assert first.startswith("bolide: not met: 'p99 < 1us': p99 is ")
    assert second == "bolide: not met: 'ok == 99': ok is 100"


def test_no_response_at_all(load: Load) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        plan = (url, "-d", "1", "-c", "2", "--timeout", "200ms", "--quiet", "--require", "errors<9")
        code, out, _ = load(*plan)
    assert code == 3
    assert "note: there was no response at all (" in out and " timeout" in out


@pytest.mark.parametrize(
    ("response", "code", "note"),
    [
        (b"HTTP/1.1 banana\r\n\r\n", 3, "no response was valid ("),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx" * 2, 3, " unexpected_bytes"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx", 0, " had status 404"),
    ],
)
def test_no_correct_response(load: Load, response: bytes, code: int, note: str) -> None:
    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    while connection.recv(65_536):
                        connection.sendall(response)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        found = load(url, "-n", "5", "-c", "1", "--quiet")
        listener.shutdown(socket.SHUT_RDWR)
    assert (found[0], note in found[1]) == (code, True), found


def test_a_refused_port_is_one_line(load: Load) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
    assert load(url) == (3, "", f"bolide: error: {url}: cannot connect: Connection refused\n")


MISTAKES = [
    (["ftp://h/"], "'ftp://h/' is not a URL to load; give http://HOST:PORT/PATH, https://..."),
    (
        [],
        "no URL to load; give http://HOST:PORT/PATH, https://..., ws://..., wss://... or unix:PATH",
    ),
    (["http://h/", "--json", "--csv"], "--json, --csv and --view each set the output"),
    (["http://h/", "--body", "a", "--body-file", "b"], "--body and --body-file both set the con"),
    (["http://h/", "--body-file", "none"], "cannot read none: No such file or directory"),
    (["http://h/", "--expect-body", "@none"], "cannot read none: No such file or directory"),
    (
        ["http://h/", "-d", "1d"],
        "Invalid value for '-d' / '--duration': '1d' is not a duration; give",
    ),
    (["http://h/", "-c", "0"], "Invalid value for '-c' / '--connections': '0' is zero; leave"),
    (["http://h/", "--require", "p99"], "--require: 'p99' is not a condition; give one like"),
    (["http://h/", "--find", "p99 < 3"], "--find: '3' is not a latency; give one with its unit"),
    (["http://h/", "--find", "p99<3ms", "-n", "1"], "--find runs trials of --duration at rates of"),
    (["http://h/", "--find", "requests_per_s>5"], "--find sets the rate itself, so"),
    (["http://h/", "--find", "p99<3ms", "--csv"], "--find prints trials, not one run; leave out"),
    (["http://h/", "--view", "hey"], "Invalid value for '--view': 'hey' is not one of 'ab', 'wrk'"),
    (
        ["--like", "wrk http://h/", "http://h/"],
        "'http://h/' cannot be combined with --like, whose command",
    ),
    (["--like", "wrk http://h/", "--rate", "5"], "--rate cannot be combined with --like, whose"),
    (
        ["--like", "wrk -s x http://h/"],
        "--like: wrk -s: Lua scripts are not supported; give --pipeline",
    ),
    (["http://h/", "--frob"], "No such option '--frob'"),
]


@pytest.mark.parametrize(("arguments", "says"), MISTAKES, ids=[says for _, says in MISTAKES])
def test_mistake_is_one_line(load: Load, arguments: list[str], says: str) -> None:
    code, out, errors = load(*arguments)
    assert (code, out) == (2, "")
    assert errors.startswith(f"bolide: error: {says}")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_with_the_report(
    counting: Server, started: Callable[..., LoadProcess], number: signal.Signals
) -> None:
    run = started(f"{counting.urls[0]}/page/a", "-d", "60", "-c", "3", "--require", "errors == 1")
    run.wait_line(r"^\d\.\d s \(5\d\.\d s left\), [0-9,]+ requests/s, p50 ")
    run.signal(number)
    assert run.wait() == 130
    assert "failed          none\n" in run.page
    assert "not met" not in run.errors and "Traceback" not in run.errors


def test_an_open_loop_shows_a_frozen_server_in_its_tail(
    counting: Server, started: Callable[..., LoadProcess]
) -> None:
    """The worker is stopped: what was due meanwhile waits, as long as it was stopped at least."""
    plan = ("-d", "5", "--rate", "1000", "-c", "20", "--json")
    run = started(f"{counting.urls[0]}/page/a", *plan)
    run.wait_line(r"^\d\.\d s ")
    with stopped(counting):
        begin = time.monotonic()
        for _ in range(2):  # the first may have been written before the worker was stopped
            run.wait_line(r"^\d\.\d s ")
        frozen_us = (time.monotonic() - begin) * 1e6
    assert run.wait() == 0
    found = json.loads(run.page)
    corrected, uncorrected = found["latency_us"], found["uncorrected_latency_us"]
    assert found["failed"] == 0 and found["ok"] + found["unfinished"] == 5000
    # Of 5 s, the longest tenth was due within 0.5 s; only 20 requests were sent and waited.
    assert corrected["p90"] > frozen_us - 600_000
    assert corrected["p99"] > frozen_us - 200_000
    assert uncorrected["p90"] < corrected["p90"]
    assert uncorrected["max"] > frozen_us - 200_000
    assert any((second["max_us"] or 0) > frozen_us / 2 for second in found["per_second"])


def test_rate_and_stages_offer_what_they_say(counting: Server, load: Load) -> None:
    url = f"{counting.urls[0]}/page/a"
    found = report(load(url, "-d", "500ms", "--rate", "500", "--json", "--quiet"))
    assert due(found) == 250
    assert found["offered_per_s"] * found["seconds"] == pytest.approx(250)
    found = report(load(url, "--stages", "250ms:400,500ms:800", "--json", "--quiet"))
    assert due(found) == pytest.approx(100 + 300, abs=1)
    found = report(
        load(url, "--ramp-up", "500ms", "--rate", "400", "-d", "500ms", "--json", "--quiet")
    )
    assert due(found) == 200
    assert found["requests_sent"] == found["ok"] + 100
    assert found["offered_per_s"] * found["seconds"] == pytest.approx(200)


def test_stages_can_begin_and_end_with_nothing(counting: Server, load: Load) -> None:
    url = f"{counting.urls[0]}/page/a"
    asked = ("--stages", "200ms:0,200ms:1000,200ms:0", "--json", "--quiet")
    assert report(load(url, *asked))["ok"] == 200
    assert counts(counting) == {"a": 200}
    found = report(load(url, "--stages", "200ms:4c,200ms:0c", "--json", "--quiet"))
    assert (found["connections_max"], found["connections_held"], found["unfinished"]) == (4, 0, 0)


def test_due_requests_that_cannot_leave_are_counted_at_once(counting: Server, load: Load) -> None:
    url = f"{counting.urls[0]}/page/a"
    found = report(load(url, "--rate", "1G", "-d", "200ms", "-c", "2", "--json", "--quiet"), 0)
    assert found["ok"] + found["failed"] + found["unfinished"] == 200_000_000


@pytest.mark.parametrize("form", [("--json",), ("--csv",), ("--view", "wrk"), ()])
def test_a_reader_that_has_gone_changes_no_exit_code(
    counting: Server, tmp_path: Path, form: tuple[str, ...]
) -> None:
    line = [sys.executable, "-m", "bolide", "load", f"{counting.urls[0]}/page/a", "-n", "10"]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*line, "-c", "1", "--quiet", *form, "--require", "ok == 11"],
            cwd=tmp_path,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=20,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, "bolide: not met: 'ok == 11': ok is 10\n")


@pytest.mark.parametrize(
    ("redirection", "says"),
    [(">/dev/full", "No space left on device"), (">&-", "standard output is closed")],
)
@pytest.mark.parametrize("name", ["load", "doctor"])
def test_a_page_that_cannot_be_printed_is_one_line(
    counting: Server, tmp_path: Path, name: str, redirection: str, says: str
) -> None:
    given = f"{counting.urls[0]}/page/a -n 10 -c 1 --quiet" if name == "load" else "--json"
    line = f"{sys.executable} -m bolide {name} {given} {redirection}"
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=20
    )
    what = "the report" if name == "load" else "the findings"
    assert done.returncode == 3
    assert done.stderr.startswith(f"bolide: error: cannot print {what}: {says}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "errors",
    ["2>&-", "2>/dev/full", "2> >(exec 0<&-; sleep 0.2)", "2> >(head -n 1 >/dev/null)"],
)
def test_progress_that_cannot_be_written_costs_no_result(
    counting: Server, tmp_path: Path, errors: str
) -> None:
    given = f"{counting.urls[0]}/page/a -c 1 -d 2500ms --json --require 'ok == 0'"
    done = subprocess.run(
        ["/bin/bash", "-c", f"{sys.executable} -m bolide load {given} {errors}"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        timeout=20,
    )
    assert done.returncode == 1  # the condition's
    assert json.loads(done.stdout)["ok"] > 0


def test_connections_can_climb(counting: Server, load: Load) -> None:
    found = report(
        load(f"{counting.urls[0]}/page/a", "--stages", "300ms:2c,500ms:12c", "--json", "--quiet")
    )
    assert found["connections_max"] == 12 and found["failed"] == 0


@pytest.mark.alone
def test_find_ends_at_a_limit(counting: Server, load: Load) -> None:
    plan = (f"{counting.urls[0]}/slow", "-d", "300ms", "--rate", "100", "-c", "20")
    code, out, errors = load(*plan, "--find", "p90 < 60ms")
    assert code == 0
    assert errors.startswith("trial 1: 100 requests/s holds (p90 is ")
    assert all(line.startswith("trial ") for line in errors.splitlines())
    rate, sure, why = out.splitlines()[-3:]
    found = re.fullmatch(r"(\d+) requests/s meet p90 < 60ms", rate)
    assert found is not None and 100 <= int(found[1]) <= 300
    assert re.match(r"it held in [23] of 3 trials at this rate; the limit is at most ", sure)
    limit = "(server's limit|generator's limit|limit of the connections)"
    assert re.match(rf"\d+ requests/s fail \(.*\); this is the {limit}: ", why)


def test_find_gives_up_where_nothing_is_right(counting: Server, load: Load) -> None:
    plan = (f"{counting.urls[0]}/status/500", "-d", "200ms", "--json")
    code, out, errors = load(*plan, "--find", "p50 < 1s")
    assert code == 1
    assert errors == "trial 1: 1,000 requests/s fails: there was no correct response\n"
    found = json.loads(out)["find"]
    assert found["rate_per_s"] is None and len(found["trials"]) == 1


def test_like_prints_the_tools_view(counting: Server, load: Load, tmp_path: Path) -> None:
    url = f"{counting.urls[0]}/page/a"
    code, out, errors = load("--like", f"ab -k -c 3 -n 90 -e out.csv {url}", "--quiet")
    assert (code, errors) == (0, "")
    assert "Complete requests:      90\n" in out
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 101
    code, out, errors = load("--like", f"wrk -t1 -c2 -d1s {url}", "--quiet", "--json")
    assert (code, errors) == (0, "")
    assert json.loads(out)["plan"]["timeout_s"] == 2.0
    code, _, errors = load("--like", f"ab -n 5 -e none/out.csv {url}", "--quiet")
    assert code == 2
    assert errors == "bolide: error: cannot write none/out.csv: No such file or directory\n"


def test_a_terminal_without_blocks_gets_signs(counting: Server, tmp_path: Path) -> None:
    plan = (f"{counting.urls[0]}/page/a", "-n", "50", "-c", "5", "--quiet")
    latin = {"PYTHONIOENCODING": "latin-1", "LC_ALL": "C.UTF-8"}
    code, out, errors = command("load", *plan, cwd=tmp_path, env=latin)
    assert (code, errors) == (0, "")
    assert "####" in out and out.isascii()


def test_an_option_replaces_a_script_of_wrk(counting: Server, load: Load) -> None:
    line = f"wrk -t1 -c2 -d1s {counting.urls[0]}/page/a"
    found = report(load("--like", line, "--pipeline", "24", "--json", "--quiet"))
    assert found["plan"]["pipeline_depth"] == 24
    assert found["ok"] <= counts(counting)["a"] <= found["requests_sent"]


def test_csv(counting: Server, load: Load) -> None:
    code, out, errors = load(
        f"{counting.urls[0]}/page/a", "-n", "50", "-c", "5", "--csv", "--quiet"
    )
    assert (code, errors) == (0, "")
    header, line = (each.split(",") for each in out.splitlines())
    assert dict(zip(header, line, strict=True))["ok"] == "50"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-H", "nonsense"), "--header: 'nonsense' is not a header"),
        (("-X", "a b"), "--method: 'a b' is not a method"),
        (("--stages", "x"), "--stages: 'x' in 'x' is not a stage"),
        (("--stages", "1s:99999999999999999999"), "is more than 1,000,000,000 requests per second"),
        (("-t", "9", "-c", "3"), "--threads: 9 are more than the 3 connections"),
        (("--expect-status", "99"), "--expect-status: 99 is not a final status"),
        (("--pipeline", "99999999999"), "'--pipeline': '99999999999' is more than 1,000,000"),
        (("--find", "p99 > 10ms"), "--find: 'p99 > 10ms' is met ever better at higher rates"),
    ],
)
def test_a_mistake_is_one_also_if_no_server_listens(
    words: tuple[str, ...], says: str, load: Load
) -> None:
    code, out, errors = load("http://127.0.0.1:1/", *words)
    assert (code, out) == (2, "")
    assert says in errors and errors.count("\n") == 1
