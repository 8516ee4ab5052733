"""A plugin of pytest that writes what the tests of faults have measured to a file.

`pytest -p faults.recording` with the variable FAULTS_RECORD: results of tests that ran replace
those that the file has of them.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
from pathlib import Path
from typing import Any

import pytest

results: dict[str, dict[str, Any]] = {}


def machine() -> str:
    """Return the class of this machine."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    release = ".".join(re.findall(r"\d+", platform.release())[:2])
    python = f"{platform.python_implementation()} {platform.python_version()}"
    kind = f"{os.cpu_count()} processors, {memory_bytes / 2**30:.0f} GiB, {platform.machine()}"
    return f"{kind}, {platform.system()} {release}, {python}"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what a test measured, and whether it passed."""
    if report.when != "call" and report.passed:
        return
    outcome = "error" if report.when != "call" and report.failed else report.outcome
    results[report.nodeid] = {
        "outcome": outcome,
        "seconds": round(report.duration, 1),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        **dict(report.user_properties),
    }


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the file."""
    name = os.environ.get("FAULTS_RECORD")
    if name is None or hasattr(session.config, "workerinput"):
        return
    path = Path(name)
    kept = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**kept, **results}, indent=1, sort_keys=True) + "\n")
