"""The options of one load run, whichever command line they came from.

`command.py` creates them from Bolide's flags, `like` from another tool's command line. Values are
parsed already (durations in seconds, counts as numbers). `plan.py` checks whether they are
consistent, and makes the engine's plan of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DURATION_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One run; an option that is None or empty was not given."""

    # destination
    urls: tuple[str, ...]
    target: str = ""
    proxy: str = ""
    source_addresses: tuple[str, ...] = ()

    # TLS
    is_insecure: bool = False
    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    resumes: bool = True
    tls_min: str = "1.2"
    tls_max: str = "1.3"

    # amount and duration
    connections: int = 100
    pipeline: int = 1
    streams: int = 1
    duration_s: float | None = None
    requests: int | None = None
    stop_after_s: float | None = None
    warm_up_s: float = 0.0
    timeout_s: float = 5.0
    rate: float | None = None
    stages: str = ""
    ramp_up_s: float = 0.0

    # WebSocket
    depth: int = 1
    pattern: str = "echo"
    message_bytes: int | None = None
    is_binary: bool = False
    is_compressed: bool = False

    # requests
    is_persistent: bool = True
    http_version: str = "1.1"
    method: str = ""
    headers: tuple[str, ...] = ()
    body: bytes | None = None
    request_file: Path | None = None

    # correct responses
    expect_status: int | None = None
    expect_length: int | None = None
    expect_body: bytes | None = None
    expect_same: bool = False
    may_vary_in_length: bool = True
    deadline_s: float | None = None

    # generator
    threads: int = 1
    cpus: str = ""
    sleepless: bool = False

    # output of another tool's format
    hides_percentiles: bool = False
    hides_deviations: bool = False
    shows_percentiles: bool = False
    percentiles_file: Path | None = None
