"""ApacheBench 2.3: HTTP/1.0, one thread, and a report that counts error pages as requests."""

from __future__ import annotations

import math
import re

from bolide.lab.tools.load import Load, Reading, latency
from bolide.lab.tools.tool import BAD_SHARE_MAX, Tool, ToolError, settle, wrong_bytes

REQUESTS_PER_S_MAX = 400_000
"""More than ab reaches; a run limited by time allocates memory for that many requests."""

_CLASSES = {"Connect": "connect", "Receive": "reset", "Length": "length", "Exceptions": "exception"}


class Ab(Tool):
    """ab of the Apache HTTP server."""

    name = "ab"
    is_http10 = True
    apt = ("apache2-utils",)
    version_arguments = ("-V",)
    version_pattern = r"Version (\S+)"

    def command(self, load: Load) -> list[str]:
        """Return the command line.

        `-r` continues after a receive error. `-e` writes percentiles in microseconds, because the
        page has whole milliseconds; ab opens that file itself, so a file as standard output must
        be opened for appending.

        Raises:
            ToolError: the load is pipelined, has a rate, or needs more than one thread.
        """
        self.refuse(load, "pipelining", "a rate", "more than one thread")
        words = ["ab", "-r", "-q", "-s", str(math.ceil(load.timeout_s)), "-e", "/dev/stdout"]
        if load.is_persistent:
            words.append("-k")
        if load.requests_total is not None:
            words += ["-n", str(load.requests_total)]
        else:
            seconds = math.ceil(load.duration_s or 10)
            words += ["-t", str(seconds), "-n", str(seconds * REQUESTS_PER_S_MAX)]  # -n after -t
        return [*words, "-c", str(load.connections), load.url]

    def read(self, stdout: str, stderr: str, exit_code: int, load: Load) -> Reading:
        """Read the page, and the percentiles of `-e` among its lines."""
        page = _Page(stdout)
        if not page.has("Complete requests"):
            raise self._aborted(stdout, stderr, exit_code)
        complete, seconds = int(page.number("Complete requests")), page.seconds()
        errors = {_CLASSES[name]: count for name, count in page.failures().items()}
        errors["wrong_status"] = int(page.number("Non-2xx responses", 0))
        errors["write"] = int(page.number("Write errors", 0))
        bad = int(page.number("Failed requests")) + errors["wrong_status"] + errors["write"]
        remarks = page.remarks(load)
        if wrong := page.wrong_document(load):
            bad = complete
            errors["wrong_body"] = complete
            remarks.append(wrong)
        elif bad <= BAD_SHARE_MAX * complete and (
            wrong := wrong_bytes(load, page.number("Total transferred"), complete, cut=bad)
        ):
            bad = errors["wrong_body"] = complete
            remarks.append(wrong)
        rows = page.percentiles()
        return settle(
            complete,
            bad,
            seconds,
            errors=errors,
            latency_us=latency(
                mean=_us(page.mean()),
                p50=_us(rows.get(50)),
                p90=_us(rows.get(90)),
                p99=_us(rows.get(99)),
                max=_us(rows.get(100)),
            ),
            histogram=_histogram(page.precise(), complete),
            bytes_per_s=page.number("Total transferred") / seconds if seconds else None,
            remarks=remarks,
        )

    def _aborted(self, stdout: str, stderr: str, exit_code: int) -> ToolError:
        """Return why a run has no result: ab stops at the 11th failed connect, or at a timeout."""
        done = re.search(r"Total of (\d+) requests completed", stdout + stderr)
        cause = re.search(r"^(apr_\w+: .*|.*[Tt]est aborted.*)$", stderr + stdout, re.MULTILINE)
        if not (done or cause):
            return self.unreadable(stdout, stderr, exit_code)
        why = cause[0].strip() if cause else "it printed no cause"
        return ToolError(f"ab stopped after {done[1] if done else 0} requests: {why}")


class _Page:
    """The lines of the page by label; unknown lines are ignored."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: dict[str, str] = {}
        for found in re.finditer(r"^([A-Z][\w /-]*):[ \t]+(\S.*)$", text, re.MULTILINE):
            self.lines.setdefault(found[1], found[2])

    def has(self, label: str) -> bool:
        return label in self.lines

    def number(self, label: str, default: float | None = None) -> float:
        found = re.match(r"[\d.]+", self.lines.get(label, ""))
        if found:
            return float(found[0])
        if default is None:
            raise ToolError(f"ab printed no number for {label!r}")
        return default

    def seconds(self) -> float:
        """Return the duration of the run, computed from the rate, which has more digits."""
        rate = self.number("Requests per second", 0)
        return (
            self.number("Complete requests") / rate if rate else self.number("Time taken for tests")
        )

    def failures(self) -> dict[str, int]:
        found = re.search(r"^ +\((Connect: .*)\)$", self.text, re.MULTILINE)
        pairs = re.findall(r"(\w+): (\d+)", found[1]) if found else []
        return {name: int(count) for name, count in pairs if name in _CLASSES}

    def wrong_document(self, load: Load) -> str | None:
        """Report that the first response, to which ab compares all others, was unexpected."""
        length = re.match(r"(\d+) bytes", self.lines.get("Document Length", ""))
        if load.expected_content is None or not length:
            return None
        expected = len(load.expected_content)
        if int(length[1]) == expected:
            return None
        return (
            f"the first response had {int(length[1]):,} bytes of content instead of {expected:,}:"
            " ab compares all others to it"
        )

    def remarks(self, load: Load) -> list[str]:
        remarks = []
        if self.failures().get("Length"):
            remarks.append(
                "ab counts a response as failed (Length) if it is not as long as the first"
            )
        kept, complete = self.number("Keep-Alive requests", 0), self.number("Complete requests")
        if load.is_persistent and kept < complete:
            remarks.append(
                f"ab -k kept the connection after only {kept:,.0f} of {complete:,.0f} requests"
            )
        if not load.is_persistent:
            remarks.append("ab's latency includes the connect")
        return remarks

    def mean(self) -> float | None:
        """Return the mean latency of the row Total, in ms, with a fraction from the percentiles.

        "Time per request" is connections times seconds divided by requests, which is not a latency.
        """
        found = re.search(r"^Total: +\d+ +(\d+)", self.text, re.MULTILINE)
        if not found:
            return None
        whole, rows = int(found[1]), self.precise()
        if not set(range(101)) <= rows.keys():
            return whole
        between = sum(rows[upper - 1] + rows[upper] for upper in range(1, 101)) / 200
        return min(max(between, whole - 0.5), whole + 0.5)

    def precise(self) -> dict[int, float]:
        """Return the rows of `-e`: milliseconds with three decimals, by percent from 0 to 100."""
        rows = re.findall(r"^(\d{1,3}),(\d+\.\d+)$", self.text, re.MULTILINE)
        return {int(percent): float(ms) for percent, ms in rows}

    def percentiles(self) -> dict[int, float]:
        rows = re.findall(r"^ {1,2}(\d{2,3})% +(\d+)", self.text, re.MULTILINE)
        return {int(percent): float(ms) for percent, ms in rows} | self.precise()


def _us(ms: float | None) -> float | None:
    return None if ms is None else ms * 1000


def _histogram(rows: dict[int, float], complete: int) -> list[tuple[float, int]] | None:
    """Turn percentiles into rows of one hundredth of the requests each."""
    if not set(range(1, 101)) <= rows.keys():
        return None
    made: dict[float, int] = {}
    before = 0
    for percent in range(1, 101):
        reached = complete * percent // 100
        upper = rows[percent] * 1000
        made[upper] = made.get(upper, 0) + reached - before
        before = reached
    return [row for row in sorted(made.items()) if row[1]]
