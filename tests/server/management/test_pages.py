"""The metrics' text as other programs read it, and as the documentation describes it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from bolide.server.management import pages
from bolide.server.management.pages import all_families
from support.management import Managed
from support.server import Start

PAGE = Path(__file__).parents[3] / "docs" / "operation.md"


def test_an_openmetrics_parser_accepts_the_text(start: Start) -> None:
    managed = Managed(start)
    with managed.server.connect() as client:
        client.get("/")
    reply = managed.ask("/metrics")
    version = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert reply.get("content-type") == version
    found = list(text_string_to_metric_families(reply.content.decode()))
    expected = [(family.name, family.kind, family.unit, family.help) for family in all_families()]
    assert [(each.name, each.type, each.unit, each.documentation) for each in found] == expected


def test_the_documentation_has_every_metric() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if re.match(r"\| `bolide[_`]", line)]
    expected = []
    for family in all_families():
        labels = ", ".join(f"`{name}`" for name, _ in family.labels)
        columns = (f"`{family.name}`", family.kind, family.unit or "-", labels or "-", family.help)
        expected.append(f"| {' | '.join(columns)} |")
    assert rows == expected


def test_the_age_does_not_follow_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    began = SimpleNamespace(began_unix_s=time.time() - 5, reload=None, stop=None)
    found = pages.Pages(cast(pages.Server, began))
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 5 <= found.age_s < 30
