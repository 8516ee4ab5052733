"""How a target becomes an application."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide import App
from bolide.errors import ConfigError
from bolide.importer import LoadError, load

APP = "from bolide import App\napp = App()\n"


@pytest.fixture(autouse=True)
def _fresh_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_file_is_the_same_module_as_its_import(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    app = load("shop.py")
    assert isinstance(app, App)
    assert load("shop:app") is app
    assert load(str(tmp_path / "shop.py")) is app


def test_file_with_the_name_of_a_library_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(APP)
    assert isinstance(load("json.py"), App)
    import json

    assert json.loads("1") == 1


def test_file_in_a_package_may_import_its_neighbours(tmp_path: Path) -> None:
    package = tmp_path / "src" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "parts.py").write_text(APP)
    (package / "main.py").write_text("from .parts import app as application\n")
    assert isinstance(load("src/shop/main.py:application"), App)
    assert "shop.main" in sys.modules


def test_details_begin_in_the_users_code(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def f():\n    1 / 0\nf()\n")
    for target in ("bad", "bad.py"):
        with pytest.raises(LoadError) as caught:
            load(target)
        lines = caught.value.details.splitlines()
        assert lines[1].endswith('bad.py", line 3, in <module>')
        assert lines[-1] == "ZeroDivisionError: division by zero"
    assert "bad" not in sys.modules


def test_file_given_as_a_module(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no module named 'shop.nothing'|no module named 'shop'"):
        load("shop.nothing")
