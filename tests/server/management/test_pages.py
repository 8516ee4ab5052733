"""The metrics' text as other programs read it, and as the documentation describes it."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

from bolide.server.management import pages
from bolide.server.management.exposition import wants_plain
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


ACCEPTS = [
    ("text/plain", True),
    ("text/plain;version=0.0.4;q=0.5, */*;q=0.1", True),
    ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.3", False),
    ("*/*", False),
    ("", False),
]


@pytest.mark.parametrize(("accept", "is_plain"), ACCEPTS)
def test_the_format_that_a_collector_accepts(accept: str, is_plain: bool) -> None:
    assert wants_plain(accept) is is_plain


def test_a_parser_of_the_older_text_accepts_it(start: Start) -> None:
    managed = Managed(start)
    with managed.server.connect() as client:
        client.get("/")
    reply = managed.ask("/metrics", fields=b"Accept: text/plain\r\n")
    assert reply.get("content-type") == "text/plain; version=0.0.4; charset=utf-8"
    text = reply.content.decode()
    assert "# UNIT" not in text and "# EOF" not in text
    for kind, name in (("gauge", "bolide_info"), ("counter", "bolide_received_bytes_total")):
        assert f"\n# TYPE {name} {kind}\n{name}" in f"\n{text}"
    found = {each.name: each.documentation for each in plain_families(text)}
    expected = {each.name.removesuffix("_total"): each.help for each in all_families()}
    assert found == {
        f"{name}_info" if name == "bolide" else name: expected[name] for name in expected
    }
    if promtool := shutil.which("promtool"):
        command = [promtool, "check", "metrics"]
        done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


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
