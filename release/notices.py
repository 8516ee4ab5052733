"""Collects the license texts of the crates that are compiled into the core, which ask for that."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAME = "LICENSES-OF-CRATES.txt"
LICENSE_FILES = 'license-files = ["LICENSE"]'
TEXTS = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*")
ROOT_CRATE = "bolide-py"


def apply(tree: Path) -> None:
    """Write the texts into a copy of the sources, and name the file in its pyproject.toml.

    Raises: ValueError if pyproject.toml has no place for it, or a crate has no text.
    """
    project = tree / "pyproject.toml"
    text = project.read_text()
    if text.count(LICENSE_FILES) != 1:
        raise ValueError(f"pyproject.toml: no single {LICENSE_FILES}")
    named = LICENSE_FILES.replace("]", f', "{NAME}"]')
    project.write_text(text.replace(LICENSE_FILES, named))
    (tree / NAME).write_text("\n".join(notice(each) for each in crates(tree)))


def crates(tree: Path) -> list[dict[str, Any]]:
    """Return what cargo knows of each crate of others that the core is linked with, by name."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    done = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, check=True)
    known = json.loads(done.stdout)
    packages = {each["id"]: each for each in known["packages"]}
    nodes = {each["id"]: each for each in known["resolve"]["nodes"]}
    waiting = [each for each, package in packages.items() if package["name"] == ROOT_CRATE]
    linked: set[str] = set()
    while waiting:
        node = waiting.pop()
        if node not in linked and not _runs_at_build(packages[node]):
            linked.add(node)
            waiting += _linked_with(nodes[node])
    found = [packages[each] for each in linked if packages[each]["source"] is not None]
    return sorted(found, key=lambda each: (each["name"], each["version"]))


def _linked_with(node: dict[str, Any]) -> Iterator[str]:
    """Yield the dependencies that are neither for tests nor for build scripts, nor for Windows."""
    for each in node["deps"]:
        for kind in each["dep_kinds"]:
            if kind["kind"] is None and "windows" not in (kind["target"] or ""):
                yield each["pkg"]


def _runs_at_build(package: dict[str, Any]) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


def notice(package: dict[str, Any]) -> str:
    """Return a crate's name and the text of its license: MIT where it offers that, or all.

    Raises: ValueError if there is none.
    """
    folder = Path(package["manifest_path"]).parent
    files = sorted({path for pattern in TEXTS for path in folder.glob(pattern) if path.is_file()})
    offered = re.split(r" OR |/", package["license"] or "")
    mit = [path for path in files if "MIT" in path.name.upper()]
    if "MIT" in offered and mit:
        files = mit
    if not files:
        raise ValueError(f"{package['name']}: no license text")
    title = f"{package['name']} {package['version']} ({package['license']})"
    texts = [path.read_text().strip() for path in files]
    return "\n\n".join([f"{title}\n{'=' * len(title)}", *texts, ""])
