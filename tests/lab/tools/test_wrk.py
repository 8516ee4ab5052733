"""wrk's page and our script's line: units, missing rows, and what it counts as a request."""

from __future__ import annotations

import pytest

from bolide.lab.tools import Load, ToolError, find
from bolide.lab.tools.unit import size_bytes, time_us

WRK = find("wrk")
LOAD = Load("http://127.0.0.1:1/", connections=10000, threads=100)

PAGE = """Running 3s test @ http://127.0.0.1:9006/
  100 threads and 10000 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   255.35ms  115.35ms   1.20s    84.81%
    Req/Sec   207.76    226.19     1.88k    86.65%
  Latency Distribution
     50%  266.37ms
     75%  327.59ms
     90%  344.96ms
     99%    1.01s
  20240 requests in 3.10s, 22.72MB read
MORERequests/sec:   6530.39
Transfer/sec:      7.33MB
"""
SOCKET = "  Socket errors: connect 7, read 5, write 1, timeout 40\n"
STATUS = "  Non-2xx or 3xx responses: 20240\n"


def page(more: str = "") -> str:
    return PAGE.replace("MORE", more)


def test_a_short_run_takes_a_second() -> None:
    assert "-d1s" in WRK.command(Load("http://127.0.0.1:1/", duration_s=0.3))
    assert "-d3s" in WRK.command(Load("http://127.0.0.1:1/", duration_s=3.4))


def test_a_page() -> None:
    found = WRK.read(page(), "", 0, LOAD)
    assert (found.ok, found.failed, found.errors) == (20240, 0, {})
    assert found.requests_per_s == pytest.approx(6530.39)
    assert found.seconds == pytest.approx(20240 / 6530.39)
    assert found.latency_us == {
        "mean": 255350,
        "p50": 266370,
        "p90": 344960,
        "p99": 1010000,
        "p99_9": None,
        "max": 1200000,
    }


def test_a_page_without_latency_has_no_percentiles() -> None:
    lines = [
        line for line in page().splitlines() if "%  " not in line and "Distribution" not in line
    ]
    found = WRK.read("\n".join(lines), "", 0, LOAD)
    assert found.latency_us is not None
    assert found.latency_us["p99"] is None  # never the average instead
    assert found.latency_us["mean"] == 255350


def test_error_pages_are_no_throughput() -> None:
    found = WRK.read(page(STATUS), "", 0, LOAD)
    assert (found.ok, found.requests_per_s, found.latency_us) == (0, 0, None)
    assert found.errors == {"wrong_status": 20240}
    assert "20,240 of 20,240 responses were wrong or late: this is not throughput" in found.remarks


def test_socket_errors_have_classes() -> None:
    found = WRK.read(page(SOCKET), "", 0, LOAD)
    assert found.errors == {"connect": 7, "read": 5, "write": 1, "timeout": 40}
    assert (found.ok, found.failed) == (20200, 40 + 13)  # late responses are among wrk's requests
    assert "7 connections could not be opened; wrk does not retry" in found.remarks[0]
    assert "it measured with 9,993" in found.remarks[0]
    assert "40 responses arrived after 5 s" in found.remarks[1]


def test_no_response_at_all() -> None:
    text = (
        page(SOCKET)
        .replace("20240 requests", "0 requests")
        .replace("6530.39", "0.00")
        .replace("84.81%", "-nan%")
    )
    found = WRK.read(text, "", 0, LOAD)
    assert (found.ok, found.requests_per_s, found.latency_us) == (0, 0, None)
    assert found.seconds == pytest.approx(3.1)


def test_a_pipelined_page_whose_percentiles_wrk_lost() -> None:
    """Wrk prints 0.00us where its count of samples is higher than their number."""
    load = Load("http://h/", connections=100, pipeline_depth=24)
    found = WRK.read(page().replace("99%    1.01s", "99%    0.00us"), "", 0, load)
    assert found.latency_us is not None and found.latency_us["p99"] is None
    assert found.remarks[0] == "wrk measures the latency of batches of 24 requests, not of each"


def test_the_line_of_our_script_comes_first() -> None:
    line = (
        'bolide-wrk: {"requests":300,"seconds":1.5,"bytes":3000,"errors":{"connect":0,"read":0,'
        '"write":0,"timeout":2,"wrong_status":10},"latency_us":{"p50":61,"p99_9":136,"mean":59.5,'
        '"max":310},"histogram":[[61,200],[310,100]]}\n'
    )
    load = Load("http://h/", connections=10, pipeline_depth=3)
    found = WRK.read(page() + line, "", 0, load)
    assert (found.ok, found.failed) == (284, 16)  # each late sample is a batch of three
    assert found.requests_per_s == pytest.approx(284 / 1.5)
    assert found.latency_us is not None
    assert (found.latency_us["p99_9"], found.latency_us["p99"]) == (136, None)
    assert found.histogram == [(61, 200), (310, 100)]
    assert found.bytes_per_s == 2000


@pytest.mark.parametrize(
    ("stdout", "stderr", "code", "said"),
    [
        ("", "unable to connect to 127.0.0.1:1 Connection refused\n", 1, "unable to connect"),
        ("Running 1s test\n", "", 0, "no result: Running 1s test"),
        ('bolide-wrk: {"requests":1}\n', "", 0, "wrk printed a result without 'latency_us'"),
    ],
)
def test_no_result(stdout: str, stderr: str, code: int, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        WRK.read(stdout, stderr, code, LOAD)


@pytest.mark.parametrize(
    ("text", "us"),
    [("59.00us", 59), ("0.85ms", 850), ("3.10s", 3.1e6), ("1.00m", 60e6), ("2h", 7.2e9)],
)
def test_times(text: str, us: float) -> None:
    assert time_us(text) == pytest.approx(us)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0.00B", 0), ("512.00B", 512), ("7.33MB", 7.33 * 2**20), ("1.2GB", 1.2 * 2**30)],
)
def test_sizes(text: str, size: float) -> None:
    assert size_bytes(text) == pytest.approx(size)


@pytest.mark.parametrize("text", ["", "12", "1.2.3s", "-1ms", "nan"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        time_us(text)
    with pytest.raises(ValueError, match="is not a size"):
        size_bytes(text)
