"""The progress of a run, shown on standard error.

On a terminal, a block of lines is redrawn five times a second and erased at the end. Elsewhere,
there is one plain line per second. `--quiet` shows nothing.
"""

from __future__ import annotations

import shutil
from typing import Any, TextIO

from bolide import quantity
from bolide.load import verdict

BAR_CELLS = 24
REDRAW_S = 0.2
LINE_S = 1.0
_PLAIN = str.maketrans({"█": "#", "░": ".", "▏": "|"})
_PHASES = {"opening": "opening connections", "warm_up": "warming up", "done": "ending"}


class Quiet:
    """Shows nothing."""

    interval_s = LINE_S

    def show(self, progress: dict[str, Any]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Lines:
    """One plain line per second, for logs."""

    interval_s = LINE_S

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._said = ""
        """What was said of TLS."""

    def show(self, progress: dict[str, Any]) -> None:
        """Write a line."""
        latency = _interval_latency(progress)
        parts = [
            f"{_place(progress)}",
            f"{progress['interval_requests_per_s']:,.0f} requests/s",
            f"p50 {_latency(latency, 'p50')}",
            f"p99 {_latency(latency, 'p99')}",
            f"max {_latency(latency, 'max')}",
            f"{progress['failed']:,} failed",
            f"{progress['connections_held']:,} connections",
        ]
        if (failure := progress.get("tls_failure", "")) != self._said:
            self._said = failure
            parts.append(f"TLS failed: {failure}")
        self._stream.write(", ".join(parts) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Do nothing; every line is complete."""


class Block:
    """A block of lines on a terminal, redrawn in place."""

    interval_s = REDRAW_S

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = 0

    def show(self, progress: dict[str, Any]) -> None:
        """Draw the block over the previous one."""
        columns = shutil.get_terminal_size().columns - 1
        lines = [line[: max(1, columns)] for line in block(progress)]
        drawn = "".join(f"{line}\x1b[K\n" for line in lines)
        self._stream.write(self._back() + drawable(drawn, self._stream))
        self._stream.flush()
        self._drawn = len(lines)

    def close(self) -> None:
        """Erase the block."""
        self._stream.write(self._back() + ("\x1b[J" if self._drawn else ""))
        self._stream.flush()
        self._drawn = 0

    def _back(self) -> str:
        """Return the sequence that moves to the block's first line."""
        return f"\x1b[{self._drawn}A\r" if self._drawn else ""


def drawable(text: str, stream: TextIO) -> str:
    """Replace what a stream's encoding lacks: blocks by ASCII, other characters by `?`."""
    encoding = stream.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
    return text


def choose(stream: TextIO, is_quiet: bool) -> Quiet | Lines | Block:
    """Return the display that suits the stream."""
    if is_quiet:
        return Quiet()
    return Block(stream) if stream.isatty() else Lines(stream)


def block(progress: dict[str, Any]) -> list[str]:
    """Return the lines of the block."""
    latency = _interval_latency(progress)
    share = min(1.0, max(0.0, progress["share_done"]))
    full = round(share * BAR_CELLS)
    bar = "█" * full + "░" * (BAR_CELLS - full)
    errors = verdict.failures_text(progress)
    if failure := progress.get("tls_failure"):
        errors += f" (TLS failed: {failure})"
    return [
        f"  {bar} {share:4.0%}  {_place(progress)}",
        f"  rate         {progress['interval_requests_per_s']:,.0f} requests/s",
        f"  latency      p50 {_latency(latency, 'p50')}, p99 {_latency(latency, 'p99')}, "
        f"max {_latency(latency, 'max')}",
        f"  responses    {progress['ok']:,} on {progress['connections_held']:,} connections",
        f"  errors       {'none' if errors == 'no errors' else errors}",
    ]


def time_left_s(progress: dict[str, Any]) -> float | None:
    """Estimate the seconds that are left of the measurement; None if it is too early."""
    share, elapsed_s = progress["share_done"], progress["elapsed_s"]
    if progress["phase"] != "measuring" or share <= 0 or elapsed_s <= 0:
        return None
    return float(elapsed_s * (1 - share) / share)


def _place(progress: dict[str, Any]) -> str:
    """Return the phase of the run, or the time that has passed and the time that is left."""
    if progress["phase"] in _PHASES:
        return _PHASES[progress["phase"]]
    left_s = time_left_s(progress)
    left = "" if left_s is None else f" ({quantity.duration_text(left_s)} left)"
    return f"{quantity.duration_text(progress['elapsed_s'])}{left}"


def _interval_latency(progress: dict[str, Any]) -> dict[str, float]:
    """Return the latencies since the last call; empty if there was no response."""
    latency: dict[str, float] = progress["interval_latency_us"] or {}
    return latency if progress["interval_requests_per_s"] else {}


def _latency(latency: dict[str, float], name: str) -> str:
    return quantity.latency_text(latency.get(name))
