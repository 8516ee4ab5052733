"""What a tool is asked to do, and what it is understood to have said."""

from __future__ import annotations

from dataclasses import dataclass, field

Latency = dict[str, float | None]
"""Microseconds by a name of FIGURES; None is what the tool did not say."""

FIGURES = ("mean", "p50", "p90", "p99", "p99_9", "max")


@dataclass(frozen=True, slots=True)
class Load:
    """One load, in no tool's words."""

    url: str
    """http://HOST:PORT/PATH"""
    connections: int = 100
    pipeline_depth: int = 1
    """Requests under way on each connection."""
    http_version: str = "1.1"
    is_persistent: bool = True
    """Whether a connection serves more than one request."""
    threads: int = 1
    duration_s: float | None = 10.0
    requests_total: int | None = None
    """Ends the run instead of `duration_s`."""
    timeout_s: float = 5.0
    rate_per_s: float | None = None
    """Open loop: requests due per second."""
    expected_status: int = 200
    expected_content: bytes | None = None
    """None: any content is right."""

    @property
    def is_success_expected(self) -> bool:
        """Whether a right answer is a 2xx."""
        return 200 <= self.expected_status <= 299


@dataclass(frozen=True, slots=True)
class Reading:
    """What one output says, once its traps are stepped around. None is unknown, never 0."""

    ok: int | None
    """Right answers, as far as the tool can tell; a lower bound where it hides the number."""
    failed: int | None
    errors: dict[str, int]
    """Failures by class; classes of one tool may overlap, so their sum can exceed `failed`."""
    requests_per_s: float | None
    """Of right answers."""
    seconds: float | None
    latency_us: Latency | None = None
    histogram: list[tuple[float, int]] | None = None
    """Rows of (greatest microseconds, count), ascending."""
    bytes_per_s: float | None = None
    generator_cpu_s: float | None = None
    remarks: list[str] = field(default_factory=list)
    """The traps that this output fell into, one sentence each."""


def latency(**figures: float | None) -> Latency | None:
    """Fill a latency's missing figures with None; none at all is no latency."""
    if all(value is None for value in figures.values()):
        return None
    return {name: figures.get(name) for name in FIGURES}
