"""Collects the license texts of the crates that are compiled into the core, which ask for that."""

from __future__ import annotations

import json
import re
import subprocess
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
    known = json.loads(_cargo(tree, "metadata", "--format-version", "1"))
    linked = _linked(tree)
    found = [
        each
        for each in known["packages"]
        if each["source"] is not None and (each["name"], each["version"]) in linked
    ]
    return sorted(found, key=lambda each: (each["name"], each["version"]))


def _linked(tree: Path) -> set[tuple[str, str]]:
    """Return names and versions of what is compiled with the features that are used.

    `cargo metadata` also has what features that are off would need.
    """
    edges = "normal,no-proc-macro"
    text = _cargo(tree, "tree", "--package", ROOT_CRATE, "--edges", edges, "--prefix", "none")
    return {(name, version) for name, version in re.findall(r"^(\S+) v(\S+)", text, re.MULTILINE)}


def _cargo(tree: Path, command: str, *arguments: str) -> str:
    line = ["cargo", command, "--locked", *arguments]
    return subprocess.run(line, cwd=tree, stdout=subprocess.PIPE, check=True, text=True).stdout


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
