"""Which files restart the workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.config.settings import resolve
from bolide.server.development.selection import Selection


@pytest.mark.parametrize(
    "name",
    ["shop.py", "shop/views.py", "a folder/ä.py", "venv_of_mine/x.py", "tests/test_shop.py"],
)
def test_python_files_count(tmp_path: Path, name: str) -> None:
    assert Selection((str(tmp_path),)).counts(str(tmp_path / name))


@pytest.mark.parametrize(
    "name",
    [
        "shop.html",
        "shop.pyc",
        "py",
        ".venv/lib/python3.11/site-packages/x.py",
        "lib/python3.11/site-packages/x.py",
        "env/lib/x.py",  # it has a pyvenv.cfg
        ".git/hooks/x.py",
        "node_modules/x/y.py",
        "__pycache__/shop.cpython-311.pyc",
        ".#shop.py",
        "#shop.py#",
        "shop.py~",
        ".shop.py.swp",
        "4913",
        "flycheck_shop.py",
        "shop.py___jb_tmp___",
    ],
)
def test_other_files_do_not_count(tmp_path: Path, name: str) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    assert not Selection((str(tmp_path),)).counts(str(tmp_path / name))


def test_a_watched_folder_may_itself_be_hidden_or_an_environment(tmp_path: Path) -> None:
    folder = tmp_path / ".hidden" / "node_modules"
    folder.mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    assert Selection((str(folder),)).counts(str(folder / "shop.py"))


@pytest.mark.parametrize(
    ("pattern", "name", "counts"),
    [
        ("*.html", "templates/shop.html", True),
        ("*.html", "templates/.shop.html.swp", False),
        ("templates/*.txt", "shop/templates/a.txt", True),
        ("templates/*.txt", "a.txt", False),
        ("*", "anything", True),
        ("*", "anything~", False),
        ("*", ".git/index", False),
        (".env", ".env", True),
        ("bolide.toml", "bolide.toml", True),
        ("data", "data/prices.csv", True),
        ("data/", "data/prices.csv", True),
    ],
)
def test_included_patterns(tmp_path: Path, pattern: str, name: str, counts: bool) -> None:
    selection = Selection((str(tmp_path),), include=[pattern])
    assert selection.counts(str(tmp_path / name)) is counts


@pytest.mark.parametrize(
    ("pattern", "name", "counts"),
    [
        ("tests", "tests/test_shop.py", False),
        ("tests/", "tests/deep/test_shop.py", False),
        ("tests/*", "tests/test_shop.py", False),
        ("test_*.py", "shop/test_shop.py", False),
        ("test_*.py", "shop/shop.py", True),
        ("*.py", "shop.py", False),
    ],
)
def test_excluded_patterns(tmp_path: Path, pattern: str, name: str, counts: bool) -> None:
    selection = Selection((str(tmp_path),), exclude=[pattern])
    assert selection.counts(str(tmp_path / name)) is counts


def test_an_excluded_folder_may_be_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    selection = Selection((str(tmp_path),), exclude=[str(tmp_path / "a")])
    assert not selection.counts(str(tmp_path / "a" / "x.py"))
    assert selection.counts(str(tmp_path / "b" / "a.py"))


def watched(target: str, **settings: object) -> tuple[str, ...]:
    return Selection.of(resolve({"reload": True, **settings}, environ={}), target).folders


def test_the_current_folder_is_watched_or_that_of_a_file_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "elsewhere" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert watched("shop:app") == (str(here),)
    assert watched("src/shop.py") == (str(here),)
    assert watched(f"{package}/main.py:app") == (str(tmp_path / "elsewhere"),)
    assert watched("shop:app", reload_dir=["../elsewhere", "."]) == (
        str(tmp_path / "elsewhere"),
        str(here),
    )
