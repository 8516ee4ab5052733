"""The pages in the manner of other tools, of a report that is known."""

from typing import Any

import pytest

from bolide.load import plan
from bolide.load.options import Options
from bolide.load.views import VIEWS, ab
from bolide.load.views.run_result import RunResult
from load.samples import WHERE, columns, parse_ab, parse_webbench, parse_wrk, report

MIXED = {
    "ok": 19_000,
    "requests_per_s": 9_500.0,
    "statuses": {"200": 19_010, "301": 40, "503": 60},
    "errors": {
        "refused": 5,
        "connect": 1,
        "timeout": 7,
        "reset": 2,
        "early_eof": 3,
        "short": 4,
        "wrong_status": 100,
        "wrong_body": 6,
        "late": 8,
    },
}


def result(changes: dict[str, Any] | None = None, **given: Any) -> RunResult:
    asked: dict[str, Any] = {"connections": 10, "duration_s": 2.0} | given
    options = Options(urls=(WHERE.url,), **asked)
    return RunResult(report(**(changes or {})), plan.build(options, WHERE), options, WHERE)


def test_ab() -> None:
    found = parse_ab(ab.page(result()))
    percent = found.pop("percent")
    assert found == {
        "Server Software": ["bolide"],
        "Server Hostname": ["127.0.0.1"],
        "Server Port": ["8000"],
        "Document Path": ["/page?a=b"],
        "Document Length": ["13 bytes"],
        "Concurrency Level": ["10"],
        "Time taken for tests": ["2.000 seconds"],
        "Complete requests": ["20000"],
        "Failed requests": ["0"],
        "Keep-Alive requests": ["20000"],
        "Total transferred": ["3300000 bytes"],
        "HTML transferred": ["260000 bytes"],
        "Requests per second": ["10000.00 [#/sec] (mean)"],
        "Time per request": [
            "1.000 [ms] (mean)",
            "0.100 [ms] (mean, across all concurrent requests)",
        ],
        "Transfer rate": ["1611.33 [Kbytes/sec] received"],
        "Connect": [0, 0, 0.0, 0, 0],
        "Processing": [0, 2, 0.7, 1, 16],
        "Waiting": [0, 2, 0.7, 1, 16],
        "Total": [0, 2, 0.7, 1, 16],
    }
    assert percent == {50: 1, 66: 2, 75: 2, 80: 2, 90: 3, 95: 4, 98: 7, 99: 8, 100: 16}


def test_ab_splits_the_time_of_a_connection_for_each_request() -> None:
    found = parse_ab(ab.page(result({"connections_opened": 20_000}, is_persistent=False)))
    assert found["Total"] == [0, 2, 0.7, 1, 16]
    assert found["Connect"] == [0, 0, 0.1, 0, 2]
    assert found["Processing"] == [0, 1, 0.6, 1, 14]
    assert "Keep-Alive requests" not in found


def test_ab_names_the_server_by_its_first_word() -> None:
    found = parse_ab(ab.page(result({"server_software": "SimpleHTTP/0.6 Python/3.11"})))
    assert found["Server Software"] == ["SimpleHTTP/0.6"]


def test_ab_with_failures() -> None:
    found = parse_ab(ab.page(result(MIXED | {"connections_opened": 60})))
    assert found["Complete requests"] == [str(19_000 + 136 - 18)]
    assert found["Failed requests"] == ["36"]
    assert found["failures"] == {"Connect": 6, "Receive": 12, "Length": 4, "Exceptions": 14}
    assert found["Non-2xx responses"] == ["100"]
    assert found["Requests per second"] == ["9500.00 [#/sec] (mean)"]
    assert found["Keep-Alive requests"] == [str(19_000 + 136 - 18 - 50)]


def test_ab_without_responses() -> None:
    empty = {"ok": 0, "requests_per_s": 0.0, "statuses": {}, "errors": {"refused": 3}}
    found = parse_ab(ab.page(result(empty)))
    assert found["Complete requests"] == ["0"]
    assert found["failures"]["Connect"] == 3
    assert "Total" not in found and "percent" not in found


def test_ab_with_a_body() -> None:
    made = result(body=b"x" * 100, http_version="1.0", is_persistent=False)
    found = parse_ab(ab.page(made))
    head = "POST /page?a=b HTTP/1.0\r\nHost: 127.0.0.1:8000\r\nContent-Length: 100\r\n\r\n"
    assert found["Total body sent"] == [str(20_000 * (len(head) + 100))]
    assert found["sent"] == pytest.approx(20_000 * (len(head) + 100) / 2 / 1024, abs=0.01)
    assert found["total"] == pytest.approx(found["sent"] + 1611.33, abs=0.02)


def test_abs_own_switches() -> None:
    page = ab.page(result(hides_percentiles=True, hides_deviations=True))
    found = parse_ab(page)
    assert "percent" not in found
    assert found["Total"] == [0, 2, 16]
    assert "              min   avg   max\n" in page
    rows = ab.percentiles_csv(result()).splitlines()
    assert rows[0] == "Percentage served,Time in ms"
    assert (rows[1], rows[51], rows[100]) == ("0,0.100", "50,1.200", "99,8.000")
    times = [float(row.split(",")[1]) for row in rows[1:]]
    assert len(times) == 100 and times == sorted(times)


def test_wrk() -> None:
    found = parse_wrk(VIEWS["wrk"](result(shows_percentiles=True, threads=2)))
    order = found.pop("order")
    assert order == [
        *("running", "threads", "head", "latency", "rate", "distribution"),
        *["percent"] * 4,
        *("total", "requests_per_s", "transfer"),
    ]
    assert found == {
        "running": {"time": "2s", "url": "http://127.0.0.1:8000/page?a=b"},
        "threads": {"threads": "2", "connections": "10"},
        "head": {},
        "latency": {"mean": "1.50ms", "stdev": "700.00us", "max": "16.00ms", "within": "80.00"},
        "rate": {"mean": "5.00k", "stdev": "707.11", "max": "5.50k", "within": "100.00"},
        "distribution": {},
        "percent": {50: "1.20ms", 75: "2.00ms", 90: "3.00ms", 99: "8.00ms"},
        "total": {"requests": "20000", "time": "2.00s", "size": "3.15MB"},
        "requests_per_s": {"rate": "10000.00"},
        "transfer": {"size": "1.57MB"},
    }


def test_wrk_with_failures_and_without_latency() -> None:
    found = parse_wrk(VIEWS["wrk"](result(MIXED)))
    assert "percent" not in found
    assert found["errors"] == {"connect": "6", "read": "9", "write": "0", "timeout": "7"}
    assert found["statuses"] == {"count": "60"}
    assert found["total"]["requests"] == str(19_000 + 136 - 18)
    assert found["requests_per_s"] == {"rate": "9500.00"}


def test_wrk_without_responses() -> None:
    empty = {"ok": 0, "requests_per_s": 0.0, "statuses": {}, "errors": {"timeout": 3}}
    made = result(empty | {"per_second": [], "histogram": []}, shows_percentiles=True)
    found = parse_wrk(VIEWS["wrk"](made))
    assert found["latency"] == {
        "mean": "0.00us",
        "stdev": "0.00us",
        "max": "0.00us",
        "within": "-nan",
    }
    assert found["percent"][99] == "0.00us"


@pytest.mark.parametrize("seconds", [0.1, 1.0, 50.0, 51.0, 120.0])
def test_wrk_writes_times_as_whole_seconds_or_minutes(seconds: float) -> None:
    found = parse_wrk(VIEWS["wrk"](result(duration_s=seconds)))
    shown = {0.1: "1s", 1.0: "1s", 50.0: "50s", 51.0: "1m", 120.0: "2m"}
    assert found["running"]["time"] == shown[seconds]


def test_wrks_figures_end_in_its_columns() -> None:
    latency, rate = columns(VIEWS["wrk"](result()))
    assert latency == rate == [20, 30, 39, 49]


def test_webbench() -> None:
    page = VIEWS["webbench"](result(MIXED, http_version="1.0", is_persistent=False))
    assert parse_webbench(page) == {
        "pages_per_min": 570_000,
        "bytes_per_s": 1_650_000,
        "ok": 19_000,
        "failed": 136,
    }
    lines = page.splitlines()
    assert lines[0] == "Benchmarking: GET http://127.0.0.1:8000/page?a=b"
    assert lines[1] == "10 clients, running 2 sec."


def test_webbench_says_how_it_was_called() -> None:
    made = result(connections=1, headers=("Pragma: no-cache",), proxy="p:1", method="HEAD")
    lines = VIEWS["webbench"](made).splitlines()
    assert lines[0] == "Benchmarking: HEAD http://127.0.0.1:8000/page?a=b (using HTTP/1.1)"
    assert lines[1] == "1 client, running 2 sec, via proxy server p:1, forcing reload."
