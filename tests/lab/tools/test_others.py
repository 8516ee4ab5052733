"""oha, h2load, hey, bombardier and `bolide load`: stored outputs, whole and broken."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bolide.lab.tools import TOOLS, Load, Reading, ToolError, find

SAMPLES = Path(__file__).with_name("samples")
LOAD = Load("http://127.0.0.1:1/", connections=20, expected_content=b"Hello, World!")


def read(name: str, text: str, load: Load = LOAD) -> Reading:
    return find(name).read(text, "", 0, load)


def sample(name: str) -> str:
    return (SAMPLES / name).read_text()


def changed(name: str, *path: str, value: Any) -> str:
    """Return a JSON sample with one value replaced."""
    report = json.loads(sample(name))
    place = report
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(report)


def test_oha() -> None:
    found = read("oha", sample("oha.json"))
    assert (found.ok, found.failed, found.errors) == (
        50000,
        0,
        {},
    )  # 20 cut off at the end: neither
    assert found.requests_per_s == 10000
    assert found.latency_us == {
        "mean": 2000,
        "p50": 1900,
        "p90": 2500,
        "p99": 4000,
        "p99_9": 8000,
        "max": 12000,
    }


def test_oha_counts_errors_and_other_statuses() -> None:
    found = read("oha", changed("oha.json", "statusCodeDistribution", value={"200": 10, "500": 90}))
    assert (found.ok, found.failed, found.errors) == (10, 90, {"wrong_status": 90})
    broken = {"aborted due to deadline": 20, "connection refused": 7}
    found = read("oha", changed("oha.json", "errorDistribution", value=broken))
    assert (found.ok, found.failed, found.errors) == (50000, 7, {"connection refused": 7})


def test_oha_responses_of_another_size_are_wrong() -> None:
    found = read("oha", changed("oha.json", "summary", "sizePerRequest", value=21))
    assert (found.ok, found.errors["wrong_body"]) == (0, 50000)
    assert "contents had 21 bytes on average instead of 13" in found.remarks


def test_h2load() -> None:
    found = read("h2load", sample("h2load.txt"), replace(LOAD, duration_s=1.0))
    assert (found.ok, found.failed, found.requests_per_s) == (190157, 0, 190157)
    assert found.latency_us == {
        "mean": 105,
        "p50": None,
        "p90": None,
        "p99": None,
        "p99_9": None,
        "max": 2550,
    }
    assert found.bytes_per_s == 27762922


def test_h2loads_warm_up_is_not_part_of_its_duration() -> None:
    text = sample("h2load.txt").replace("finished in 1.00s", "finished in 1.21s")
    timed = replace(LOAD, duration_s=0.9, warm_up_s=0.2)
    found = read("h2load", text, timed)
    assert (found.seconds, found.requests_per_s, found.bytes_per_s) == (1.0, 190157, 27762922)
    counted = read("h2load", text, replace(LOAD, duration_s=None, requests_total=190157))
    assert (counted.seconds, counted.requests_per_s) == (1.21, pytest.approx(190157 / 1.21))


@pytest.mark.parametrize(
    ("data_bytes", "streams", "is_right"),
    [(1_300_000, 1, True), (1_416_000, 32, True), (1_416_000, 1, False), (1_600_000, 32, False)],
)
def test_h2load_may_count_parts_of_responses(data_bytes: int, streams: int, is_right: bool) -> None:
    text = sample("h2load.txt").replace("190157 2xx", "100000 2xx")
    text = re.sub(r"\((\d+)\) data", f"({data_bytes}) data", text)
    load = replace(LOAD, http_version="2", connections=100, streams=streams)
    assert ("wrong_body" not in read("h2load", text, load).errors) is is_right


@pytest.mark.parametrize(
    ("data_bytes", "is_right"), [(1_180_000, False), (1_560_000, True), (2_000_000, False)]
)
def test_h2load_counts_the_data_of_its_warm_up(data_bytes: int, is_right: bool) -> None:
    text = sample("h2load.txt").replace("190157 2xx", "100000 2xx")
    text = re.sub(r"\((\d+)\) data", f"({data_bytes}) data", text)
    load = replace(LOAD, http_version="2", duration_s=1.0, warm_up_s=0.2)
    assert ("wrong_body" not in read("h2load", text, load).errors) is is_right


def test_h2load_redirects_are_no_success() -> None:
    text = sample("h2load.txt").replace("190157 2xx, 0 3xx", "157 2xx, 190000 3xx")
    found = read("h2load", text)
    assert (found.ok, found.errors) == (157, {"wrong_status": 190000})
    text = sample("h2load.txt").replace("0 errored, 0 timeout", "9 errored, 4 timeout")
    assert read("h2load", text).failed == 9


def test_hey() -> None:
    found = read("hey", sample("hey.txt"))
    assert (found.ok, found.failed) == (42353, 0)
    assert found.requests_per_s == pytest.approx(42353 / 1.0018)
    assert found.latency_us == {
        "mean": 500,
        "p50": 400,
        "p90": 800,
        "p99": 1200,
        "p99_9": None,
        "max": 5100,
    }


def test_hey_errors_are_no_responses() -> None:
    text = sample("hey.txt") + (
        "Error distribution:\n"
        '  [12]\tGet "http://h/": dial tcp: connection refused\n'
        '  [30]\tGet "http://h/": EOF\n'
    )
    found = read("hey", text.replace("[200]\t42353", "[503]\t42353"))
    assert (found.ok, found.failed) == (0, 42353 + 42)
    assert found.errors == {"wrong_status": 42353, "broken": 42}
    assert found.latency_us is None


def test_hey_keeps_a_million_samples() -> None:
    found = read("hey", sample("hey.txt").replace("42353 resp", "1000000 resp"))
    assert found.remarks == ["hey keeps the first million samples: its percentiles miss the rest"]


def test_bombardier() -> None:
    found = read("bombardier", sample("bombardier.json"))
    assert (found.ok, found.failed, found.requests_per_s) == (40000, 0, 8000)
    assert found.latency_us is not None
    assert (found.latency_us["p50"], found.latency_us["p99_9"]) == (2300, None)
    found = read("bombardier", changed("bombardier.json", "result", "req5xx", value=10000))
    assert (found.ok, found.errors) == (40000, {"wrong_status": 10000})


def test_bolide() -> None:
    found = read("bolide", sample("bolide.json"))
    assert (found.ok, found.failed, found.requests_per_s) == (990, 10, 495.0)
    assert found.errors == {"wrong_status": 10}
    assert found.latency_us is not None and found.latency_us["p99_9"] == 310
    assert found.histogram == [(60, 900), (310, 90)]
    assert (found.generator_cpu_s, found.generator_cpu_share) == (0.25, 0.1)
    assert found.served == {
        "connections": 98,
        "starved": 2,
        "min": 0,
        "median": 10,
        "max": 12,
        "fairness": 0.95,
    }
    assert found.remarks == ["10 of 1,000 requests failed"]


@pytest.mark.parametrize("name", ["oha", "bombardier", "bolide"])
@pytest.mark.parametrize("text", ["", "{", '{"result": 1}', "[]", "Error: no\n", '{"summary": {}}'])
def test_json_that_is_no_report(name: str, text: str) -> None:
    with pytest.raises(ToolError) as raised:
        read(name, text)
    assert "\n" not in str(raised.value)


def test_bolide_load_sends_messages() -> None:
    load = Load("ws://h/echo", pipeline_depth=24, messages="echo", message_bytes=64)
    words = " ".join(find("bolide").command(load))
    assert "--depth 24 " in words and "--pipeline" not in words
    assert words.endswith("--pattern echo --message-bytes 64")
    load = Load("ws://h/", messages="echo", is_compressed=True, expected_content=b"{}")
    assert " ".join(find("bolide").command(load)).endswith("--pattern echo --compress --body {}")
    with pytest.raises(ToolError, match="wrk cannot do WebSocket"):
        find("wrk").command(load)


@pytest.mark.parametrize("name", ["h2load", "hey"])
def test_a_page_that_is_none(name: str) -> None:
    with pytest.raises(ToolError, match="no result: no such host"):
        find(name).read("", "no such host\n", 1, LOAD)


def test_a_tool_that_there_is_not() -> None:
    with pytest.raises(ToolError, match="no tool is called 'siege'; there are bolide, ab, wrk"):
        find("siege")


REFUSED = [
    ("ab", {"pipeline_depth": 2}, "ab cannot do pipelining"),
    ("ab", {"rate_per_s": 10.0}, "ab cannot do a rate"),
    ("wrk", {"requests_total": 10}, "wrk cannot do a number of requests"),
    ("wrk", {"http_version": "1.0"}, "wrk cannot do HTTP/1.0"),
    ("webbench", {}, "webbench cannot do persistent connections"),
    ("h2load", {"is_persistent": False}, "h2load cannot do one request per connection"),
    ("ab", {"tls": "resumed"}, "ab cannot do TLS"),
    ("oha", {"http_version": "2"}, "oha cannot do HTTP/2"),
    ("wrk", {"http_version": "2"}, "wrk cannot do HTTP/2"),
    ("wrk", {"tls": "full", "is_persistent": False}, "wrk cannot do handshakes"),
    ("wrk", {"warm_up_s": 0.2}, "wrk cannot do a warm-up"),
]


@pytest.mark.parametrize(("name", "fields", "said"), REFUSED)
def test_a_load_that_a_tool_cannot_make(name: str, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ToolError, match=said):
        find(name).command(Load("http://h/", **fields))


def test_command_lines() -> None:
    load = Load("http://h/", connections=4, threads=2, timeout_s=1.5, duration_s=2)
    once = Load("http://h/", connections=4, is_persistent=False, duration_s=2, requests_total=9)
    assert find("ab").command(once) == ("ab -r -q -s 5 -e /dev/stdout -n 9 -c 4 http://h/".split())
    assert find("wrk").command(load)[:6] == "wrk -t2 -c4 -d2s --latency --timeout=2s".split()
    assert (
        find("oha").command(once)
        == (
            "oha --no-tui --output-format json -c 4 -t 5s --redirect 0 -n 9 --disable-keepalive http://h/"
        ).split()
    )
    assert find("h2load").command(load) == "h2load --h1 -c 4 -t 2 -m 1 -N 2s -D 2 http://h/".split()
    assert find("hey").command(once)[-4:] == ["-n", "9", "-disable-keepalive", "http://h/"]
    assert find("bombardier").command(load)[-3:] == ["-d", "2s", "http://h/"]
    webbench = find("webbench").command(Load("http://h/", is_persistent=False))
    assert webbench == "webbench -c 100 -t 10 http://h/".split()
    ours = find("bolide").command(once)
    assert ours[-5:] == ["-n", "9", "--no-keep-alive", "--expect-status", "200"]


RATES = [(1_000_000.0, "1000000"), (1_234_567.0, "1234567"), (99.5, "100"), (0.25, "1")]


@pytest.mark.parametrize(("rate", "said"), RATES)
def test_rates_are_written_without_an_exponent(rate: float, said: str) -> None:
    load = Load("http://h/", connections=1, rate_per_s=rate)
    for name, flag in (("bolide", "--rate"), ("bombardier", "-r")):  # they read whole numbers
        words = find(name).command(load)
        assert words[words.index(flag) + 1] == said
    exact = {99.5: "99.5", 0.25: "0.25"}.get(rate, said)
    for name, flag in (("hey", "-q"), ("oha", "-q"), ("h2load", "--rps")):
        words = find(name).command(load)
        assert words[words.index(flag) + 1] == exact


TIMES = [(0.00005, "50us"), (0.3, "300ms"), (1.5, "1500ms"), (5.0, "5s"), (86_400.0, "86400s")]


@pytest.mark.parametrize(("seconds", "said"), [*TIMES, (1e-300, "1us")])
def test_times_are_written_without_an_exponent(seconds: float, said: str) -> None:
    load = Load("http://h/", connections=1, duration_s=seconds, timeout_s=seconds)
    ours = find("bolide").command(replace(load, warm_up_s=seconds))
    assert [ours[ours.index(flag) + 1] for flag in ("-d", "--timeout", "--warm-up")] == [said] * 3
    for name, flags in (("oha", ("-z", "-t")), ("hey", ("-z",)), ("bombardier", ("-d", "-t"))):
        words = find(name).command(load)
        assert {words[words.index(flag) + 1] for flag in flags} == {said}


def test_command_lines_with_tls() -> None:
    load = Load("https://h/", connections=4, duration_s=0.5, tls="resumed", certificate="c.pem")
    http2 = replace(load, http_version="2", streams=32, warm_up_s=0.2)
    assert find("h2load").command(http2) == (
        "h2load -c 4 -t 1 -m 32 -N 5s -D 1 --warm-up-time 200ms https://h/".split()
    )
    assert find("h2load").command(load)[:2] == ["h2load", "--h1"]
    words = find("bolide").command(http2)
    at = words.index("--http2")
    assert words[at : at + 5] == ["--http2", "--streams", "32", "--cacert", "c.pem"]
    full = find("bolide").command(replace(load, tls="full", is_persistent=False))
    assert "--no-resumption" in full and "--no-resumption" not in words
    assert find("wrk").command(load)[-3:] == ["https://h/", "--", "1"]


def test_h2load_uses_the_protocol_that_is_asked_for() -> None:
    text = sample("h2load.txt").replace("http/1.1", "h2")
    http2 = replace(LOAD, tls="resumed", http_version="2", streams=4)
    if "Application protocol" not in text:
        text += "Application protocol: h2\n"
    assert read("h2load", text, http2).ok == 190157
    with pytest.raises(ToolError, match=r"h2load used the protocol h2, not http/1\.1"):
        read("h2load", text, replace(LOAD, tls="resumed"))
    with pytest.raises(ToolError, match="h2load used the protocol none, not h2"):
        read("h2load", text.replace("Application protocol: h2", ""), http2)


@pytest.mark.parametrize(
    ("ages_us", "waited_s"),
    [([], None), ([[2e6, 9]], None), ([[1e3, 10], [5e5, 7], [2e6, 3]], 0.5), ([[1e3, 20]], 0.001)],
)
def test_how_long_half_of_the_connections_waited_at_the_end(
    ages_us: list[list[float]], waited_s: float | None
) -> None:
    text = changed("bolide.json", "unfinished_us", value=ages_us)
    assert read("bolide", text).waiting_s == waited_s


@pytest.mark.parametrize(
    ("tls", "full", "resumed", "is_right"),
    [
        ("full", 1000, 0, True),
        ("full", 900, 100, False),
        ("resumed", 20, 1000, True),
        ("resumed", 1000, 20, False),
    ],
)
def test_handshakes_are_of_the_kind_that_is_asked_for(
    tls: str, full: int, resumed: int, is_right: bool
) -> None:
    counts = {"handshakes_full": full, "handshakes_resumed": resumed}
    report = json.dumps(json.loads(sample("bolide.json")) | {"tls": counts})
    load = replace(LOAD, tls=tls, is_persistent=False)
    if is_right:
        assert read("bolide", report, load).ok == 990
    else:
        with pytest.raises(ToolError, match=f"full and {resumed:,} resumed, not all {tls}"):
            read("bolide", report, load)


def test_every_tool_is_found_by_its_name() -> None:
    assert [find(name).name for name in TOOLS] == list(TOOLS)


SEARCH = Load("http://127.0.0.1:1/", rate_per_s=500.0, finds="p99 < 10ms")


def found(**changes: Any) -> str:
    """Return the output of a search."""
    report = json.loads(sample("bolide.json"))
    report["find"] = {
        "rate_per_s": 4000.0,
        "is_confirmed": True,
        "limit": "server",
        "trials": [{"rate_per_s": 500.0}, {"rate_per_s": 4000.0}],
    } | changes
    return json.dumps(report)


def test_a_search_is_asked_of_our_tool_alone() -> None:
    words = find("bolide").command(SEARCH)
    assert words[words.index("--rate") + 1] == "500"
    assert words[words.index("--find") + 1] == "p99 < 10ms"
    for name in ("hey", "oha"):
        with pytest.raises(ToolError, match=f"{name} cannot do a search"):
            find(name).command(SEARCH)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "the server met p99 < 10ms up to this rate"),
        (
            {"limit": "generator"},
            "the generator was the limit of p99 < 10ms: the server may do more",
        ),
        (
            {"limit": "connections"},
            "the connections were the limit of p99 < 10ms: all of them were busy",
        ),
        (
            {"limit": "none", "is_confirmed": False},
            "no rate failed p99 < 10ms: the limit is not known;"
            " the search ended before it was confirmed",
        ),
    ],
)
def test_what_limited_a_search_is_said(changes: dict[str, Any], said: str) -> None:
    assert read("bolide", found(**changes), SEARCH).remarks[-1] == said


def test_a_search_without_a_result_has_no_figure() -> None:
    wanted = "no rate meets p99 < 10ms; the lowest tried is 500/s"
    with pytest.raises(ToolError, match=wanted):
        read("bolide", found(rate_per_s=None), SEARCH)
