"""The options, limits and metrics that files under deploy/ and pages of docs/deploy use exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from bolide.config.settings import resolve, table
from bolide.server.management.pages import all_families
from deploy.dockerfile import stages
from deploy.files import (
    CHART,
    CONTAINER,
    DEPLOY,
    UNIT,
    compose,
    given,
    manifests,
    pod,
    seconds,
    texts,
    unit,
    variables,
)

PAGES = DEPLOY.parent / "docs" / "deploy"
OPTIONS = {option.name: option for option in table()}
OURS = re.compile(r"\b[a-z]+(?:_[a-z]+)+(?:_ms|_max|_min|_s)\b")
"""Names that only limits and timeouts of ours have."""
ENDS = {"counter": ["_total"], "gauge": [""], "info": ["_info"]}
ENDS["histogram"] = ["_bucket", "_count", "_sum"]
PAGES_OF_MANAGEMENT = {"/health", "/ready", "/metrics"}
GRACEFUL_S = OPTIONS["graceful_timeout_ms"].default / 1000


def sources() -> list[tuple[Path, str]]:
    pages = [(path, path.read_text()) for path in sorted(PAGES.glob("*.md"))]
    return [*texts(), *pages]


@pytest.mark.parametrize("path", [path for path, _ in sources()], ids=lambda path: path.name)
def test_names_of_options_exist(path: Path) -> None:
    text = path.read_text()
    named = {name.lower() for name in re.findall(r"\bBOLIDE_([A-Z][A-Z_]+)\b", text)}
    named |= set(OURS.findall(text))
    for command in re.findall(r"\bbolide serve ([^`\n\"']*)", text):
        flags = re.findall(r"--([a-z][a-z0-9-]*)", command)
        named |= {flag.replace("-", "_") for flag in flags}
    assert named <= {*OPTIONS, "config"}


def test_names_of_metrics_exist() -> None:
    ours = {"bolide_busy_ratio"}  # what prometheus-adapter computes of them
    known = {f"{family.name}{end}" for family in all_families() for end in ENDS[family.kind]}
    known |= {family.name for family in all_families()} | ours
    for path, text in sources():
        assert set(re.findall(r"\bbolide_[a-z]\w+", text)) <= known, path


def test_the_unit_has_valid_options() -> None:
    options = given(unit(UNIT)["ExecStart"])
    assert options.keys() <= OPTIONS.keys()
    settings = resolve(options, "flag", environ={})
    assert settings.management is not None
    runtime = f"/run/{unit(UNIT)['RuntimeDirectory']}/"
    assert settings.management.path.startswith(runtime)


def test_the_image_has_valid_options() -> None:
    image = stages()[-1]
    environ = image.environment()
    settings = resolve(given(image.command()), "flag", environ=environ)
    (address,) = settings.addresses
    assert (address.host, address.port) == ("0.0.0.0", int(image.last("EXPOSE")))  # noqa: S104
    assert settings.management is not None and settings.management.host == "127.0.0.1"
    assert resolve({}, environ={**environ, "PORT": "1"}).addresses[0].port == 1


def test_the_services_have_valid_options() -> None:
    services = compose()
    environ = stages()[-1].environment() | services["shop"]["environment"]
    settings = resolve({}, environ=environ)
    front = yaml.safe_load((CONTAINER / "compose.yaml").read_text())["networks"]["front"]
    assert list(settings.trusted_proxies) == [front["ipam"]["config"][0]["subnet"]]
    upstream = re.search(r"server shop:(\d+) ", (CONTAINER / "nginx.conf").read_text())
    assert upstream and int(upstream[1]) == settings.addresses[0].port


def test_the_pods_have_valid_options() -> None:
    (container,) = pod(manifests())["containers"]
    environ = variables(container)
    assert len(environ) == len(container["env"])
    settings = resolve({}, environ=environ)
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert settings.management is not None
    assert ports == {"http": settings.addresses[0].port, "management": settings.management.port}
    assert str(settings.management.host) == "0.0.0.0"  # noqa: S104
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] == "management" and asked["path"] in PAGES_OF_MANAGEMENT


def test_options_of_the_chart_exist() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["options"].keys() <= OPTIONS.keys()
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    reserved = set(schema["properties"]["options"]["propertyNames"]["not"]["enum"])
    assert reserved <= {*OPTIONS, "config"}
    assert values["options"].keys().isdisjoint(reserved)


def test_platforms_have_valid_options() -> None:
    command = (DEPLOY / "paas" / "Procfile").read_text().removeprefix("web: ")
    resolve(given(command), "flag", environ={"PORT": "5000"})


def test_what_stops_a_server_waits_for_its_drain() -> None:
    service = unit(UNIT)
    assert seconds(service["TimeoutStopSec"]) > GRACEFUL_S
    shop = compose()["shop"]
    in_services_s = int(shop["environment"]["BOLIDE_GRACEFUL_TIMEOUT_MS"]) / 1000
    assert seconds(shop["stop_grace_period"]) > in_services_s
    in_pods = pod(manifests())
    (container,) = in_pods["containers"]
    before_s = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain_s = int(variables(container)["BOLIDE_GRACEFUL_TIMEOUT_MS"]) / 1000
    assert in_pods["terminationGracePeriodSeconds"] > before_s + drain_s


def test_nginx_has_matching_limits() -> None:
    text = (CONTAINER / "nginx.conf").read_text()

    def directive(name: str) -> str:
        match = re.search(rf"\b{name} (\w+);", text)
        assert match, name
        return match[1]

    def default_s(name: str) -> float:
        return float(OPTIONS[name].default) / 1000

    assert seconds(directive("keepalive_timeout")) < default_s("keep_alive_timeout_ms")
    assert seconds(directive("proxy_read_timeout")) > default_s("handler_timeout_ms")
    assert directive("client_max_body_size") == f"{OPTIONS['body_bytes_max'].default >> 20}m"
