"""The base class of the tools, and the correction of their readings."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from abc import ABC, abstractmethod
from functools import cache
from typing import Any

from bolide.errors import Error
from bolide.lab.tools.load import Latency, Load, Reading

VERSION_WAIT_S = 10
VARIABLE_BYTES_MAX = 2
"""By how much the length of heads may vary: a number in Keep-Alive, for example."""
BAD_SHARE_MAX = 0.001
"""Share of error pages, which have another length, up to which lengths are compared."""


ONLY_OURS = ("a search", "polling", "field lines of a study", "content of requests", "a fleet")
"""What only `bolide load` is asked for."""

RARE = ("TLS", "HTTP/2", "WebSocket", "a warm-up")
"""What a tool has to name in `can`, to be asked for it."""


class ToolError(Error):
    """A load that a tool cannot generate, or an output that cannot be read, in one line."""


class Tool(ABC):
    """One load generator."""

    name: str
    version_arguments: tuple[str, ...] = ("--version",)
    version_pattern = r"(\d+(?:\.\d+)+)"

    apt: tuple[str, ...] = ()
    """Debian packages with it."""
    how: tuple[str, ...] = ()
    """Commands that install it, if no package has it."""
    missing = ""
    """What to do if it cannot be installed."""

    can: tuple[str, ...] = ()
    """Which of RARE it can do, as a race asks for it."""

    warms_up = True
    """Whether the server is warmed up before it."""

    has_late_clock = False
    """Whether it counts responses from before its clock starts if it has more threads than
    processors."""

    is_http10 = False
    """Whether it sends HTTP/1.0 whatever the load says, so that responses may have other heads."""

    def version(self) -> str | None:
        """Return the installed version; None if the tool is not installed."""
        return _version(self.name, self.version_arguments, self.version_pattern)

    @abstractmethod
    def command(self, load: Load) -> list[str]:
        """Return the command line for a load.

        Raises:
            ToolError: the tool cannot generate this load.
        """

    @abstractmethod
    def read(self, stdout: str, stderr: str, exit_code: int, load: Load) -> Reading:
        """Read what the tool printed.

        Raises:
            ToolError: this is not the output of a completed run.
        """

    def refuse(self, load: Load, *cannot: str) -> None:
        """Refuse what the tool cannot do: "pipelining", "a rate", "one request per connection"...

        ONLY_OURS, and what of RARE the tool does not name, is refused for every tool that calls
        this.

        Raises:
            ToolError: the load needs one of them.
        """
        needed = {
            "pipelining": load.pipeline_depth > 1,
            "a rate": load.rate_per_s is not None,
            "a search": bool(load.finds),
            "one request per connection": not load.is_persistent,
            "persistent connections": load.is_persistent,
            "a number of requests": load.requests_total is not None,
            "more than one thread": load.threads > 1,
            "HTTP/1.0": load.http_version == "1.0",
            "a warm-up": load.warm_up_s > 0,
            "TLS": bool(load.tls),
            "HTTP/2": load.http_version == "2",
            "WebSocket": bool(load.messages),
            "handshakes": bool(load.tls) and not load.is_persistent,
            "polling": load.is_sleepless,
            "field lines of a study": bool(load.fields),
            "content of requests": bool(load.content_file),
            "a fleet": load.fleet is not None,
        }
        unnamed = (what for what in RARE if what not in self.can)
        for what in (*cannot, *ONLY_OURS, *unnamed):
            if needed[what]:
                raise ToolError(f"{self.name} cannot do {what}")

    def unreadable(self, stdout: str, stderr: str, exit_code: int) -> ToolError:
        """Return an error with what the tool printed instead of a result: its last line."""
        lines = [line.strip() for line in (stderr or stdout).splitlines() if line.strip()]
        last = lines[-1][:200] if lines else "nothing"
        return ToolError(f"{self.name} exited with {exit_code} and no result: {last}")

    def parsed(self, stdout: str, stderr: str, exit_code: int) -> dict[str, Any]:
        """Read an output that ends with one JSON object, after any other text.

        Raises:
            ToolError: there is none.
        """
        try:
            found = json.loads(stdout[stdout.index("{") :])
        except ValueError:
            raise self.unreadable(stdout, stderr, exit_code) from None
        return dict(found)


@cache
def _version(name: str, arguments: tuple[str, ...], pattern: str) -> str | None:
    path = shutil.which(name)
    if path is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - the tool itself
            [path, *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=VERSION_WAIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(pattern, done.stdout + done.stderr)
    return found[1] if found else "unknown"


def settle(
    total: int,
    bad: int,
    seconds: float,
    *,
    errors: dict[str, int],
    lost: int = 0,
    latency_us: Latency | None = None,
    histogram: list[tuple[float, int]] | None = None,
    bytes_per_s: float | None = None,
    remarks: list[str] | None = None,
) -> Reading:
    """Return a reading of `total` responses, `bad` of them wrong, and `lost` requests without one.

    Latency is left out if no response is correct: that of error pages is not a result.
    """
    bad = min(bad, total)
    ok = total - bad
    remarks = list(remarks or [])
    if total and not ok:
        remarks.append(f"{bad:,} of {total:,} responses were wrong or late: this is not throughput")
    elif bad:
        remarks.append(f"{bad:,} of {total:,} responses were wrong or late and are not in the rate")
    return Reading(
        ok=ok,
        failed=bad + lost,
        errors={name: count for name, count in errors.items() if count},
        requests_per_s=ok / seconds if seconds > 0 else None,
        seconds=seconds,
        latency_us=latency_us if ok else None,
        histogram=histogram if ok else None,
        bytes_per_s=bytes_per_s,
        remarks=remarks,
    )


def wrong_bytes(
    load: Load, received: float, responses: int, *, lost: int = 0, cut: int = 0
) -> str | None:
    """Report that responses differ from the verified one in their length, heads included.

    Tools that do not check contents count all bytes that they read, and whole responses. So there
    may be more bytes, of responses that the end or an error (`lost`) interrupts. There are fewer
    only if the tool counts interrupted responses (`cut`), and by VARIABLE_BYTES_MAX, for fields
    that vary. None if all is as expected.
    """
    expected = load.response_bytes
    if expected is None or not responses:
        return None
    size = received / responses
    least = expected * (1 - cut / responses)
    most = expected * (1 + (load.connections * load.pipeline_depth + lost) / responses)
    if least - VARIABLE_BYTES_MAX <= size <= most + VARIABLE_BYTES_MAX:
        return None
    return (
        f"responses had {size:,.0f} bytes on average, heads included, instead of the"
        f" {expected:,.0f} of the verified one"
    )


def wrong_size(
    load: Load, size: float | None, interrupted: float = 0.0, surplus: float = 0.0
) -> str | None:
    """Report an unexpected average size of the contents; None if it is as expected.

    `interrupted` is the number of responses, per whole one, of which only a part may be counted,
    `surplus` that of responses that are counted in octets only.
    """
    if load.expected_content is None or size is None:
        return None
    expected = len(load.expected_content)
    least = expected * (1 - interrupted) - 1  # some tools round down
    if least < size < expected * (1 + interrupted + surplus) + 1:
        return None
    return f"contents had {size:,.0f} bytes on average instead of {expected:,}"
