"""Collects license texts and names of the crates that are compiled into the core, as they ask."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

NAME = "LICENSES-OF-CRATES.txt"
LICENSE = 'license = "MIT"'
LICENSE_FILES = 'license-files = ["LICENSE"]'
TEXTS = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*")
ROOT_CRATE = "bolide-py"


def apply(tree: Path) -> None:
    """Write the texts into a copy of the sources; name file and licenses in its pyproject.toml.

    Raises: ValueError if pyproject.toml has no place for that, or a crate has no text.
    """
    project = tree / "pyproject.toml"
    text = project.read_text()
    for line in (LICENSE, LICENSE_FILES):
        if text.count(f"\n{line}\n") != 1:
            raise ValueError(f"pyproject.toml: no single {line}")
    linked = crates(tree)
    expression = " AND ".join(sorted(set().union(*map(licenses, linked), {"MIT"})))
    text = text.replace(f"\n{LICENSE}\n", f'\nlicense = "{expression}"\n')
    text = text.replace(LICENSE_FILES, LICENSE_FILES.replace("]", f', "{NAME}"]'))
    project.write_text(text)
    (tree / NAME).write_text("\n".join(map(notice, linked)))


def licenses(package: dict[str, Any]) -> set[str]:
    """Return the licenses that apply to a crate (SPDX): MIT, or the first, of those offered.

    Raises: ValueError if it has none, or they are nested more deeply than in one pair of brackets.
    """

    def chosen(offer: re.Match[str]) -> str:
        offered = re.split(r" OR |/", offer[1])
        return "MIT" if "MIT" in offered else offered[0]

    plain = re.sub(r"\(([^()]*)\)", chosen, package["license"] or "")
    parts = [re.sub(r"^(.*)$", chosen, part) for part in plain.split(" AND ")]
    if not all(re.fullmatch(r"[\w.-]+( WITH [\w.-]+)?", part) for part in parts):
        raise ValueError(f"{package['name']}: license {package['license']!r}")
    return set(parts)


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
