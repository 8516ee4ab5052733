"""Stages of a run: rates or connections that change with time.

`10s:1000,30s:5000` sends 1,000 requests per second for 10 s, then rises evenly to 5,000 within
30 s. `10s:50c,30s:200c` does the same with connections.
"""

from __future__ import annotations

import re
from typing import Any

from bolide import quantity
from bolide.errors import ConfigError

_STAGE = re.compile(r"([^:]+):([0-9]+(?:\.[0-9]+)?)(c?)")
MOST = 1_000_000_000
"""Requests per second, or connections, of a stage."""
FORM = (
    "DURATION:RATE,... like 10s:1000,30s:5000, or DURATION:CONNECTIONSc,... like 10s:50c,30s:200c"
)


def read(text: str) -> list[dict[str, Any]]:
    """Parse stages.

    Raises:
        ConfigError: they are malformed, or mix rates and connections.
    """
    stages = [_stage(part.strip(), text) for part in text.split(",")]
    if len({frozenset(stage) for stage in stages}) > 1:
        raise ConfigError(f"--stages: {text!r} mixes rates and connections; give {FORM}")
    if not any(each.get("rate_per_s") or each.get("connections") for each in stages):
        raise ConfigError(f"--stages: {text!r} generates no load; give {FORM}")
    return stages


def _stage(part: str, text: str) -> dict[str, Any]:
    match = _STAGE.fullmatch(part)
    try:
        duration_s = quantity.seconds(match[1]) if match else 0.0
    except ValueError:
        duration_s = 0.0
    if match is None or not duration_s:
        raise ConfigError(f"--stages: {part!r} in {text!r} is not a stage; give {FORM}")
    if float(match[2]) > MOST:
        what = "connections" if match[3] else "requests per second"
        raise ConfigError(f"--stages: {part!r} is more than {MOST:,} {what}; give fewer")
    if not match[3]:
        return {"duration_s": duration_s, "rate_per_s": float(match[2])}
    if "." in match[2]:
        raise ConfigError(f"--stages: {part!r} has a fraction of a connection; give a whole number")
    return {"duration_s": duration_s, "connections": int(match[2])}
