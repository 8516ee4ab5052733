"""Names of contestants, workloads and tools as they are given on the command line."""

from __future__ import annotations


def fits(name: str, wanted: str) -> bool:
    """Return whether a name matches NAME or PREFIX*."""
    return name == wanted or (wanted.endswith("*") and name.startswith(wanted[:-1]))
