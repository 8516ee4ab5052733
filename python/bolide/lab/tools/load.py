"""The load that a tool generates, and the reading of its output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bolide.lab.tools.fleet import Fleet

Latency = dict[str, float | None]
"""Microseconds by a name of FIGURES; None if the tool does not report it."""

OK = 200
"""The status of a correct response."""
FIGURES = ("mean", "p50", "p90", "p99", "p99_9", "max")


@dataclass(frozen=True, slots=True)
class Load:
    """One load, independent of the tool."""

    url: str
    """http://HOST:PORT/PATH, or https:"""
    connections: int = 100
    pipeline_depth: int = 1
    """Pipelined requests on each connection."""
    http_version: str = "1.1"
    streams: int = 1
    """Concurrent streams on each connection of HTTP/2."""
    tls: str = ""
    """Handshakes with https: "resumed" if that is possible, or "full"; "" with http."""
    certificate: str = ""
    """File with the certificate that a server with https has to present."""
    is_persistent: bool = True
    """Whether a connection serves more than one request."""
    threads: int = 1
    duration_s: float | None = 10.0
    requests_total: int | None = None
    """Limits the run instead of `duration_s`."""
    timeout_s: float = 5.0
    rate_per_s: float | None = None
    """Open loop: requests due per second; of a search, the rate at which it starts."""
    finds: str = ""
    """Condition of a search for the highest rate, such as "p99 < 10ms"; "" for one run."""
    expected_content: bytes | None = None
    """The expected content; None accepts any."""
    expected_file: str = ""
    """File with it, if it does not fit an argument of `bolide load`."""
    fields: tuple[tuple[str, str], ...] = ()
    """Further field lines of each request."""
    messages: str = ""
    """WebSocket: the pattern of `bolide load`, with `pipeline_depth` messages in one send."""
    message_bytes: int | None = None
    """Size of a message; None means that the message is the expected content."""
    is_compressed: bool = False
    """permessage-deflate"""
    content_file: str = ""
    """File with the content of each request, which makes it a POST; "" for a GET."""
    warm_up_s: float = 0.0
    """Time before the measurement starts."""
    is_sleepless: bool = False
    """The generator polls, so that the server does not have to wake it up."""
    response_bytes: float | None = None
    """Bytes of a verified response with its head; None if unknown."""
    fleet: Fleet | None = None
    """The agents that generate it; None for the machine of the race itself."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one output means, after correction. None means unknown, never 0."""

    ok: int | None
    """Correct responses, as far as the tool reports them; a lower bound if it hides the number."""
    failed: int | None
    errors: dict[str, int]
    """Failures by class; classes of one tool may overlap, so their sum can exceed `failed`."""
    requests_per_s: float | None
    """Rate of correct responses."""
    seconds: float | None
    latency_us: Latency | None = None
    histogram: list[tuple[float, int]] | None = None
    """Rows of (latency in microseconds, count), ascending: `stats/histogram.py`."""
    bytes_per_s: float | None = None
    generator_cpu_s: float | None = None
    """Processor time for which all threads of the tool worked, without polling."""
    generator_cpu_share: float | None = None
    """Share of the time in which its busiest thread worked."""
    requests_sent: int | None = None
    """Requests with those of the warm-up."""
    run_bytes: int | None = None
    """Bytes received from the tool's start to its end."""
    served: dict[str, Any] | None = None
    """How evenly connections were served: fields of `schema.Served`; None if not counted."""
    waiting_s: float | None = None
    """For how long half of all connections, or more, had waited for a response at the end."""
    fleet: dict[str, Any] | None = None
    """What each agent of a fleet did: fields of `schema.FleetUse`; None without a fleet."""
    is_short_of_time: bool = False
    """Whether an agent of a fleet had no processor time left, as it reports itself."""
    remarks: list[str] = field(default_factory=list)
    """What is misleading in this output, one sentence each."""


def latency(**figures: float | None) -> Latency | None:
    """Fill missing figures of a latency with None; return None if all are missing."""
    if all(value is None for value in figures.values()):
        return None
    return {name: figures.get(name) for name in FIGURES}
