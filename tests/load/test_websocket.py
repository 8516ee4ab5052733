"""Load over WebSocket: which flags go together, and whole runs against the ceiling."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bolide.errors import ConfigError
from bolide.load import plan, record, summary, verdict
from bolide.load.destination import Destination
from bolide.load.options import Options
from load.samples import report
from support.server import command
from support.waiting import wait_until
from tls.authority import Authority, Files

pytestmark = pytest.mark.slow

WHERE = Destination(
    address="127.0.0.1:8000",
    host="127.0.0.1:8000",
    name="127.0.0.1",
    port=8000,
    targets=(("/echo", 1),),
    url="ws://127.0.0.1:8000/echo",
    is_websocket=True,
)
OPTIONS = Options(urls=(WHERE.url,), connections=10, depth=24)
Load = Callable[..., dict[str, Any]]


@contextmanager
def ceiling(*options: str) -> Iterator[int]:
    """Run the ceiling and yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    words = [sys.executable, "-m", "bolide", "ceiling", "--port", str(port), *options]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: accepts(port))
            yield port
        finally:
            process.kill()


def accepts(port: int) -> bool:
    """Return whether a server listens there."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Run the ceiling for these tests."""
    with ceiling() as port:
        yield port


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return a function that runs `bolide load ARGUMENTS...` and returns its report."""

    def load(*arguments: str, code: int = 0) -> dict[str, Any]:
        done = command("load", *arguments, "--json", "--quiet", cwd=tmp_path)
        assert (done[0], done[2]) == (code, ""), done
        found: dict[str, Any] = json.loads(done[1])
        return found

    return load


def test_the_page_and_the_record_name_the_messages() -> None:
    asked = plan.build(OPTIONS, WHERE)
    title = summary.page(report(), asked, WHERE).splitlines()[0]
    expected = f"{WHERE.url}: 10 connections, 24 deep, echo of 64 B text, 1 thread"
    assert title == expected
    changed = Options(
        urls=OPTIONS.urls,
        pattern="one-way",
        message_bytes=1024,
        is_binary=True,
        is_compressed=True,
    )
    title = summary.page(report(), plan.build(changed, WHERE), WHERE).splitlines()[0]
    assert "one-way of 1,024 B binary, permessage-deflate" in title
    document = json.loads(record.as_json(report(protocol="WebSocket"), asked))
    assert document["plan"]["websocket"] == {
        "depth": 24,
        "pattern": "echo",
        "message_bytes": 64,
        "is_binary": False,
        "is_compressed": False,
    }


def test_notes_name_what_the_server_did() -> None:
    asked = plan.build(OPTIONS, WHERE)

    def notes(**found: Any) -> list[str]:
        counts = {"upgrades": 1, "closes": {}, "refusals": {}, "first_failure": ""} | found
        return verdict.sentences(report(websocket=counts), asked)

    assert notes() == []
    assert notes(closes={"1011": 2, "1000": 1}) == [
        "the server closed WebSockets: 1 x 1000, 2 x 1011"
    ]
    refused = {"refusals": {"403": 5}, "first_failure": "status 403"}
    assert notes(**refused) == ["the server refused 5 WebSockets: status 403"]
    violated = "the frame has a mask"
    assert notes(first_failure=violated) == [f"the server violated the protocol: {violated}"]
    assert notes(pings_unanswered=1234) == [
        "the server sends pings and does not read the pongs: 1,234 of its pings got none of their"
        " own"
    ]


def test_the_page_counts_messages() -> None:
    asked = plan.build(OPTIONS, WHERE)
    lines = summary.page(report(requests_per_s=12.5), asked, WHERE).splitlines()
    assert next(line for line in lines if line.startswith("rate")).endswith("12.5 messages/s")


def test_a_note_says_that_one_way_expects_no_messages() -> None:
    one_way = Options(urls=OPTIONS.urls, pattern="one-way")
    found = {"upgrades": 1, "closes": {}, "refusals": {}, "first_failure": ""}
    of_echo = report(ok=0, failed=40, errors={"unexpected_bytes": 40}, websocket=found)
    said = verdict.sentences(of_echo, plan.build(one_way, WHERE))
    assert said[:2] == [
        "40 of 40 messages failed (40 unexpected_bytes): the rate is not a throughput",
        "the server sent messages, and --pattern one-way expects none; "
        "--pattern echo checks those of a server that sends every message back",
    ]
    echo = verdict.sentences(of_echo, plan.build(OPTIONS, WHERE))
    assert not [sentence for sentence in echo if "one-way" in sentence]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pipeline": 2}, "--pipeline is for http://"),
        ({"method": "POST"}, "--method is for http://"),
        ({"expect_status": 200}, "--expect-status is for http://"),
        ({"http_version": "2"}, "a WebSocket is opened over HTTP/1.1"),
        ({"body": b"x", "message_bytes": 5}, "--message-bytes and --body both"),
        ({"body": b"\xff"}, "a text message is UTF-8"),
        ({"message_bytes": 1 << 25}, "a message has at most 16,777,216 bytes"),
        ({"depth": 2, "is_persistent": False}, "--depth needs persistent connections"),
        ({"pattern": "broadcast", "rate": 5.0}, "--rate does not fit --pattern broadcast"),
        ({"pattern": "broadcast", "requests": 5}, "--pattern broadcast needs a duration"),
        ({"pattern": "broadcast", "threads": 2}, "--pattern broadcast needs one thread"),
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan.build(Options(urls=(WHERE.url,), **given), WHERE)
    assert message in str(caught.value)


def test_options_of_messages_need_a_websocket(tmp_path: Path, port: int) -> None:
    done = command("load", f"http://127.0.0.1:{port}/", "--depth", "2", cwd=tmp_path)
    assert done[0] == 2
    assert f"--depth is for ws:// and wss://; http://127.0.0.1:{port}/ is not" in done[2]
    url = f"ws://127.0.0.1:{port}"
    done = command("load", f"{url}/a", f"{url}/b", cwd=tmp_path)
    assert done[0] == 2
    assert f"'{url}/b' is one URL too many" in done[2]


WAYS: list[tuple[str, ...]] = [
    ("-c", "3"),
    ("-c", "4", "-t", "2", "--depth", "7", "--binary"),
    ("-c", "2", "--no-keep-alive"),
    ("-c", "3", "--depth", "5", "--rate", "10k"),
    ("-c", "3", "--body", "\u00e4 text", "--depth", "3"),
    ("-c", "2", "--message-bytes", "0"),
    ("-c", "2", "--message-bytes", "200000", "--depth", "2"),
]


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_messages_are_counted(port: int, load: Load, way: tuple[str, ...]) -> None:
    found = load(f"ws://127.0.0.1:{port}/", "-n", "300", *way)
    assert (found["ok"], found["failed"], found["unfinished"]) == (300, 0, 0), found
    assert (found["protocol"], found["requests_sent"]) == ("WebSocket", 300)
    assert "WebSocket" not in " ".join(found["warnings"])


def test_messages_over_tls(authority: Authority, files: Files, tmp_path: Path, load: Load) -> None:
    trust = ("--cacert", str(authority.write(tmp_path / "authority.pem")))
    with ceiling(*files.options) as port:
        found = load(f"wss://127.0.0.1:{port}/", "-n", "200", "-c", "3", "--depth", "4", *trust)
    assert (found["ok"], found["failed"]) == (200, 0), found
    assert found["tls"]["handshakes_full"] + found["tls"]["handshakes_resumed"] == 3


def test_a_server_without_websockets_is_named(
    tmp_path: Path, load: Load, start_counting: Callable[..., Any]
) -> None:
    url = start_counting().urls[0].replace("http:", "ws:")
    found = load(f"{url}/nothing", "-n", "4", "-c", "2", code=3)
    assert (found["ok"], found["errors"]["handshake"]) == (0, 4)
    [note] = [each for each in found["warnings"] if "WebSocket" in each]
    assert note.startswith("the server refused 4 WebSockets: status 4")


def test_compression_that_the_server_declines_is_named(port: int, load: Load) -> None:
    found = load(f"ws://127.0.0.1:{port}/", "--compress", "-n", "2", "-c", "1", code=3)
    expected = "the server refused 2 WebSockets: the server does not agree to permessage-deflate"
    assert expected in found["warnings"]
