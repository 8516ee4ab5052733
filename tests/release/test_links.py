"""README's links on a package index: absolute, for the release's tag; pyproject names the same."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://forge.example/team/bolide"


@pytest.fixture(scope="module")
def links() -> ModuleType:
    """Import release/links.py, which is not part of a package."""
    spec = importlib.util.spec_from_file_location("links", ROOT / "release/links.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](docs/a.md)", f"[a]({REPOSITORY}/blob/v1/docs/a.md)"),
        ("[a](./docs/a.md#part)", f"[a]({REPOSITORY}/blob/v1/docs/a.md#part)"),
        ("[`a`](docs/) b", f"[`a`]({REPOSITORY}/blob/v1/docs) b"),
        ("![a](docs/a.svg)", f"![a]({REPOSITORY}/raw/v1/docs/a.svg)"),
        ("[a](https://example.org/b)", "[a](https://example.org/b)"),
        ("[a](#start)", "[a](#start)"),
        ("```\n[a](b)\n```", "```\n[a](b)\n```"),
        ("no link: a[1](2", "no link: a[1](2"),
    ],
)
def test_relative_links_become_absolute(links: ModuleType, text: str, expected: str) -> None:
    assert links.absolute(text, REPOSITORY, "v1") == expected
    assert links.relative_targets(expected) == []


def test_the_sources_of_a_release_name_their_addresses(links: ModuleType, tmp_path: Path) -> None:
    for name in ("README.md", "pyproject.toml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    assert links.relative_targets((tmp_path / "README.md").read_text())
    links.apply(tmp_path, REPOSITORY, "v0.1.0")
    readme = (tmp_path / "README.md").read_text()
    assert links.relative_targets(readme) == []
    assert f"]({REPOSITORY}/blob/v0.1.0/CHANGELOG.md)" in readme
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    assert project["project"].pop("urls") == {
        "Homepage": REPOSITORY,
        "Documentation": f"{REPOSITORY}/tree/v0.1.0/docs",
        "Changelog": f"{REPOSITORY}/blob/v0.1.0/CHANGELOG.md",
        "Issues": f"{REPOSITORY}/issues",
    }
    assert project == tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_addresses_are_not_written_twice(links: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project.urls]\n[project.scripts]\n")
    with pytest.raises(ValueError, match=r"no single \[project\.scripts\]"):
        links.apply(tmp_path, REPOSITORY, "v0.1.0")
