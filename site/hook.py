"""Adds the pages that are outside of docs/ to the site, and points links at them.

mkdocs calls these functions by their names.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    "README.md": "readme.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "license.md",
    "benches/README.md": "benches.md",
}
"""Files of the repository, and the pages that they become."""
EXAMPLES = "examples"
STYLE = "site.css"
LINK = re.compile(r"(\]\()([^()\s#]+)(#[^()\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and examples outside of the folder of documents, and the style sheet."""
    for name, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    for path in sorted((ROOT / EXAMPLES).glob("*.*")):
        name = f"{EXAMPLES}/{path.name}"
        files.append(File.generated(config, name, content=path.read_text()))
    files.append(File.generated(config, STYLE, content=(ROOT / "site" / STYLE).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links between the files of the repository at the pages of the site."""
    sources = {page: name for name, page in OUTSIDE.items()}
    here = page.file.src_uri
    source = sources.get(here, f"docs/{here}")

    def pointed(match: re.Match[str]) -> str:
        target = match[2]
        if ":" not in target:
            name = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
            to = OUTSIDE.get(name, name.removeprefix("docs/"))
            target = posixpath.relpath(to, posixpath.dirname(here) or ".")
        return f"{match[1]}{target}{match[3] or ''})"

    return LINK.sub(pointed, markdown)
