"""Links between the documents lead somewhere, and every page says whom it is for."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from docs.page import ROOT

LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FOR_WHOM = re.compile(r"This page is for [a-z]")
MKDOCS = re.compile(r"bin/mkdocs build (.+)")
GENERATED = "docs/results/*/report.md"
FIRST_PAGE = "docs/index.md"
"""It starts with what Bolide is, because it is for everyone."""


def listed(*patterns: str) -> list[str]:
    """Return the names of the repository's files."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


PAGES = [name for name in listed("*.md") if not name.startswith(("tests/", "vectors/"))]


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = HEADING.findall(re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S))
    plain = (re.sub(r"[^\w\- ]", "", each.replace("`", "").lower()) for each in headings)
    return {each.strip().replace(" ", "-") for each in plain}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    broken = []
    for target in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        if not to.is_file() or (anchor and anchor not in anchors(to)):
            broken.append(target)
    assert not broken


def test_the_site_is_not_built_with_a_broken_link() -> None:
    command = MKDOCS.search((ROOT / "Makefile").read_text())
    assert command is not None
    assert "--strict" in command[1]
    assert "--quiet" not in command[1], "a warning that is not shown is no error"


@pytest.mark.parametrize(
    "name",
    [
        each
        for each in listed("docs/*.md")
        if each != FIRST_PAGE and not Path(each).match(GENERATED)
    ],
)
def test_a_page_begins_with_whom_it_is_for(name: str) -> None:
    title, _, text = (ROOT / name).read_text().partition("\n\n")
    assert title.startswith("# ")
    assert FOR_WHOM.match(text), text[:80]


def test_proofs_exist() -> None:
    page = (ROOT / "docs/behaviour.md").read_text()
    names = set(re.findall(r"`([a-z][a-z0-9_]{8,})`", page))
    files = set(re.findall(r"`([\w/.]+\.(?:rs|py|toml))`", page))
    sources = listed("crates", "tests", "vectors")
    words = {
        word
        for name in sources
        for word in re.findall(r"\w{9,}", (ROOT / name).read_text("utf-8", "replace"))
    }
    assert len(names) > 50 and len(files) > 20
    assert not sorted(names - words)
    assert not [name for name in sorted(files) if not any(each.endswith(name) for each in sources)]
