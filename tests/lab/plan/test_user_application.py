"""A user's own application: what it speaks, and what is said of one that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.errors import ConfigError
from bolide.lab.plan import user_application
from bolide.lab.plan.user_application import UserApplication

pytestmark = pytest.mark.slow


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a module that can be imported from this folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine.py"


@pytest.mark.parametrize(
    ("source", "interface"),
    [
        ("def app(environ, start_response): ...", "wsgi"),
        ("async def app(scope, receive, send): ...", "asgi"),
        ("class A:\n async def __call__(self, scope, receive, send): ...\napp = A()", "asgi"),
        ("class A:\n def __call__(self, environ, start_response): ...\napp = A()", "wsgi"),
        ("def app(scope, receive, send): ...", "asgi"),
        ("import bolide\napp = bolide.App()", "native"),
    ],
)
def test_the_interface_is_detected(source: str, interface: str, module: Path) -> None:
    module.write_text(source)
    found = user_application.find("mine", None)
    folder = module.parent
    assert found == UserApplication("mine:app", interface, folder, import_folders=(folder,))


@pytest.mark.parametrize(("package", "name"), [(False, "mine:app"), (True, "shop.mine:app")])
def test_a_file_is_imported_from_the_folder_of_its_package(
    package: bool, name: str, module: Path
) -> None:
    folder = module.parent / "shop"
    folder.mkdir()
    (folder / "mine.py").write_text("def app(environ, start_response): ...")
    if package:
        (folder / "__init__.py").touch()
    found = user_application.find("shop/mine.py", None)
    folders = (module.parent,) if package else (folder, module.parent)
    assert found == UserApplication(name, "wsgi", module.parent, folders)


def test_an_attribute_of_an_attribute(module: Path) -> None:
    module.write_text("class A:\n def app(environ, start_response): ...")
    assert user_application.find("mine:A.app", None).app == "mine:A.app"


NOISE = """
import atexit, sys, threading
print("asgi")
sys.stdout.buffer.write(b"\\xff\\n")
atexit.register(print, "native")
threading.Thread(target=threading.Event().wait).start()
def app(environ, start_response): ...
"""


def test_what_a_module_prints_starts_and_leaves_does_not_count(module: Path) -> None:
    module.write_text(NOISE)
    assert user_application.find("mine", None).interface == "wsgi"


def test_what_is_said_counts(module: Path) -> None:
    module.write_text("app = 5")
    assert user_application.find("mine", "asgi").interface == "asgi"


@pytest.mark.parametrize(
    ("text", "source", "message"),
    [
        (
            "mine:app",
            "app = 5",
            "mine:app is not an application; if it is, give --interface asgi or wsgi",
        ),
        (
            "mine:other",
            "",
            "cannot import mine:other: AttributeError: module 'mine' has no attribute 'other'; "
            "name the application: --app mine:NAME",
        ),
        ("mine", "1 / 0", "cannot import mine:app: ZeroDivisionError: division by zero"),
        ("mine", "def", "cannot import mine:app: SyntaxError: invalid syntax"),
        ("mine", "raise SystemExit('not today')", "cannot import mine:app: not today"),
        ("mine", "raise SystemExit(3)", "cannot import mine:app: it ended with 3"),
        ("mine", "raise SystemExit(0)", "cannot import mine:app: it ended with 0"),
        ("mine", "import os\nos.abort()", "cannot import mine:app: it ended with -6"),
        (
            "mine.",
            "",
            "cannot import mine.:app: ModuleNotFoundError:"
            " No module named 'mine.'; 'mine' is not a package",
        ),
        (
            "./mine.py",
            "",
            "cannot import mine:app: AttributeError: module 'mine' has no attribute 'app'; "
            "name the application: --app ./mine.py:NAME",
        ),
        ("", "", "--app needs module:attribute, such as mysite.wsgi:application; got ''"),
        ("-c:x", "", "--app needs module:attribute, such as mysite.wsgi:application; got '-c:x'"),
    ],
)
def test_what_is_none_is_one_line(text: str, source: str, message: str, module: Path) -> None:
    module.write_text(source)
    with pytest.raises(ConfigError) as caught:
        user_application.find(text, None)
    assert str(caught.value) == message


def test_one_that_takes_too_long_is_ended(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_application, "IMPORT_S_MAX", 0.3)
    module.write_text("import time\ntime.sleep(60)")
    with pytest.raises(ConfigError, match=r"importing mine takes more than 0\.3 s"):
        user_application.find("mine", None)
