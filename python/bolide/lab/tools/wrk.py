"""wrk 4: counts error pages as requests, and late responses as requests without a latency.

`wrk.lua` sends batches of pipelined requests and prints the results as one line of JSON. Output
without that line, from runs without the script, is read too.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bolide.lab.tools.load import Load, Reading, latency
from bolide.lab.tools.tool import BAD_SHARE_MAX, Tool, ToolError, settle, wrong_bytes
from bolide.lab.tools.unit import size_bytes, time_us

SCRIPT = Path(__file__).with_name("wrk.lua")
_MARK = "bolide-wrk: "
_TIME = r"(\d+(?:\.\d+)?(?:us|ms|s|m|h))"


class Wrk(Tool):
    """wrk."""

    name = "wrk"
    apt = ("wrk",)
    can = ("TLS",)
    has_late_clock = True
    """Its clock starts when all threads exist; with few processors, some run before that."""
    version_arguments = ("-v",)
    version_pattern = r"wrk (?:debian/)?(\d\S*)"

    def command(self, load: Load) -> list[str]:
        """Return the command line.

        Raises:
            ToolError: the load has a rate, a number of requests or a TLS handshake for each, or is
                HTTP/1.0.
        """
        self.refuse(load, "a rate", "a number of requests", "HTTP/1.0", "handshakes")
        threads = min(load.threads, load.connections)
        words = [
            "wrk",
            f"-t{threads}",
            f"-c{load.connections}",
            f"-d{max(1, round(load.duration_s or 10))}s",
        ]
        words += ["--latency", f"--timeout={max(1, round(load.timeout_s))}s", "-s", str(SCRIPT)]
        if not load.is_persistent:
            words += ["-H", "Connection: close"]
        return [*words, load.url, "--", str(load.pipeline_depth)]

    def read(self, stdout: str, stderr: str, exit_code: int, load: Load) -> Reading:
        """Read the line of our script, or the page."""
        try:
            run = _from_script(stdout) or _from_page(stdout)
        except (ValueError, KeyError, TypeError) as error:
            raise ToolError(f"wrk printed a result without {error}") from None
        if run is None:
            raise self.unreadable(stdout, stderr, exit_code)
        errors = run["errors"]
        late = errors["timeout"] * load.pipeline_depth
        lost = errors["connect"] + errors["read"] + errors["write"]
        bad, remarks = errors["wrong_status"] + late, _remarks(run, load)
        if errors["wrong_status"] <= BAD_SHARE_MAX * run["requests"] and (
            wrong := wrong_bytes(load, run["bytes"], run["requests"], lost=lost)
        ):
            bad = errors["wrong_body"] = run["requests"]
            remarks.append(wrong)
        return settle(
            run["requests"],
            bad,
            run["seconds"],
            errors=errors,
            lost=lost,
            latency_us=run["latency_us"],
            histogram=run["histogram"],
            bytes_per_s=run["bytes"] / run["seconds"] if run["seconds"] else None,
            remarks=remarks,
        )


def _remarks(run: dict[str, Any], load: Load) -> list[str]:
    errors, remarks = run["errors"], []
    if errors["connect"]:
        remarks.append(
            f"{errors['connect']:,} connections could not be opened; wrk does not retry,"
            f" so it measured with {max(0, load.connections - errors['connect']):,}"
        )
    if errors["timeout"]:
        remarks.append(
            f"{errors['timeout']:,} responses arrived after {load.timeout_s:g} s: wrk counts them"
            " as requests but leaves them out of the latency, which ends there"
        )
    if load.pipeline_depth > 1:
        remarks.append(
            f"wrk measures the latency of batches of {load.pipeline_depth} requests, not of each"
        )
    return remarks


def _from_script(stdout: str) -> dict[str, Any] | None:
    found = re.search(rf"^{_MARK}(\{{.*\}})$", stdout, re.MULTILINE)
    if not found:
        return None
    run = json.loads(found[1])
    figures = run["latency_us"]
    return {
        **run,
        "latency_us": latency(**figures) if run["histogram"] else None,
        "histogram": [(row[0], row[1]) for row in run["histogram"]] or None,
    }


def _from_page(stdout: str) -> dict[str, Any] | None:
    total = re.search(rf"^ +(\d+) requests in {_TIME}, (\S+B) read$", stdout, re.MULTILINE)
    if not total:
        return None
    socket = re.search(
        r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", stdout
    )
    kinds = ("connect", "read", "write", "timeout")
    errors = dict(zip(kinds, map(int, socket.groups()) if socket else (0,) * 4, strict=True))
    status = re.search(r"Non-2xx or 3xx responses: (\d+)", stdout)
    requests, rate = int(total[1]), re.search(r"^Requests/sec: +([\d.]+)", stdout, re.MULTILINE)
    speed = float(rate[1]) if rate else 0.0
    ranks = dict(re.findall(rf"^ +(\d+)% +{_TIME}$", stdout, re.MULTILINE))
    row = re.search(rf"^ +Latency +{_TIME} +{_TIME} +{_TIME}", stdout, re.MULTILINE)
    # In pipelined runs, wrk prints 0.00us for what it does not know: unknown, not zero.
    figures = {
        f"p{rank}": time_us(ranks[rank])
        for rank in ("50", "90", "99")
        if time_us(ranks.get(rank, "0us"))
    }
    if row:
        figures |= {"mean": time_us(row[1]), "max": time_us(row[3])}
    return {
        "requests": requests,
        "seconds": requests / speed if speed else time_us(total[2]) / 1e6,
        "bytes": size_bytes(total[3]),
        "errors": {**errors, "wrong_status": int(status[1]) if status else 0},
        "latency_us": latency(**figures) if requests else None,
        "histogram": None,
    }
