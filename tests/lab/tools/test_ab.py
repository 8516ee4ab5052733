"""ab's page: where failures hide, and what a run that was broken off looks like."""

from __future__ import annotations

import pytest

from bolide.lab.tools import Load, ToolError, find

AB = find("ab")
LOAD = Load("http://127.0.0.1:1/", connections=2000, is_persistent=False)

HEAD = "This is ApacheBench, Version 2.3 <$Revision$>\n\nBenchmarking h (be patient)...done\n\n"


def page(
    *more: str,
    length: str = "13 bytes",
    complete: int = 10000,
    failed: int = 0,
    rate: str = "14484.78",
) -> str:
    """Write a page of ab, with the lines that only some runs have."""
    return HEAD + "\n".join(
        [
            "Server Software:        ",
            "Document Path:          /callivecn",
            f"Document Length:        {length}",
            "",
            "Concurrency Level:      2000",
            "Time taken for tests:   0.690 seconds",
            f"Complete requests:      {complete}",
            f"Failed requests:        {failed}",
            *more,
            "Total transferred:      1040000 bytes",
            "HTML transferred:       210000 bytes",
            f"Requests per second:    {rate} [#/sec] (mean)",
            "Time per request:       138.076 [ms] (mean)",
            "Time per request:       0.069 [ms] (mean, across all concurrent requests)",
            "Transfer rate:          1471.11 [Kbytes/sec] received",
            "",
            "Connection Times (ms)",
            "              min  mean[+/-sd] median   max",
            "Total:          4    7   5.4      6      64",
            "",
            "Percentage of the requests served within a certain time (ms)",
            "  50%      6",
            "  90%      7",
            "  99%     57",
            " 100%     64 (longest request)",
        ]
    )


def test_right_responses() -> None:
    found = AB.read(page(), "", 0, LOAD)
    assert (found.ok, found.failed, found.errors) == (10000, 0, {})
    assert found.requests_per_s == pytest.approx(14484.78)
    assert found.seconds == pytest.approx(0.69038, abs=1e-5)  # more digits than the page's 0.690
    assert found.latency_us == {
        "mean": 7000,
        "p50": 6000,
        "p90": 7000,
        "p99": 57000,
        "p99_9": None,
        "max": 64000,
    }
    assert found.histogram is None  # four percentiles are none
    assert found.remarks == ["ab's latency includes the connect"]


def test_a_page_of_errors_is_no_throughput() -> None:
    """The uWSGI figure of the document `python-common`: 14,484 requests/s, all of them 404."""
    found = AB.read(page("Non-2xx responses:      10000"), "", 0, LOAD)
    assert (found.ok, found.failed, found.requests_per_s) == (0, 10000, 0)
    assert found.errors == {"wrong_status": 10000}
    assert found.latency_us is None
    assert "10,000 of 10,000 responses were wrong or late: this is not throughput" in found.remarks


def test_failures_of_length_and_status_may_overlap() -> None:
    """The nginx figure of the same document: not one response is known to be right."""
    lines = (
        "   (Connect: 0, Receive: 0, Length: 9008, Exceptions: 992)\nNon-2xx responses:      9008"
    )
    found = AB.read(page(lines, failed=10000, length="0 bytes"), "", 0, LOAD)
    assert found.ok == 0
    assert found.errors == {"length": 9008, "exception": 992, "wrong_status": 9008}
    assert any("(Length)" in remark for remark in found.remarks)


def test_some_failures_are_taken_off() -> None:
    lines = "   (Connect: 0, Receive: 3, Length: 4, Exceptions: 0)"
    found = AB.read(page(lines, failed=7, rate="1000.00"), "", 0, LOAD)
    assert (found.ok, found.failed) == (9993, 7)
    assert found.requests_per_s == pytest.approx(999.3)
    assert found.errors == {"reset": 3, "length": 4}


def test_the_first_response_is_no_template_if_it_is_wrong() -> None:
    load = Load("http://127.0.0.1:1/", is_persistent=False, expected_content=b"Hello, World!")
    found = AB.read(page(length="21 bytes"), "", 0, load)
    assert (found.ok, found.errors) == (0, {"wrong_body": 10000})
    assert "21 bytes of content instead of 13" in found.remarks[1]
    assert AB.read(page(length="13 bytes"), "", 0, load).ok == 10000
    assert AB.read(page(length="Variable"), "", 0, load).ok == 10000


def test_keep_alive_that_was_none() -> None:
    load = Load("http://127.0.0.1:1/")
    found = AB.read(page("Keep-Alive requests:    0"), "", 0, load)
    assert "ab -k kept the connection after only 0 of 10,000 requests" in found.remarks
    assert AB.read(page("Keep-Alive requests:    10000"), "", 0, load).remarks == []


def test_precise_percentiles_become_a_histogram() -> None:
    rows = "".join(f"{percent},{percent / 100:.3f}\n" for percent in range(101))
    text = page().replace("(be patient)...", "(be patient)...Percentage served,Time in ms\n" + rows)
    found = AB.read(text, "", 0, LOAD)
    assert found.latency_us is not None and found.histogram is not None
    assert (found.latency_us["p50"], found.latency_us["max"]) == (500, 1000)
    assert found.histogram[:2] == [(10, 100), (20, 100)]
    assert sum(count for _, count in found.histogram) == 10000


@pytest.mark.parametrize(
    ("percentiles", "mean_us"),
    [
        (0, 7000),
        (101, 7250),  # of the percentiles, 7.0 to 7.5 ms
        (100, 7000),  # the last is missing
    ],
)
def test_the_mean_is_that_of_the_row_total(percentiles: int, mean_us: float) -> None:
    """Never "Time per request": that is connections times time by requests."""
    rows = "".join(f"{percent},{7 + percent / 200:.3f}\n" for percent in range(percentiles))
    found = AB.read(page() + "\n" + rows, "", 0, LOAD)
    assert found.latency_us is not None
    assert found.latency_us["mean"] == pytest.approx(mean_us)


@pytest.mark.parametrize(("ms", "mean_us"), [(1.0, 6500), (90.0, 7500)])
def test_the_mean_of_percentiles_stays_within_that_of_the_row(ms: float, mean_us: float) -> None:
    """A few responses that were very late are half of the last percentile's width."""
    rows = "".join(f"{percent},{ms:.3f}\n" for percent in range(101))
    found = AB.read(page() + "\n" + rows, "", 0, LOAD)
    assert found.latency_us is not None
    assert found.latency_us["mean"] == pytest.approx(mean_us)


@pytest.mark.parametrize(
    ("stdout", "stderr", "said"),
    [
        (
            HEAD,
            "apr_socket_recv: Connection reset by peer (104)\nTotal of 812 requests completed\n",
            "ab stopped after 812 requests: apr_socket_recv: Connection reset by peer (104)",
        ),
        (
            HEAD,
            "apr_pollset_poll: The timeout specified has expired (70007)\n",
            "ab stopped after 0 requests: apr_pollset_poll: The timeout specified",
        ),
        (
            HEAD + "\nTest aborted after 10 failures\n\n",
            "apr_socket_connect(): Connection refused (111)\n",
            "ab stopped after 0 requests: Test aborted after 10 failures",
        ),
        ("", "ab: wrong number of arguments\n", "ab exited with 22 and no result: ab: wrong"),
        ("", "", "ab exited with 22 and no result: nothing"),
    ],
)
def test_a_run_that_was_broken_off(stdout: str, stderr: str, said: str) -> None:
    with pytest.raises(ToolError) as raised:
        AB.read(stdout, stderr, 22, LOAD)
    assert str(raised.value).startswith(said)


def test_a_page_without_a_figure() -> None:
    text = page().replace("Failed requests:        0", "")
    with pytest.raises(ToolError, match="ab printed no number for 'Failed requests'"):
        AB.read(text, "", 0, LOAD)
