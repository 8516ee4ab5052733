"""oha: JSON whose success rate excludes requests that were aborted at the end."""

from __future__ import annotations

from typing import Any

from bolide.lab.tools.load import OK, Load, Reading, latency
from bolide.lab.tools.tool import Tool, ToolError, settle, wrong_size
from bolide.lab.tools.unit import duration, number

_CUT_OFF = "aborted due to deadline"


class Oha(Tool):
    """oha."""

    name = "oha"
    how = ("cargo install --locked oha",)

    def command(self, load: Load) -> list[str]:
        """Return the command line.

        Raises:
            ToolError: the load is pipelined.
        """
        self.refuse(load, "pipelining")
        words = ["oha", "--no-tui", "--output-format", "json", "-c", str(load.connections)]
        words += ["-t", duration(load.timeout_s), "--redirect", "0"]
        if load.requests_total is not None:
            words += ["-n", str(load.requests_total)]
        else:
            words += ["-z", duration(load.duration_s or 10)]
        if load.http_version == "1.0":
            words += ["--http-version", "1.0"]
        if not load.is_persistent:
            words.append("--disable-keepalive")
        if load.rate_per_s is not None:
            words += ["-q", number(load.rate_per_s), "--latency-correction"]
        return [*words, load.url]

    def read(self, stdout: str, stderr: str, exit_code: int, load: Load) -> Reading:
        """Read the JSON; requests that were in flight at the end neither succeed nor fail."""
        report = self.parsed(stdout, stderr, exit_code)
        try:
            return _reading(report, load)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ToolError(f"oha printed JSON without {error}") from None


def _reading(report: dict[str, Any], load: Load) -> Reading:
    summary, ranks = report["summary"], report["latencyPercentiles"]
    statuses = {int(code): count for code, count in report["statusCodeDistribution"].items()}
    broken = {k: v for k, v in report["errorDistribution"].items() if k != _CUT_OFF}
    responses = sum(statuses.values())
    bad = responses - statuses.get(OK, 0)
    errors = {"wrong_status": bad, **broken}
    remarks = []
    if wrong := wrong_size(load, summary.get("sizePerRequest")):
        bad, errors["wrong_body"] = responses, responses
        remarks.append(wrong)
    return settle(
        responses,
        bad,
        summary["total"],
        errors=errors,
        lost=sum(broken.values()),
        latency_us=latency(
            mean=_us(summary["average"]),
            p50=_us(ranks["p50"]),
            p90=_us(ranks["p90"]),
            p99=_us(ranks["p99"]),
            p99_9=_us(ranks.get("p99.9")),
            max=_us(summary["slowest"]),
        ),
        bytes_per_s=summary.get("sizePerSec"),
        remarks=remarks,
    )


def _us(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6
