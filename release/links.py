"""Makes README's links absolute and adds [project.urls], for the address that a release is made at.

A package index shows README without the files around it, so its relative links would lead nowhere
there. The address is known when a release is made (the workflow passes it), not before, and the
links name the release's tag, so that they show the documents of that version.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|#", re.IGNORECASE)
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
URLS_BEFORE = "[project.scripts]"


def relative_targets(text: str) -> list[str]:
    """Return the links and images of a Markdown text that only work beside its files."""
    found = [each["target"] for part in _prose(text) for each in LINK.finditer(part)]
    return [target for target in found if not ABSOLUTE.match(target)]


def absolute(text: str, repository: str, tag: str) -> str:
    """Return a Markdown text whose relative links lead to a tag of a repository's web pages."""

    def replaced(match: re.Match[str]) -> str:
        target = match["target"]
        if ABSOLUTE.match(target):
            return match[0]
        view = "raw" if match["image"] else "blob"
        address = f"{repository}/{view}/{tag}/{posixpath.normpath(target)}"
        return f"{match['image']}[{match['text']}]({address})"

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(replaced, part) for part in parts)


def urls(repository: str, tag: str) -> str:
    """Return the table [project.urls] of pyproject.toml."""
    pages = {
        "Homepage": repository,
        "Documentation": f"{repository}/tree/{tag}/docs",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
    return "\n".join(["[project.urls]", *(f'{name} = "{url}"' for name, url in pages.items())])


def apply(tree: Path, repository: str, tag: str) -> None:
    """Write both into a copy of the sources.

    Raises: ValueError if pyproject.toml names addresses already, or has no place for them.
    """
    project = tree / "pyproject.toml"
    text = project.read_text()
    lines = text.splitlines()
    if "[project.urls]" in lines or lines.count(URLS_BEFORE) != 1:
        raise ValueError(f"pyproject.toml: no single {URLS_BEFORE} to put [project.urls] before")
    lines.insert(lines.index(URLS_BEFORE), f"{urls(repository, tag)}\n")
    project.write_text("\n".join([*lines, ""]))
    readme = tree / "README.md"
    readme.write_text(absolute(readme.read_text(), repository, tag))


def _prose(text: str) -> list[str]:
    return [part for part in FENCE.split(text) if not part.startswith("```")]
