"""How a target becomes an application."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide import App
from bolide.config.settings import Channel, resolve
from bolide.errors import ConfigError
from bolide.interface import Application
from bolide.server.development.selection import Selection
from bolide.server.importer import LoadError
from bolide.server.importer import load as load_with

APP = "from bolide import App\napp = App()\n"


def load(target: str, channel: Channel = "flag", **options: object) -> Application:
    return load_with(target, resolve(options, channel, environ={}))


@pytest.fixture(autouse=True)
def _fresh_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        monkeypatch.delitem(sys.modules, name)
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


FACTORIES = """\
from bolide import App
def create_app(name="x"): return App()
def needy(config): return App()
async def waits(): return App()
def fails(): return 1 / 0
def nothing(): pass
app = App()
class Holder:
    make = staticmethod(create_app)
"""


@pytest.mark.parametrize("target", ["shop", "shop.py", "shop:create_app", "shop:Holder.make"])
def test_factory_is_called(tmp_path: Path, target: str) -> None:
    (tmp_path / "shop.py").write_text(FACTORIES)
    assert isinstance(load(target, factory=True), App)


FACTORY_MISTAKES = [
    ("app", True, "shop:app is a bolide.web.app.App, not a factory; leave --factory out"),
    ("__name__", True, "shop:__name__ is a str, not a factory"),
    ("needy", True, "shop:needy needs arguments; a factory must take no arguments: "),
    ("waits", True, "shop:waits is a coroutine function, which cannot be a factory; "),
    ("fails", True, "calling shop:fails failed: ZeroDivisionError: division by zero"),
    ("nothing", True, "the object that shop:nothing returns is neither a bolide.App nor an"),
    ("create_app", False, "shop:create_app can be called without arguments, so it is not an "),
    ("create_app()", False, "'shop:create_app()' is a call; give shop:create_app with --factory"),
    ("create_app('a')", True, "\"shop:create_app('a')\" is a call; give shop:create_app with --f"),
    ("Holder", False, "shop:Holder is the class Holder, not an application; name an instance"),
]


@pytest.mark.parametrize(("attribute", "factory", "says"), FACTORY_MISTAKES)
def test_factory_by_mistake(tmp_path: Path, attribute: str, factory: bool, says: str) -> None:
    (tmp_path / "shop.py").write_text(FACTORIES)
    with pytest.raises(ConfigError) as caught:
        load(f"shop:{attribute}", factory=factory)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_details_of_a_factory_begin_in_the_users_code(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(FACTORIES)
    with pytest.raises(LoadError) as caught:
        load("shop:fails", factory=True)
    assert caught.value.details.splitlines()[1].endswith('shop.py", line 5, in fails')


CALLABLE = "class C:\n    async def __call__(self, scope, receive, send): ...\n"
PROXY = """\
class P:
    def __call__(self, *_): ...
    def __getattribute__(self, name): raise RuntimeError(name)
"""
HINTS = [
    ("from bolide import App\nweb = App()", "it has 'web': `bolide serve shop:web`"),
    (
        "async def application(scope, receive, send): ...",
        "it has 'application': `bolide serve shop:application`",
    ),
    ("def wsgi(environ, start_response): ...", "it has 'wsgi': `bolide serve shop:wsgi`"),
    ("async def web(scope, receive, send): ...", "it has 'web': `bolide serve shop:web`"),
    ("def handler(scope, receive, send): ...", "name the application: shop:NAME"),
    (f"{CALLABLE}c = C()", "it has 'c': `bolide serve shop:c`"),
    (f"{CALLABLE}b = C()\na = C()", "it has 'b' and 'a': `bolide serve shop:b`"),
    (
        f"{CALLABLE}a = b = c = d = C()",
        "it has 'a' and 'b' and 'c' and others: `bolide serve shop:a`",
    ),
    (
        f"from bolide import App\n{CALLABLE}a = C()\nweb = App()\napplication = C()",
        "it has 'application' and 'web' and 'a': `bolide serve shop:application`",
    ),
    (
        "def create_app(): ...",
        "it has the factory 'create_app': `bolide serve shop:create_app --factory`",
    ),
    (f"{PROXY}p = P()", "name the application: shop:NAME"),
    ("def _app(scope, receive, send): ...", "name the application: shop:NAME"),
]


@pytest.mark.parametrize(("source", "hint"), HINTS)
def test_missing_attribute_hints_at_another(tmp_path: Path, source: str, hint: str) -> None:
    (tmp_path / "shop.py").write_text(source)
    with pytest.raises(ConfigError) as caught:
        load("shop")
    assert str(caught.value) == f"shop has no attribute 'app'; {hint}"


def test_missing_factory_asks_for_a_factory(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("x = 1\n")
    with pytest.raises(ConfigError, match="'create_app'; name the factory: shop:NAME$"):
        load("shop", factory=True)


def test_an_exception_without_text_has_no_colon(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(LoadError, match="^importing shop failed: KeyboardInterrupt$"):
        load("shop")


UNREADABLE = """
class Mute(Exception):
    def __str__(self): raise ValueError
raise Mute
"""


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (UNREADABLE, "importing shop failed: Mute: (no text: its __str__ raised ValueError)"),
        ("raise ValueError('first\\nsecond')", "importing shop failed: ValueError: first"),
        (
            "def __getattr__(name): raise RuntimeError(name)",
            "reading 'app' of shop failed: RuntimeError: app",
        ),
    ],
)
def test_what_a_module_raises_is_one_line(tmp_path: Path, source: str, says: str) -> None:
    (tmp_path / "shop.py").write_text(source)
    with pytest.raises(LoadError) as caught:
        load("shop")
    assert str(caught.value) == says
    assert 'shop.py", line' in caught.value.details


@pytest.mark.parametrize(
    ("source", "factory", "says"),
    [
        (f"{APP}web = app\ndel app\n", False, "'app'; it has 'web': give 'shop.py:web'"),
        (APP, True, "'create_app'; it has 'app': give 'shop.py:app' without factory=True"),
        (
            "def make_app(): ...\n",
            True,
            "'create_app'; it has the factory 'make_app': give 'shop.py:make_app' and factory=True",
        ),
        (
            f"{APP}def make_app(): ...\n",
            True,
            "'create_app'; it has the factory 'make_app': give 'shop.py:make_app' and factory=True",
        ),
    ],
)
def test_what_python_passes_is_spelled_as_a_keyword(
    tmp_path: Path, source: str, factory: bool, says: str
) -> None:
    (tmp_path / "shop.py").write_text(source)
    with pytest.raises(ConfigError) as caught:
        load("shop.py", "keyword", factory=factory)
    assert str(caught.value) == f"shop.py has no attribute {says}"


def test_an_attribute_of_an_attribute_is_not_looked_for_there(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(f"{APP}class Holder: ...\n")
    with pytest.raises(ConfigError) as caught:
        load("shop:Holder.web")
    assert str(caught.value) == (
        "shop:Holder has no attribute 'web'; shop has 'app': `bolide serve shop:app`"
    )


KEYWORD_MISTAKES = [
    ("app", True, "is a bolide.web.app.App, not a factory; leave factory=True out"),
    ("create_app()", False, "is a call; give shop:create_app with factory=True, which calls it wi"),
    ("create_app", False, "if it creates the application, use factory=True"),
    ("Holder", False, "name an instance of it, or use factory=True to create one"),
    ("needy", True, "leave factory=True out if it is an application"),
]


@pytest.mark.parametrize(("attribute", "factory", "says"), KEYWORD_MISTAKES)
def test_a_mistake_in_python_is_spelled_as_a_keyword(
    tmp_path: Path, attribute: str, factory: bool, says: str
) -> None:
    (tmp_path / "shop.py").write_text(FACTORIES)
    with pytest.raises(ConfigError) as caught:
        load(f"shop:{attribute}", "keyword", factory=factory)
    assert says in str(caught.value)
    assert "--" not in str(caught.value)


def mistake(target: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(target)
    return str(caught.value)


def test_a_project_of_django(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    for name in ("__init__.py", "asgi.py", "wsgi.py"):
        (tmp_path / "shop" / name).touch()
    (tmp_path / "manage.py").write_text("def main(): ...\n")
    assert mistake("shop") == "shop has no attribute 'app'; did you mean shop.wsgi:application?"
    assert mistake("shop/") == "'shop/' is a folder; did you mean shop/wsgi.py:application?"
    for target in ("manage.py", "manage"):
        assert mistake(target) == (
            f"{target} has no attribute 'app'; it is Django's command, so give its project, as in "
            "mysite.wsgi:application"
        )


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("api.main:app", "it is in api/: `bolide serve api/main.py`"),
        ("api.main:web", "it is in api/: `bolide serve api/main.py:web`"),
        ("shop.main", "it is in shop/: import it as shop.store"),
        ("api.other", f"(Bolide runs in {sys.prefix}; install it there)"),
    ],
)
def test_a_module_beside_the_one_that_imports_it(tmp_path: Path, target: str, hint: str) -> None:
    for name in ("api", "shop"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.py").write_text("from store import Store\n")
        (tmp_path / name / "store.py").write_text("Store = 1\n")
    (tmp_path / "shop/__init__.py").touch()
    (tmp_path / "api/other.py").write_text("import not_there\n")
    assert mistake(target).endswith(hint)


def test_a_file_without_its_suffix(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    (tmp_path / "api/main.py").write_text(APP)
    assert mistake("api/main:web") == "no file api/main; did you mean api/main.py:web?"
    assert mistake("api/other") == f"no file api/other in {tmp_path}"


def test_the_current_folder_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.py").write_text(APP)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert mistake("main.py") == (
        "no file main.py: the current folder was removed; change to another one"
    )
    assert mistake("not_there:app") == (
        "no module named 'not_there' in the current folder, which was removed, or the installed "
        "packages"
    )
    assert isinstance(load(str(tmp_path / "shop.py")), App)
    with pytest.raises(ConfigError, match=r"^reload: the current folder was removed; change to"):
        Selection.of(resolve({"reload": True}, environ={}), "shop:app")
    monkeypatch.chdir(tmp_path)


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "shop/main.py").write_text(APP)
    assert mistake("shop/") == "'shop/' is a folder; did you mean shop/main.py?"
    assert mistake("empty/") == (
        "'empty/' is a folder; give the application's file in it, such as empty/main.py:app"
    )
    assert mistake(".").startswith("'.' is a folder; give the application's file in it, such as m")
    assert mistake("empty") == (
        "empty has no attribute 'app'; it is a package, so give a module in it, such as "
        "empty.main:app"
    )


@pytest.mark.parametrize(
    ("target", "file", "line", "instead"),
    [
        ("shop_main", "shop_main.py", "from .parts import x", "{}.shop_main"),
        ("shop_main.py", "shop_main.py", "from . import parts", "{}.shop_main"),
        ("shop.main", "shop/main.py", "from ..parts import x", "{}.shop.main"),
        ("shop", "shop/__init__.py", "from ..parts import x", "{}.shop"),
    ],
)
def test_relative_import_outside_a_package(
    target: str,
    file: str,
    line: str,
    instead: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "site"
    (folder / file).parent.mkdir(parents=True)
    (folder / file).write_text(line + "\n" + APP)
    monkeypatch.chdir(folder)
    hint = f"`cd {tmp_path}; bolide serve {instead.format('site')}`"
    says = f"; import without the leading dots, or start one folder higher: {hint}"
    assert mistake(target).endswith(says)


def test_relative_import_in_a_folder_that_cannot_be_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my-shop").mkdir()
    monkeypatch.chdir(tmp_path / "my-shop")
    Path("shop_main.py").write_text("from .parts import x\n")
    assert mistake("shop_main").endswith("package; import without the leading dots")
