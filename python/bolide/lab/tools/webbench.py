"""webbench 1.5: a connection per request, no status, no latency; its speed includes failures."""

from __future__ import annotations

import math
import re

from bolide.lab.tools.load import Load, Reading
from bolide.lab.tools.tool import Tool, settle, wrong_bytes

BYTES_MAX = 2**31
"""Its counter of bytes is a signed 32-bit integer."""


class Webbench(Tool):
    """webbench and its forks, which spell the output differently."""

    name = "webbench"
    is_http10 = True
    missing = 'no package has it; bolide load --like "webbench ..." generates its load'
    version_pattern = r"(\d+\.\d+)"

    def command(self, load: Load) -> list[str]:
        """Return the command line: HTTP/1.0, which is the tool's default.

        Raises:
            ToolError: webbench only opens a connection per request, for a time.
        """
        self.refuse(load, "pipelining", "a rate", "a number of requests", "persistent connections")
        seconds = str(math.ceil(load.duration_s or 10))
        return ["webbench", "-c", str(load.connections), "-t", seconds, load.url]

    def read(self, stdout: str, stderr: str, exit_code: int, load: Load) -> Reading:
        """Read the two lines. The exit code is the last child's page count, not a status."""
        speed = re.search(r"Speed ?= ?(\d+) pages/min, (-?\d+) bytes/sec", stdout)
        counts = re.search(r"Requests: (\d+) su\w+, (\d+) failed", stdout)
        ran = re.search(r"running (\d+) sec", stdout)
        if not (speed and counts):
            raise self.unreadable(stdout, stderr, exit_code)
        seconds = float(ran[1]) if ran else float(load.duration_s or 10)
        succeeded, failed, per_s = int(counts[1]), int(counts[2]), int(speed[2])
        remarks = ["webbench checks neither status nor content: error pages count as success"]
        if failed:
            remarks.append("webbench's speed includes failures; they are not in this rate")
        if re.search(r"childrens? died", stdout + stderr):
            remarks.append("some of webbench's processes died: the sums are too low")
        is_wrapped = per_s < 0 or _wrapped(load, succeeded, per_s * seconds)
        if is_wrapped:
            remarks.append("webbench's byte counter wrapped at 2 GiB")
        bad, errors = 0, {"failed": failed}
        received, cut = per_s * seconds, load.connections  # at the end, each client counts its last
        wrong = wrong_bytes(load, received, succeeded, lost=failed, cut=cut)
        if wrong is not None and not is_wrapped:
            bad = errors["wrong_body"] = succeeded
            remarks.append(wrong)
        return settle(
            succeeded,
            bad,
            seconds,
            errors=errors,
            lost=failed,
            bytes_per_s=None if is_wrapped else per_s,
            remarks=remarks,
        )


def _wrapped(load: Load, pages: int, read_bytes: float) -> bool:
    """Whether fewer bytes were counted than the contents alone have."""
    least = pages * len(load.expected_content or b"")
    return least > read_bytes and least > BYTES_MAX // 2
