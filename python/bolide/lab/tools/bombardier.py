"""bombardier: JSON, statuses by class (2xx, 3xx...), latency in microseconds."""

from __future__ import annotations

from typing import Any

from bolide.lab.tools.load import Load, Reading, latency
from bolide.lab.tools.tool import BAD_SHARE_MAX, Tool, ToolError, settle, wrong_bytes
from bolide.lab.tools.unit import duration


class Bombardier(Tool):
    """bombardier."""

    name = "bombardier"
    how = ("go install github.com/codesenberg/bombardier@latest",)

    def command(self, load: Load) -> list[str]:
        """Return the command line.

        Raises:
            ToolError: the load is pipelined.
        """
        self.refuse(load, "pipelining", "HTTP/1.0")
        words = ["bombardier", "-c", str(load.connections), "-t", duration(load.timeout_s)]
        words += ["--latencies", "--print", "result", "--format", "json"]
        if load.requests_total is not None:
            words += ["-n", str(load.requests_total)]
        else:
            words += ["-d", duration(load.duration_s or 10)]
        if not load.is_persistent:
            words.append("--disableKeepAlives")
        if load.rate_per_s is not None:
            words += ["-r", str(max(1, round(load.rate_per_s)))]
        return [*words, load.url]

    def read(self, stdout: str, stderr: str, exit_code: int, load: Load) -> Reading:
        """Read the JSON."""
        report = self.parsed(stdout, stderr, exit_code)
        try:
            return _reading(report["result"], load)
        except (KeyError, TypeError, AttributeError) as error:
            raise ToolError(f"bombardier printed JSON without {error}") from None


def _reading(result: dict[str, Any], load: Load) -> Reading:
    statuses = [result[f"req{hundred}xx"] for hundred in (1, 2, 3, 4, 5)]
    responses = sum(statuses)
    bad = responses - statuses[1]
    broken = {each["description"]: each["count"] for each in result.get("errors") or []}
    seconds = result["timeTakenSeconds"]
    figures = result["latency"]
    ranks = figures.get("percentiles") or {}
    errors = {"wrong_status": bad, **broken}
    remarks = ["bombardier reports statuses by class (2xx, 3xx...) only"]
    if bad <= BAD_SHARE_MAX * responses and (
        wrong := wrong_bytes(load, result["bytesRead"], responses, lost=result["others"])
    ):
        bad = errors["wrong_body"] = responses
        remarks.append(wrong)
    return settle(
        responses,
        bad,
        seconds,
        errors=errors,
        lost=result["others"],
        latency_us=latency(
            mean=figures["mean"],
            p50=ranks.get("50"),
            p90=ranks.get("90"),
            p99=ranks.get("99"),
            max=figures["max"],
        ),
        bytes_per_s=result["bytesRead"] / seconds if seconds else None,
        remarks=remarks,
    )
