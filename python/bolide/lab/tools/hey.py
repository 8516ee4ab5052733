"""hey: keeps the first million samples, and its rate counts errors too."""

from __future__ import annotations

import math
import re

from bolide.lab.tools.load import OK, Load, Reading, latency
from bolide.lab.tools.tool import Tool, settle, wrong_size
from bolide.lab.tools.unit import duration, number

SAMPLES_MAX = 1_000_000


class Hey(Tool):
    """hey."""

    name = "hey"
    apt = ("hey",)

    def version(self) -> str | None:
        """Return "unknown" if hey is installed: it has no option for its version."""
        found = super().version()
        return found and "unknown"

    def command(self, load: Load) -> list[str]:
        """Return the command line.

        Raises:
            ToolError: the load is pipelined.
        """
        self.refuse(load, "pipelining", "HTTP/1.0")
        words = ["hey", "-c", str(load.connections), "-cpus", str(load.threads)]
        words += ["-t", str(math.ceil(load.timeout_s)), "-disable-redirects"]
        if load.requests_total is not None:
            words += ["-n", str(load.requests_total)]
        else:
            words += ["-z", duration(load.duration_s or 10)]
        if not load.is_persistent:
            words.append("-disable-keepalive")
        if load.rate_per_s is not None:
            words += ["-q", number(load.rate_per_s / load.connections)]
        return [*words, load.url]

    def read(self, stdout: str, stderr: str, exit_code: int, load: Load) -> Reading:
        """Read the page: the number of responses is the sum over the statuses."""
        total = re.search(r"^ +Total:\s+([\d.]+) secs", stdout, re.MULTILINE)
        if not total:
            raise self.unreadable(stdout, stderr, exit_code)
        seconds = float(total[1])
        rows = re.findall(r"^ +\[(\d+)\]\s+(\d+) responses", stdout, re.MULTILINE)
        statuses = {int(code): int(count) for code, count in rows}
        tail = stdout.partition("Error distribution:")[2]
        broken = sum(int(count) for count in re.findall(r"^ +\[(\d+)\]\s+\S", tail, re.MULTILINE))
        responses = sum(statuses.values())
        bad = responses - statuses.get(OK, 0)
        errors = {"wrong_status": bad, "broken": broken}
        remarks = []
        if responses + broken >= SAMPLES_MAX:
            remarks.append("hey keeps the first million samples: its percentiles miss the rest")
        size = re.search(r"Size/request:\s+(\d+) bytes", stdout)
        if size and (wrong := wrong_size(load, int(size[1]))):
            bad, errors["wrong_body"] = responses, responses
            remarks.append(wrong)
        data = re.search(r"Total data:\s+(\d+) bytes", stdout)
        return settle(
            responses,
            bad,
            seconds,
            errors=errors,
            lost=broken,
            latency_us=_latency(stdout),
            bytes_per_s=int(data[1]) / seconds if data and seconds else None,
            remarks=remarks,
        )


def _latency(stdout: str) -> dict[str, float | None] | None:
    ranks = dict(re.findall(r"^ +(\d+)%+ in ([\d.]+) secs", stdout, re.MULTILINE))
    named = dict(re.findall(r"^ +(Average|Slowest):\s+([\d.]+) secs", stdout, re.MULTILINE))
    found = {
        "mean": named.get("Average"),
        "p50": ranks.get("50"),
        "p90": ranks.get("90"),
        "p99": ranks.get("99"),
        "max": named.get("Slowest"),
    }
    return latency(**{name: float(text) * 1e6 for name, text in found.items() if text})
