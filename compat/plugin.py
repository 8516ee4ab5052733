"""Pytest plugin that points another server's ASGI checks at servers that run already.

It changes nothing of the checks: it replaces the fixture that would start containers, leaves
out what needs something that is not there, and writes what came of the rest. What it must know,
`run.py` passes as JSON in COMPAT_PLAN.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

PLAN = json.loads(os.environ["COMPAT_PLAN"])
"""`ports` of the servers by name, `needs` by fixture, and `result`: the file to write."""
BEGUN = time.monotonic()

outcomes: dict[str, dict[str, str]] = {}
left_out: Counter[str] = Counter()


def pytest_plugin_registered(plugin: Any) -> None:
    """Write where each framework is served into the checks' own table."""
    for name, framework in getattr(plugin, "FRAMEWORKS", {}).items():
        framework["port"] = PLAN["ports"][name]


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Any:
    """Replace the fixture that starts containers."""
    if fixturedef.argname != "docker_services":
        return None
    services = {
        name: f"{'https' if name.endswith('_https') else 'http'}://127.0.0.1:{port}"
        for name, port in PLAN["ports"].items()
    }
    fixturedef.cached_result = services, fixturedef.cache_key(request), None
    return services


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    """Leave out the checks that need what is not there, and count them."""
    kept, dropped = [], []
    for item in items:
        needs = [need for fixture, need in PLAN["needs"].items() if fixture in item.fixturenames]
        left_out.update(needs[:1])
        (dropped if needs else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=dropped)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember the outcome of each check; what goes wrong around it counts too."""
    if report.when == "call" or report.outcome != "passed":
        outcomes[report.nodeid] = {"outcome": report.outcome, "reason": reason(report)}


def reason(report: pytest.TestReport) -> str:
    """Give one line that says why a check failed or skipped itself."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return lines[0].removeprefix("E ").strip() if lines else ""


def pytest_sessionfinish() -> None:
    """Write what came of it."""
    seconds = time.monotonic() - BEGUN
    result = {"outcomes": outcomes, "left_out": left_out, "seconds": seconds}
    Path(PLAN["result"]).write_text(json.dumps(result))
