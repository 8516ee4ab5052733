"""`bolide load`: checks every response, so its report is used as it is."""

from __future__ import annotations

import sys
from typing import Any

from bolide.lab.tools import fleet
from bolide.lab.tools.load import FIGURES, OK, Load, Reading
from bolide.lab.tools.tool import Tool, ToolError, _version
from bolide.lab.tools.unit import duration

OTHER_HANDSHAKES_SHARE_MAX = 0.01
"""Share of full handshakes among resumed ones, besides the first of each connection; and of resumed
ones among full ones."""
ARGUMENT_BYTES_MAX = 4096
"""Longest expected content in the command line."""


class Bolide(Tool):
    """Bolide's generator, started as a command like any other."""

    name = "bolide"
    can = ("TLS", "HTTP/2", "WebSocket", "a warm-up")

    def version(self) -> str | None:
        """Return the version of bolide in this interpreter's environment."""
        return _version(sys.executable, ("-P", "-m", "bolide", "--version"), self.version_pattern)

    def command(self, load: Load) -> list[str]:
        """Return the command line; it can generate every load."""
        words = [sys.executable, "-m", "bolide", "load", load.url, "--json", "--quiet"]
        words += ["-c", str(load.connections), *_of_generator(load)]
        words += ["--timeout", duration(load.timeout_s)]
        words += ["--depth" if load.messages else "--pipeline", str(load.pipeline_depth)]
        if load.requests_total is not None:
            words += ["-n", str(load.requests_total)]
        elif load.duration_s is not None:
            words += ["-d", duration(load.duration_s)]
        if load.http_version == "1.0":
            words.append("--http1.0")
        if not load.is_persistent:
            words.append("--no-keep-alive")
        words += _of_protocols(load)
        if load.rate_per_s is not None:
            words += ["--rate", str(max(1, round(load.rate_per_s)))]
        if load.finds:
            words += ["--find", load.finds]
        words += _of_study(load)
        if load.messages:
            return [*words, *_of_messages(load)]
        words += ["--expect-status", str(OK)]
        if load.expected_file:
            words += ["--expect-body", f"@{load.expected_file}"]
        elif load.expected_content is not None:
            words += ["--expect-body", load.expected_content.decode(errors="replace")]
        return words

    def read(self, stdout: str, stderr: str, exit_code: int, load: Load) -> Reading:
        """Read the report of `--json`."""
        try:
            report = self.parsed(stdout, stderr, exit_code)
        except ToolError as error:
            if load.fleet is not None:  # an agent has refused, or is not there any more
                raise fleet.InvalidLoadError(str(error), {}) from None
            raise
        try:
            latency_us, remarks = report["latency_us"], fleet.remarks(report)
            if load.finds:
                remarks += _of_search(report, load)
            else:
                fleet.refuse_invalid(report)
            errors = {name: count for name, count in report["errors"].items() if count}
            if load.tls and not load.is_persistent and (wrong := _of_handshakes(report, load)):
                raise ToolError(wrong)
            if early := report.get("warm_up_failed", 0):
                errors["warm_up"] = early
            return Reading(
                ok=report["ok"],
                failed=report["failed"] + early,
                errors=errors,
                requests_per_s=report["requests_per_s"],
                seconds=report["seconds"],
                latency_us=latency_us and {name: latency_us.get(name) for name in FIGURES},
                histogram=[(row[0], row[1]) for row in report["histogram"]] or None,
                bytes_per_s=report["bytes_per_s"],
                generator_cpu_s=report["generator_cpu_s"],
                generator_cpu_share=report["generator_cpu"],
                requests_sent=report.get("requests_sent"),
                run_bytes=report.get("run_bytes_received"),
                served=dict(report["connections_served"]),
                waiting_s=_waiting_s(report.get("unfinished_us", []), load),
                fleet=fleet.use_of(report),
                is_short_of_time=fleet.is_short_of_time(report),
                remarks=remarks,
            )
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ToolError(f"bolide load printed a report without {error}") from None


def fits_argument(content: bytes) -> bool:
    """Whether an expected content can be an argument; otherwise it has to be in a file."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    return len(content) <= ARGUMENT_BYTES_MAX and "\0" not in text and not text.startswith("@")


def _of_generator(load: Load) -> list[str]:
    """Return the flags that say where it runs, and with how many threads."""
    if load.fleet is None:
        return ["-t", str(min(load.threads, load.connections))]
    threads = load.fleet.threads_each(load.threads, load.connections)
    return ["-t", str(threads), *load.fleet.flags()]


def _of_protocols(load: Load) -> list[str]:
    """Return the flags of HTTP/2 and TLS."""
    words = ["--http2", "--streams", str(load.streams)] if load.http_version == "2" else []
    if load.certificate:
        words += ["--cacert", load.certificate]
    return [*words, "--no-resumption"] if load.tls == "full" else words


def _of_messages(load: Load) -> list[str]:
    """Return the flags of WebSocket."""
    words = ["--pattern", load.messages, *(["--compress"] if load.is_compressed else [])]
    if load.message_bytes is not None:
        return [*words, "--message-bytes", str(load.message_bytes)]
    if load.expected_file:
        return [*words, "--body-file", load.expected_file]
    return [*words, "--body", (load.expected_content or b"").decode(errors="replace")]


def _of_study(load: Load) -> list[str]:
    """Return the flags of what no other tool can do."""
    words = ["--sleepless"] if load.is_sleepless else []
    if load.warm_up_s:
        words += ["--warm-up", duration(load.warm_up_s)]
    for name, value in load.fields:
        words += ["--header", f"{name}: {value}"]
    return [*words, "--body-file", load.content_file] if load.content_file else words


def _of_handshakes(report: dict[str, Any], load: Load) -> str:
    """Return that handshakes were not of the kind that was asked for; "" if they were."""
    full, resumed = (report["tls"][f"handshakes_{kind}"] for kind in ("full", "resumed"))
    other = resumed if load.tls == "full" else full
    if other <= (full + resumed) * OTHER_HANDSHAKES_SHARE_MAX + load.connections:
        return ""
    return f"{full:,} handshakes were full and {resumed:,} resumed, not all {load.tls}"


def _waiting_s(ages_us: list[list[float]], load: Load) -> float | None:
    """Return for how long half of what the connections can have in flight had waited at the end."""
    count = 0.0
    for age_us, requests in sorted(ages_us, reverse=True):
        count += requests
        if count >= load.connections * load.pipeline_depth * load.streams / 2:
            return age_us / 1e6
    return None


def _of_search(report: dict[str, Any], load: Load) -> list[str]:
    """Return what limited a search.

    Raises:
        ToolError: no rate meets the condition, or trials of a fleet were not valid.
    """
    found = report["find"]
    fleet.refuse_invalid_search(report, load.finds)
    if found["rate_per_s"] is None:
        lowest = min((each["rate_per_s"] for each in found["trials"]), default=0)
        raise ToolError(f"no rate meets {load.finds}; the lowest tried is {lowest:,.0f}/s")
    limits = {
        "server": f"the server met {load.finds} up to this rate",
        "generator": f"the generator was the limit of {load.finds}: the server may do more",
        "connections": f"the connections were the limit of {load.finds}: all of them were busy",
        "none": f"no rate failed {load.finds}: the limit is not known",
    }
    sure = "" if found["is_confirmed"] else "; the search ended before it was confirmed"
    return [f"{limits[found['limit']]}{sure}"]
