"""The access log: its two forms, what is escaped, where it goes, and that it stalls nobody."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bolide import _core
from support.client import Connection
from support.server import APPLICATIONS, READY, Server, Start, clean_environ

pytestmark = pytest.mark.slow


def ended(server: Server) -> None:
    """Let the log be written to its end."""
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


def test_combined_lines(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    server = start("protocol.py", "--access-log", str(log))
    with server.connect() as client:
        client.get("/?a=1", "Referer: http://there/", 'User-Agent: "q" \\ \xff')
        client.get("/stream/2")
        client.get("/wait/1")
        client.send(b"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        client.read("HEAD")
        client.send(b"GET /\x1b[2J HTTP/1.1\r\nHost: a\r\n\r\n")
        refusal = client.read()
    ended(server)
    start_of_line = re.compile(
        r'127\.0\.0\.1 - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000\] "'
    )
    lines = log.read_text("ascii").splitlines()
    assert all(start_of_line.match(line) for line in lines)
    assert [start_of_line.sub("", line) for line in lines] == [
        'GET /?a=1 HTTP/1.1" 200 5 "http://there/" "\\"q\\" \\\\ \\xc3\\xbf"',
        'GET /stream/2 HTTP/1.1" 200 2000 "-" "-"',
        'GET /wait/1 HTTP/1.1" 200 8 "-" "-"',
        'HEAD / HTTP/1.0" 200 0 "-" "-"',
        f'GET /\\x1b[2J HTTP/1.1" 400 {len(refusal.content)} "-" "-"',
    ]


def test_json_lines(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    server = start("protocol.py", "--access-log", str(log), "--access-log-format", "json")
    (worker,) = server.workers()
    with server.connect() as client:
        client.get("/wait/50", 'User-Agent: "q" \\ \xff')
        client.send(b"nonsense\r\n\r\n")
        client.read()
    ended(server)
    first, second = (json.loads(line) for line in log.read_text("ascii").splitlines())
    assert first.pop("duration_ms") >= first.pop("first_byte_ms") >= 40
    assert first.pop("worker") == worker
    assert abs(first.pop("unix_s") - log.stat().st_mtime) < 20
    assert first == {
        "client": "127.0.0.1",
        "method": "GET",
        "target": "/wait/50",
        "version": "HTTP/1.1",
        "status": 200,
        "content_bytes": 9,
        "referer": "",
        "user_agent": '"q" \\ \xc3\xbf',
        "request_id": "",
        "queue_ms": 0,
        "received_bytes": 0,
    }
    assert (second["status"], second["method"], second["target"]) == (400, "", "")


def test_a_duration_includes_the_first_step_of_a_handler(start: Start, tmp_path: Path) -> None:
    """Whether the response is complete at once, follows another, or comes after the content."""
    log = tmp_path / "access.log"
    server = start("protocol.py", "--access-log", str(log), "--access-log-format", "json")
    with server.connect() as client:
        client.get("/blocks/60")
        client.send(b"GET /wait/1 HTTP/1.1\r\nHost: a\r\n\r\n" * 2)
        client.send(b"GET /blocks/60 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert [client.read().content for _ in range(3)] == [b"waited 1", b"waited 1", b"blocked"]
        client.send(b"POST /blocks/60 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n")
        client.send(b"x")
        assert client.read().content == b"blocked"
    ended(server)
    lines = [json.loads(line) for line in log.read_text("ascii").splitlines()]
    durations = [each["duration_ms"] for each in lines if each["target"] == "/blocks/60"]
    assert len(durations) == 3
    assert min(durations) >= 50, durations  # the kernel's clock of milliseconds advances in steps


def test_the_keys_of_a_line_are_those_of_the_documentation(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    server = start("protocol.py", "--access-log", str(log), "--access-log-format", "json")
    with server.connect() as client:
        client.get("/")
    ended(server)
    page = (Path(__file__).parents[2] / "docs/command.md").read_text()
    keys = documented(page.partition("\n### The access log\n")[2])
    assert {*json.loads(log.read_text("ascii"))} == keys


def documented(text: str) -> set[str]:
    """Return the names in the first column of the table before the next heading."""
    rows = text.partition("\n#### ")[0].splitlines()
    firsts = [row.split("|")[1] for row in rows if row.startswith("| `")]
    return {name for first in firsts for name in re.findall(r"`([\w.]+)`", first)}


def test_the_fields_of_a_template_are_those_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs/command.md").read_text()
    with pytest.raises(ValueError, match="fields are ") as raised:
        _core.check_access_log_format("{stauts}")
    known = str(raised.value).partition("fields are ")[2]
    named = {*re.findall(r"[\w.]+", known)} - {"and"}
    assert named == documented(page.partition("\n#### Templates\n")[2])


def test_lines_of_a_template(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    fields = "{worker} {method} {path} {target} {status} {host} {request.x-a} {tls_version}"
    form = fields + ' {{"{user_agent}"}} {request}'
    server = start("protocol.py", "--access-log", str(log), "--access-log-format", form)
    (worker,) = server.workers()
    with server.connect() as client:
        client.get("/?a=1", "X-A: b \xff", "x-a: c", 'User-Agent: "q" r')
        client.send(b"nonsense\r\n\r\n")
        client.read()
    ended(server)
    assert log.read_text("ascii").splitlines() == [
        f"{worker} GET / /?a=1 200 test b\\x20\\xc3\\xbf,\\x20c - "
        '{"\\"q\\" r"} GET\\x20/?a=1\\x20HTTP/1.1',
        f'{worker} - - - 400 - - - {{"-"}} -',
    ]


def test_a_precise_duration(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    server = start(
        "protocol.py", "--access-log", str(log), "--access-log-format", "{duration_us} {time_iso}"
    )
    with server.connect() as client:
        for path in ("/", "/wait/50", "/blocks/60"):
            client.get(path)
    ended(server)
    form = re.compile(r"(\d+) \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
    found = [form.fullmatch(line) for line in log.read_text("ascii").splitlines()]
    quick, waited, blocked = (int(each[1]) for each in found if each)
    assert quick > 0
    assert waited >= 50_000
    assert blocked >= 60_000


def test_an_unknown_field_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bolide", "serve", "protocol.py", "--port", "0"]
    ran = subprocess.run(
        [*command, "--access-log-format", "{client} {stauts}"],
        cwd=APPLICATIONS,
        env=clean_environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    (line,) = ran.stderr.splitlines()
    said = "--access-log-format: '{client} {stauts}' has the unknown field {stauts}; did you mean "
    assert said in line


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


TRACED = """
from bolide import App

app = App()

@app.get("/")
def trace(request):
    return [request.headers["traceparent"], *request.headers.getall("tracestate")]
"""


def test_a_traceparent_is_passed_through_and_can_be_logged(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    (tmp_path / "traced.py").write_text(TRACED)
    form = "{request.traceparent} {request.tracestate}"
    given = ("--access-log", str(log), "--access-log-format", form)
    server = start("traced.py", *given, cwd=tmp_path)
    with server.connect() as client:
        fields = f"traceparent: {TRACE}", "tracestate: a=1", "tracestate: b=2"
        assert client.get("/", *fields).json() == [TRACE, "a=1", "b=2"]
    ended(server)
    assert log.read_text("ascii") == f"{TRACE} a=1,\\x20b=2\n"


def test_the_log_may_go_to_standard_output(start: Start) -> None:
    server = start("protocol.py", "--access-log", "-")
    with server.connect() as client:
        client.get("/")
        assert server.process.stdout is not None
        assert '"GET / HTTP/1.1" 200 5' in server.process.stdout.readline()


def test_a_stalled_reader_of_the_log_stalls_nobody() -> None:
    """Far more lines than the pipe and the queue hold, and nobody reads them."""
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "bolide", "serve", "protocol.py", "--port", "0"]
    with subprocess.Popen(
        [*command, "--access-log", "-"],
        cwd=APPLICATIONS,
        env=clean_environ(),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(writer)
        assert process.stderr is not None
        try:
            match = next(filter(None, map(READY.search, process.stderr)))
            with Connection(("127.0.0.1", int(match[1].rpartition(":")[2]))) as client:
                batch = (b"GET / HTTP/1.1\r\nHost: a\r\nReferer: " + b"r" * 1000 + b"\r\n\r\n") * 50
                for _ in range(100):
                    client.send(batch)
                    assert [client.read().status for _ in range(50)] == [200] * 50
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()
            os.close(reader)


def test_a_complete_response_that_is_not_sent_is_499(start: Start, tmp_path: Path) -> None:
    """The one before it is truncated, which ends the connection."""
    log = tmp_path / "access.log"
    server = start("protocol.py", "--access-log", str(log))
    with server.connect() as client:
        client.send(
            b"GET /cut-later HTTP/1.1\r\nHost: test\r\n\r\nGET / HTTP/1.1\r\nHost: test\r\n\r\n"
        )
        received = b""
        try:
            while more := client.socket.recv(65536):
                received += more
        except ConnectionResetError:
            pass
    assert received.count(b"HTTP/1.1 200 OK") == 1
    ended(server)
    lines = [line.split('"', 1)[1] for line in log.read_text("ascii").splitlines()]
    assert lines == [
        'GET /cut-later HTTP/1.1" 200 4 "-" "-"',
        'GET / HTTP/1.1" 499 0 "-" "-"',
    ]


def test_only_errors_and_slow_requests(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    only = ("--access-log-only", "errors,slow", "--access-log-slow-ms", "100")
    form = ("--access-log-format", "{status} {target}")
    server = start("protocol.py", "--access-log", str(log), *only, *form)
    with server.connect() as client:
        for path in ("/", "/missing", "/wait/150", "/status/503", "/blocks/150"):
            client.get(path)
    ended(server)
    lines = ["404 /missing", "200 /wait/150", "503 /status/503", "200 /blocks/150"]
    assert log.read_text("ascii").splitlines() == lines


def test_a_share_of_the_requests(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    server = start("protocol.py", "--access-log", str(log), "--access-log-sample", "0.2")
    with server.connect() as client:
        for _ in range(20):
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 50)
            assert [client.read().status for _ in range(50)] == [200] * 50
    ended(server)
    # 200 on average, with a standard deviation of 13.
    assert 100 < log.read_text("ascii").count("\n") < 300
