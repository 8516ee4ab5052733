"""h2load: 2xx and 3xx both succeed, and there are no percentiles."""

from __future__ import annotations

import math
import re

from bolide.lab.tools.load import Load, Reading, latency
from bolide.lab.tools.tool import Tool, ToolError, settle, wrong_size
from bolide.lab.tools.unit import number, time_us

INTERRUPTED = 3
"""How often all outstanding responses may be counted in part only: its data includes some from
before and after the time of which it reports responses."""

WARM_UP_RATE = 2.0
"""How much faster than afterwards a server may be in the warm-up, whose data is counted too."""


class H2load(Tool):
    """h2load of nghttp2."""

    name = "h2load"
    apt = ("nghttp2-client",)
    can = ("TLS", "HTTP/2", "a warm-up")

    def command(self, load: Load) -> list[str]:
        """Return the command line.

        Raises:
            ToolError: the load has a connection per request.
        """
        self.refuse(load, "one request per connection", "HTTP/1.0")
        threads = min(load.threads, load.connections)
        is_http2 = load.http_version == "2"
        at_once = load.streams if is_http2 else load.pipeline_depth
        words = ["h2load", *([] if is_http2 else ["--h1"])]
        words += ["-c", str(load.connections), "-t", str(threads), "-m", str(at_once)]
        words += ["-N", f"{max(1, math.ceil(load.timeout_s))}s"]
        if load.requests_total is not None:
            words += ["-n", str(load.requests_total)]
        else:
            words += ["-D", str(_duration_s(load))]
            words += ["--warm-up-time", f"{load.warm_up_s * 1e3:.0f}ms"] if load.warm_up_s else []
        if load.rate_per_s is not None:
            words += ["--rps", number(load.rate_per_s / load.connections)]
        return [*words, load.url]

    def read(self, stdout: str, stderr: str, exit_code: int, load: Load) -> Reading:
        """Read the page; statuses are known by class only."""
        finished = re.search(r"^finished in (\S+), \S+ req/s", stdout, re.MULTILINE)
        counts = re.search(
            r"^requests: .*?(\d+) done, .*?(\d+) errored, (\d+) timeout", stdout, re.MULTILINE
        )
        codes = re.search(
            r"^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", stdout, re.MULTILINE
        )
        if not (finished and counts and codes):
            raise self.unreadable(stdout, stderr, exit_code)
        # It divides by this too: what it prints as "finished in" includes the warm-up.
        seconds = time_us(finished[1]) / 1e6 if load.requests_total else float(_duration_s(load))
        statuses = [int(count) for count in codes.groups()]
        responses = sum(statuses)
        bad = responses - statuses[0]
        protocol = re.search(r"^Application protocol: (\S+)", stdout, re.MULTILINE)
        if load.tls and (protocol is None or protocol[1] != _protocol(load)):
            other = protocol[1] if protocol else "none"
            raise ToolError(f"h2load used the protocol {other}, not {_protocol(load)}")
        errors = {"wrong_status": bad, "broken": int(counts[2]), "timeout": int(counts[3])}
        remarks = ["h2load reports statuses by class (2xx, 3xx...) only"]
        traffic = re.search(
            r"^traffic: \S+ \((\d+)\) total, .*\((\d+)\) data", stdout, re.MULTILINE
        )
        at_once = load.connections * load.streams * load.pipeline_depth
        cut = INTERRUPTED * at_once / max(responses, 1)
        warm_up = WARM_UP_RATE * load.warm_up_s / seconds if load.requests_total is None else 0.0
        size = int(traffic[2]) / responses if traffic and responses else None
        if wrong := wrong_size(load, size, cut, warm_up):
            bad, errors["wrong_body"] = responses, responses
            remarks.append(wrong)
        times = re.search(r"^time for request: +(\S+) +(\S+) +(\S+)", stdout, re.MULTILINE)
        return settle(
            responses,
            bad,
            seconds,
            errors=errors,
            lost=errors["broken"],
            latency_us=latency(mean=time_us(times[3]), max=time_us(times[2])) if times else None,
            bytes_per_s=int(traffic[1]) / seconds if traffic and seconds else None,
            remarks=remarks,
        )


def _duration_s(load: Load) -> int:
    return math.ceil(load.duration_s or 10)


def _protocol(load: Load) -> str:
    return "h2" if load.http_version == "2" else "http/1.1"
