"""The dashboard and the configuration of Prometheus, against the metrics that are exported."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from bolide.server.management.pages import all_families
from support.management import Managed
from support.server import Start
from support.waiting import wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "bolide.json").read_text())
CONFIGURATION = DEPLOY / "prometheus" / "prometheus.yml"
PROMETHEUS = shutil.which("prometheus")
SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_count", "_sum"),
    "info": ("_info",),
}
OF_PROMETHEUS = {"job", "instance", "le"}
"""Labels that no family declares."""
REQUESTS = 7
BLOCKING = """
import time
import bolide

app = bolide.App()

@app.get("/")
def block(request):
    time.sleep(0.2)
    return "done"
"""


def queries() -> list[str]:
    """Return every query of the dashboard, those of its variables included."""
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    listed = DASHBOARD["templating"]["list"]
    return found + [each["query"]["query"] for each in listed if each["type"] == "query"]


def test_queries_use_metrics_that_are_exported() -> None:
    exported = {
        family.name + suffix: family
        for family in all_families()
        for suffix in SUFFIXES[family.kind]
    }
    used = set()
    for query in queries():
        names = set(re.findall(r"\bbolide_\w+", query))
        assert names, query
        assert names <= exported.keys(), query
        used |= {exported[name].name for name in names}
        labels = {label for name in names for label, _ in exported[name].labels} | OF_PROMETHEUS
        grouped = re.findall(r"by \(([^)]*)\)", query)
        selected = re.findall(r'(\w+)=~?"', query)
        assert {*selected, *(name for group in grouped for name in group.split(", "))} <= labels
    assert used == {family.name for family in all_families()}, "a metric is not shown"


def test_panels_have_a_unit_a_place_and_a_meaning() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [tuple(panel["gridPos"].values()) for panel in panels]
    assert len(set(places)) == len(panels)
    assert all(panel["title"] and panel["description"] for panel in panels)
    assert all("unit" in panel["fieldConfig"]["defaults"] for panel in panels[1:])


@contextmanager
def prometheus(folder: Path, address: tuple[str, int]) -> Iterator[tuple[str, int]]:
    """Run Prometheus with the configuration for another address; yield its own."""
    text = CONFIGURATION.read_text().replace("127.0.0.1:9000", f"{address[0]}:{address[1]}")
    (folder / "prometheus.yml").write_text(text.replace("15s", "1s"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own: tuple[str, int] = free.getsockname()
    arguments = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={own[0]}:{own[1]}",
    ]
    process = subprocess.Popen(
        [str(PROMETHEUS), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield own
    finally:
        process.terminate()
        process.wait(timeout=20)


def ask(address: tuple[str, int], query: str) -> Any:
    """Evaluate a query; return nothing before Prometheus serves."""
    with (
        suppress(OSError),
        closing(http.client.HTTPConnection(*address, timeout=10)) as connection,
    ):
        connection.request("GET", f"/api/v1/query?query={quote(query)}")
        with connection.getresponse() as response:
            content = response.read()
        if response.status != 503:  # it is starting
            return json.loads(content)
    return None


@pytest.mark.tools
@pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed")
def test_prometheus_scrapes_the_metrics_and_understands_the_queries(
    start: Start, tmp_path: Path
) -> None:
    managed = Managed(start, "basic.py", "--workers", "2")
    with managed.server.connect() as client:
        for _ in range(REQUESTS):
            client.get("/")
    with prometheus(tmp_path, managed.address) as address:

        def value(query: str) -> float | None:
            reply = ask(address, query)
            found = reply["data"]["result"] if reply else []
            return float(found[0]["value"][1]) if found else None

        wait_until(lambda: value('up{job="bolide"}') == 1, patience_s=30)
        wait_until(lambda: value("sum(bolide_http_requests_total)") == REQUESTS)
        assert value('bolide_http_request_duration_seconds_bucket{le="+Inf"}') == REQUESTS
        assert value("sum(bolide_workers)") == 2
        for query in queries():
            if query.startswith("label_values"):
                continue
            filled = query.replace("$__rate_interval", "1m").replace("$job", "bolide")
            filled = filled.replace("$instance", ".*")
            result = ask(address, filled)
            assert result["status"] == "success", (filled, result)


@pytest.mark.tools
@pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed")
def test_the_autoscaler_sees_whether_workers_are_busy(start: Start, tmp_path: Path) -> None:
    adapter = yaml.safe_load((DEPLOY / "kubernetes" / "prometheus-adapter.yaml").read_text())
    query = adapter["rules"]["custom"][0]["metricsQuery"].replace("<<.GroupBy>>", "instance")
    query = query.replace("<<.LabelMatchers>>", 'job="bolide"').replace("[2m]", "[5s]")
    (tmp_path / "app.py").write_text(BLOCKING)
    managed = Managed(start, "app.py", cwd=tmp_path)
    with prometheus(tmp_path, managed.address) as address, managed.server.connect() as client:

        def ratio() -> float:
            reply = ask(address, query)
            found = reply["data"]["result"] if reply else []
            return float(found[0]["value"][1]) if found else -1

        wait_until(lambda: 0 <= ratio() < 0.1, patience_s=30)

        def is_busy() -> bool:
            client.get("/")
            return 0.6 < ratio() < 1.2

        wait_until(is_busy, patience_s=20)
