"""Little's law: the requests in flight are the rate times the mean latency.

In a closed loop this is the number of connections. If it is much lower, most connections were not
served: a few of them had all responses. A tool that is busy itself also lowers it, to about half,
because it does not count how long a connection waits for its next request. If it is higher, the
tool's latency is not that of the requests in its rate (wrk adds samples, for example).
"""

from __future__ import annotations

DEVIATION_MAX = 0.2
"""Deviation from the number of connections above which rate and latency contradict each other."""
SERVED_SHARE_MIN = 0.5
"""Share of the connections below which a rate is that of a few connections."""
SERVED_SHARE_MIN_BUSY = 0.25
"""The same if the tool was busy itself; saturated ones had 39 % and more of them in flight."""


def in_flight(rate_per_s: float | None, mean_us: float | None, batch: int = 1) -> float | None:
    """Return the mean number of requests, or of batches of them, in flight; None if unknown."""
    if not rate_per_s or not mean_us:
        return None
    return rate_per_s / batch * mean_us / 1e6


def complete_share(rounds: float) -> float:
    """Return the share of all connections that the law counts in a window of so many `rounds`.

    Rounds are responses per connection. What the window's end interrupts has no latency: half a
    round of a server that serves connections in turn, and all but half of a round that is not over.
    """
    return 1 - 0.5 / rounds if rounds >= 1 else rounds / 2


def contradicts(flying: float | None, expected: float) -> bool:
    """Whether the number in flight is so far from the expected one that the latency is wrong."""
    return flying is not None and abs(flying / expected - 1) > DEVIATION_MAX


def is_starved(flying: float | None, expected: float, *, is_tool_busy: bool) -> bool:
    """Whether so few requests were in flight that most connections were not served."""
    share = SERVED_SHARE_MIN_BUSY if is_tool_busy else SERVED_SHARE_MIN
    return flying is not None and flying < share * expected
