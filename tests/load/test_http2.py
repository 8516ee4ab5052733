"""Load over HTTP/2: which flags go together, and whole runs against a server that counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bolide.load import plan, record, summary, verdict
from bolide.load.options import Options
from load.conftest import StartCounting
from load.samples import WHERE, report
from support.server import command
from tls.authority import Authority, Files

OPTIONS = Options(urls=(WHERE.url,), connections=10, http_version="2", streams=32)
Load = Callable[..., dict[str, Any]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return a function that runs `bolide load --http2 ARGUMENTS...` and returns its report."""

    def load(*arguments: str, code: int = 0) -> dict[str, Any]:
        done = command("load", "--http2", *arguments, "--json", "--quiet", cwd=tmp_path)
        assert (done[0], done[2]) == (code, ""), done
        found: dict[str, Any] = json.loads(done[1])
        return found

    return load


def test_a_note_names_the_servers_limit_of_streams() -> None:
    asked = plan.build(OPTIONS, WHERE)
    assert verdict.sentences(report(streams_allowed=10), asked) == [
        "the server allows 10 streams on a connection, so no more of the 32 were used"
    ]
    assert verdict.sentences(report(streams_allowed=32), asked) == []
    found = verdict.sentences(report(streams_allowed=0), asked)
    assert [sentence.partition(" (")[0] for sentence in found] == [
        "the server allows no streams on a connection"
    ]


def test_the_page_and_the_record_name_the_protocol_and_its_streams() -> None:
    asked = plan.build(OPTIONS, WHERE)
    page = summary.page(report(), asked, WHERE)
    title = "http://127.0.0.1:8000/page?a=b: 10 connections, 32 streams each, HTTP/2, 1 thread"
    assert page.splitlines()[0] == title
    single = summary.page(report(), asked | {"streams": 1}, WHERE)
    assert "10 connections, 1 stream each, HTTP/2, 1 thread" in single.splitlines()[0]
    document = json.loads(record.as_json(report(protocol="HTTP/2"), asked))
    assert (document["protocol"], document["plan"]["streams"]) == ("HTTP/2", 32)
    header, line = record.as_csv(report(), asked).splitlines()
    assert dict(zip(header.split(","), line.split(","), strict=True))["streams"] == "32"


def test_a_server_that_does_not_expect_http_2_is_named() -> None:
    asked = plan.build(OPTIONS, WHERE)
    silent = {"ok": 0, "statuses": {}, "tls": None}
    found = verdict.sentences(report(**silent, failed=9, errors={"malformed": 9}), asked)
    assert any("leave out --http2" in sentence for sentence in found)
    knows = report(**silent, failed=9, errors={"malformed": 9}, settings_received=1)
    assert not any("--http2" in sentence for sentence in verdict.sentences(knows, asked))
    found = verdict.sentences(report(**silent, failed=9, errors={"refused": 9}), asked)
    assert not any("--http2" in sentence for sentence in found)


def test_versions_exclude_each_other(tmp_path: Path) -> None:
    done = command("load", WHERE.url, "--http2", "--http1.0", cwd=tmp_path)
    assert done[0] == 2
    assert "--http1.0 and --http2 both set the version; give one of them" in done[2]


WAYS: list[tuple[str, ...]] = [
    ("-c", "3"),
    ("-c", "4", "-t", "2", "--streams", "7", "--expect-same"),
    ("-c", "2", "--no-keep-alive"),
    ("-c", "3", "--streams", "5", "--rate", "10k"),
]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("is_secure", [False, True])
def test_the_servers_count_agrees_to_the_request(
    start_counting: StartCounting,
    files: Files,
    authority: Authority,
    tmp_path: Path,
    load: Load,
    is_secure: bool,
    way: tuple[str, ...],
) -> None:
    url = start_counting(*(files.options if is_secure else ("--h2c",))).urls[0]
    authorities = str(authority.write(tmp_path / "authority.pem"))
    trust = ("--cacert", authorities) if is_secure else ()
    found = load(f"{url}/page/a*2", f"{url}/page/bb", "-n", "300", *way, *trust)
    assert (found["ok"], found["failed"], found["unfinished"]) == (300, 0, 0), found
    assert found["content_bytes_received"] == 200 * len("page a") + 100 * len("page bb")
    assert (found["protocol"], found["requests_sent"]) == ("HTTP/2", 300)
    assert (found["tls"] is not None) is is_secure
    expected = '{"a":200,"bb":100}'
    checked = load(f"{url}/counts", "-n", "5", "-c", "1", "--expect-body", expected, *trust)
    assert checked["ok"] == 5


@pytest.mark.slow
def test_content_waits_for_the_servers_windows(start_counting: StartCounting, load: Load) -> None:
    url = start_counting("--h2c").urls[0]
    options = ("--body", "x" * 100_000, "-n", "40", "-c", "2", "--streams", "5")
    expected = ("--expect-status", "201", "--expect-body", "100000 none")
    found = load(f"{url}/items", *options, *expected)
    assert (found["ok"], found["failed"]) == (40, 0), found["errors"]


@pytest.mark.slow
def test_a_server_of_http_1_is_named(
    start_counting: StartCounting, files: Files, load: Load
) -> None:
    plain = start_counting().urls[0]
    found = load(f"{plain}/page/a", "-n", "2", "-c", "1", code=3)
    assert (found["ok"], found["failed"]) == (0, 2)
    assert any("--h2c" in sentence for sentence in found["warnings"]), found
    secure = start_counting(*files.options, "--alpn", "http/1.1").urls[0]
    found = load(f"{secure}/page/a", "-n", "2", "-c", "1", "--insecure", code=3)
    assert found["errors"]["tls"] == 2
    assert any("leave out --http2" in sentence for sentence in found["warnings"])
