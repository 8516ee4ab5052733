"""How much memory a worker may have."""

from __future__ import annotations

import re
import resource
from pathlib import Path


def limit_memory(worker: int, left_bytes: int) -> None:
    """Limit a worker's address space to what it has and so many bytes more."""
    status = Path(f"/proc/{worker}/status").read_text()
    (size,) = re.findall(r"VmSize:\s+(\d+) kB", status)
    most = int(size) * 1024 + left_bytes
    resource.prlimit(worker, resource.RLIMIT_AS, (most, most))
