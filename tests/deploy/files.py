"""Reads what is under deploy/: the options, timeouts and command lines of its files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
CONTAINER = DEPLOY / "container"
UNIT = DEPLOY / "systemd" / "shop.service"
MANIFESTS = DEPLOY / "kubernetes" / "shop.yaml"
CHART = DEPLOY / "helm" / "bolide"
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def unit(path: Path) -> dict[str, str]:
    """Return the values of a unit of systemd."""
    lines = (line for line in path.read_text().splitlines() if not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines if "=" in line)


def compose() -> dict[str, Any]:
    """Return the services of the compose file."""
    services: dict[str, Any] = yaml.safe_load((CONTAINER / "compose.yaml").read_text())["services"]
    return services


def manifests(text: str | None = None) -> dict[str, Any]:
    """Return the objects for Kubernetes by their kinds."""
    found = yaml.safe_load_all(MANIFESTS.read_text() if text is None else text)
    return {each["kind"]: each for each in found if each}


def pod(objects: Mapping[str, Any]) -> Any:
    """Return the specification of the pods."""
    return objects["Deployment"]["spec"]["template"]["spec"]


def variables(container: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a container of Kubernetes."""
    return {each["name"]: each["value"] for each in container["env"]}


def seconds(text: str) -> float:
    """Return a time as systemd, Docker and nginx write it."""
    match = re.fullmatch(r"(\d+)(s|m|h|)", text)
    assert match, text
    return int(match[1]) * UNITS[match[2]]


def given(command: str | list[str]) -> dict[str, str]:
    """Return the options of a command `bolide serve TARGET --name value ...`."""
    words = shlex.split(command) if isinstance(command, str) else command
    assert Path(words[0]).name == "bolide" and words[1] == "serve", words
    flags = iter(words[3:])
    return {flag.removeprefix("--").replace("-", "_"): next(flags) for flag in flags}


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every file."""
    for path in sorted(DEPLOY.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path, path.read_text()
