"""What the tests of `bolide load` share: reports, a fake engine, and parsers of other tools' pages.

The parsers know nothing of Bolide: they read what ab, wrk and webbench print, as scripts do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from bolide.load.destination import Destination

LATENCY = {
    "min": 100.0,
    "mean": 1_500.0,
    "stdev": 700.0,
    "p50": 1_200.0,
    "p75": 2_000.0,
    "p90": 3_000.0,
    "p95": 4_000.0,
    "p99": 8_000.0,
    "p99_9": 12_000.0,
    "p99_99": 15_000.0,
    "max": 16_000.0,
}
HISTOGRAM = [
    [100.0, 1],
    [1_200.0, 9_999],
    [1_700.0, 3_200],
    [2_000.0, 1_800],
    [2_200.0, 1_000],
    [3_000.0, 2_000],
    [4_000.0, 1_000],
    [7_000.0, 600],
    [8_000.0, 200],
    [12_000.0, 180],
    [16_000.0, 20],
]
"""20,000 latencies that have the percentiles above."""

WHERE = Destination(
    address="127.0.0.1:8000",
    host="127.0.0.1:8000",
    name="127.0.0.1",
    port=8000,
    targets=(("/page?a=b", 1),),
    url="http://127.0.0.1:8000/page?a=b",
)


def report(**changes: Any) -> dict[str, Any]:
    """Make the report of 20,000 correct responses in 2 s; `errors` are added to no others."""
    errors = dict.fromkeys(ERRORS, 0) | changes.pop("errors", {})
    made: dict[str, Any] = {
        "requests_per_s": 10_000.0,
        "ok": 20_000,
        "failed": sum(errors.values()),
        "errors": errors,
        "unfinished": 0,
        "unfinished_us": [],
        "seconds": 2.0,
        "latency_us": LATENCY,
        "uncorrected_latency_us": None,
        "connect_latency_us": {name: value / 10 for name, value in LATENCY.items()},
        "histogram": HISTOGRAM,
        "statuses": {"200": 20_000},
        "bytes_received": 3_300_000,
        "run_bytes_received": 3_300_000,
        "content_bytes_received": 260_000,
        "head_bytes_received": 3_040_000,
        "bytes_per_s": 1_650_000.0,
        "requests_sent": 20_000,
        "offered_per_s": None,
        "achieved_share": None,
        "schedule_lag_us": None,
        "generator_cpu": 0.5,
        "generator_cpu_s": 1.0,
        "cpu_ns_per_request": 50_000.0,
        "connections_opened": 10,
        "connections_held": 10,
        "connections_max": 10,
        "connections_served": {
            "connections": 10,
            "starved": 0,
            "min": 1_900,
            "median": 2_000,
            "max": 2_100,
            "fairness": 0.999,
        },
        "tls": None,
        "websocket": None,
        "per_second": [
            {"second": 0, "ok": 9_000, "failed": 0, "p50_us": 1e3, "p99_us": 7e3, "max_us": 16e3},
            {"second": 1, "ok": 11_000, "failed": 0, "p50_us": 1e3, "p99_us": 9e3, "max_us": 12e3},
        ],
        "was_stopped": False,
        "server_software": "bolide",
        "first_status": 200,
        "first_content_bytes": 13,
        "checked": True,
    }
    return made | changes


ERRORS = (
    "connect",
    "refused",
    "tls",
    "timeout",
    "reset",
    "early_eof",
    "short",
    "long",
    "malformed",
    "wrong_status",
    "wrong_body",
    "unexpected_bytes",
    "late",
    "stream_reset",
    "goaway",
    "early_response",
    "handshake",
    "closed",
)


def progress(**changes: Any) -> dict[str, Any]:
    """Make what the engine says in the middle of a run of 10 s."""
    made: dict[str, Any] = {
        "phase": "measuring",
        "elapsed_s": 4.0,
        "share_done": 0.4,
        "ok": 40_000,
        "failed": 0,
        "errors": dict.fromkeys(ERRORS, 0),
        "connections_held": 100,
        "interval_s": 0.2,
        "interval_requests_per_s": 10_123.4,
        "interval_latency_us": {"p50": 812.0, "p99": 2_340.0, "max": 10_400.0},
    }
    return made | changes


class FakeLoad:
    """An engine that needs `waits` waits to end; `on_wait` is called in each of them."""

    def __init__(
        self, plan: dict[str, Any], made: dict[str, Any], waits: int = 3, on_wait: Any = None
    ) -> None:
        self.plan = plan
        self.calls: list[str] = []
        self._made = made
        self._waits = waits
        self._on_wait: Callable[[int], None] | None = on_wait

    def start(self) -> None:
        self.calls.append("start")

    def wait(self, timeout_s: float) -> bool:
        assert 0 < timeout_s <= 10
        self.calls.append("wait")
        if "stop" not in self.calls:
            self._waits -= 1
            if self._on_wait:
                self._on_wait(self._waits)
        return self._waits <= 0 or "stop" in self.calls

    def stop(self) -> None:
        self.calls.append("stop")

    def progress(self) -> str:
        self.calls.append("progress")
        return json.dumps(progress())

    def report(self) -> str:
        self.calls.append("report")
        return json.dumps(self._made)


def parse_ab(page: str) -> dict[str, Any]:
    """Read what ab prints: labels, the table of times, the percentages."""
    found: dict[str, Any] = {}
    for line in page.splitlines():
        if match := re.fullmatch(r"([A-Z][A-Za-z0-9 -]*):\s*(.*)", line):
            label, value = match[1], match[2]
            if label in ("Connect", "Processing", "Waiting", "Total"):
                found[label] = [float(word) for word in value.split()]
            else:
                found.setdefault(label, []).append(value)
        elif match := re.fullmatch(r"\s+(\d+)%\s+(\d+)(?: \(longest request\))?", line):
            found.setdefault("percent", {})[int(match[1])] = int(match[2])
        elif match := re.fullmatch(r"   \((Connect: .*)\)", line):
            found["failures"] = {
                name: int(count) for name, count in re.findall(r"(\w+): (\d+)", match[1])
            }
        elif match := re.fullmatch(r" {24}(\S+) kb/s (sent|total)", line):
            found[match[2]] = float(match[1])
    return found


WRK_LINES = {
    "running": r"Running (?P<time>\d+[sm]) test @ (?P<url>\S+)",
    "threads": r"  (?P<threads>\d+) threads and (?P<connections>\d+) connections",
    "head": r"  Thread Stats   Avg      Stdev     Max   \+/- Stdev",
    "latency": r"    Latency {1,6}(?P<mean>\S+) +(?P<stdev>\S+) +(?P<max>\S+) +(?P<within>\S+)%",
    "rate": r"    Req/Sec {1,6}(?P<mean>\S+) +(?P<stdev>\S+) +(?P<max>\S+) +(?P<within>\S+)%",
    "distribution": r"  Latency Distribution",
    "percent": r" {5}(?P<percent>\d\d)% +(?P<latency>\S+)",
    "total": r"  (?P<requests>\d+) requests in (?P<time>\S+), (?P<size>\S+) read",
    "errors": r"  Socket errors: connect (?P<connect>\d+), read (?P<read>\d+), write (?P<write>\d+)"
    r", timeout (?P<timeout>\d+)",
    "statuses": r"  Non-2xx or 3xx responses: (?P<count>\d+)",
    "requests_per_s": r"Requests/sec: *(?P<rate>[0-9.]+)",
    "transfer": r"Transfer/sec: *(?P<size>\S+)",
}


def parse_wrk(page: str) -> dict[str, Any]:
    """Read what wrk prints; a line that it does not print is an error."""
    found: dict[str, Any] = {"order": []}
    for line in page.splitlines():
        names = [name for name, form in WRK_LINES.items() if re.fullmatch(form, line)]
        assert len(names) == 1, repr(line)
        match = re.fullmatch(WRK_LINES[names[0]], line)
        assert match is not None
        if names[0] == "percent":
            found.setdefault("percent", {})[int(match["percent"])] = match["latency"]
        else:
            found[names[0]] = match.groupdict()
        found["order"].append(names[0])
    return found


def parse_webbench(page: str) -> dict[str, int]:
    """Read the two lines that scripts look for in what webbench prints."""
    speed = re.search(r"^Speed=(\d+) pages/min, (\d+) bytes/sec\.$", page, re.MULTILINE)
    counts = re.search(r"^Requests: (\d+) susceed, (\d+) failed\.$", page, re.MULTILINE)
    assert speed and counts, page
    names = ("pages_per_min", "bytes_per_s", "ok", "failed")
    return dict(zip(names, map(int, (*speed.groups(), *counts.groups())), strict=True))


def columns(page: str) -> Iterator[list[int]]:
    """Yield where the figures of each line of a wrk page end, units left out."""
    for line in page.splitlines():
        if line.startswith(("    Latency", "    Req/Sec")):
            yield [match.end(1) for match in re.finditer(r"(\d[\d.]*)", line)]
