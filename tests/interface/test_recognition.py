"""Which interface a callable is taken for."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest

from bolide import App
from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.interface.asgi import AsgiApplication
from bolide.interface.mounted import MountedApplication
from bolide.interface.recognition import application, is_coroutine_function, recognize


async def coroutine_function(scope: Any, receive: Any, send: Any) -> None: ...
def gives_an_awaitable(scope: Any, receive: Any, send: Any) -> Awaitable[None]: ...
async def configured(prefix: str, scope: Any, receive: Any, send: Any) -> None: ...
async def optional(scope: Any, receive: Any = None, send: Any = None) -> None: ...
def wsgi(environ: Any, start_response: Any) -> list[bytes]: ...
def wsgi_generator(environ: Any, start_response: Any) -> Iterator[bytes]:
    yield b""


def wsgi_with_options(environ: Any, start_response: Any, debug: bool = False) -> list[bytes]: ...
async def any_number(*arguments: Any) -> None: ...


class Asgi:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...
    async def method(self, scope: Any, receive: Any, send: Any) -> None: ...
    @classmethod
    async def of_class(cls, scope: Any, receive: Any, send: Any) -> None: ...
    @staticmethod
    async def static(scope: Any, receive: Any, send: Any) -> None: ...


class Endpoint:
    """An application whose calls are instances, as PEP 3333 and some frameworks have them."""

    def __init__(self, scope: Any, receive: Any, send: Any) -> None: ...
    def __await__(self) -> Iterator[Any]: ...


class WsgiEndpoint:
    def __init__(self, environ: Any, start_response: Any) -> None: ...
    def __iter__(self) -> Iterator[bytes]: ...


class Wsgi:
    def __call__(self, environ: Any, start_response: Any) -> list[bytes]: ...


def decorated(app: Any) -> Any:
    @functools.wraps(app)
    def wrapper(*arguments: Any) -> Any: ...

    return wrapper


KNOWN = [
    ("native", App()),
    ("asgi", coroutine_function),
    ("asgi", gives_an_awaitable),
    ("asgi", functools.partial(configured, "/")),
    ("asgi", functools.partial(gives_an_awaitable)),
    ("asgi", optional),
    ("asgi", any_number),
    ("asgi", Asgi()),
    ("asgi", Asgi().method),
    ("asgi", Asgi.of_class),
    ("asgi", Asgi.static),
    ("asgi", Endpoint),
    ("asgi", decorated(coroutine_function)),
    ("wsgi", wsgi),
    ("wsgi", wsgi_generator),
    ("wsgi", wsgi_with_options),
    ("wsgi", functools.partial(wsgi)),
    ("wsgi", Wsgi()),
    ("wsgi", WsgiEndpoint),
    ("wsgi", decorated(wsgi)),
]


@pytest.mark.parametrize(("interface", "found"), KNOWN)
def test_known(interface: str, found: Any) -> None:
    assert recognize(found, "app") == interface


class Asgi2:
    def __init__(self, scope: Any) -> None: ...
    async def __call__(self, receive: Any, send: Any) -> None: ...


class Callable0:
    def __call__(self) -> None: ...


def asgi_2(scope: Any) -> Any: ...
async def of_two(environ: Any, start_response: Any) -> None: ...
def of_four(a: Any, b: Any, c: Any, d: Any) -> None: ...
def keyword_only(*, scope: Any, receive: Any, send: Any) -> None: ...
def create_app(config: Any = None, debug: Any = None, name: Any = None) -> None: ...
def wrapper(*arguments: Any, **keywords: Any) -> None: ...


NEITHER = "app is neither a bolide.App nor an ASGI or WSGI application but "
MISTAKES = [
    (Asgi2, "app is an application of ASGI 2, whose callable takes only a scope; wrap it with"),
    (asgi_2, "app is an application of ASGI 2, whose callable takes only a scope; wrap it with"),
    (
        Asgi,
        "app is the class Asgi, not an application; name an instance of it, or use --factory to",
    ),
    (
        Wsgi,
        "app is the class Wsgi, not an application; name an instance of it, or use --factory to",
    ),
    (
        type,
        "app is the class type, whose parameters cannot be read; set the interface with --interf",
    ),
    (create_app, "app can be called without arguments, so it is not an application; if it c"),
    (wrapper, "app takes any number of arguments; set the interface with --interface asgi or "),
    (of_two, f"{NEITHER}the function of_two(environ, start_response)"),
    (of_four, f"{NEITHER}the function of_four(a, b, c, d)"),
    (keyword_only, f"{NEITHER}the function keyword_only(scope, receive, send)"),
    (Callable0(), f"{NEITHER}a {__name__}.Callable0"),
    (pytest, f"{NEITHER}the module pytest"),
    (None, f"{NEITHER}a NoneType"),
]


@pytest.mark.parametrize(("found", "says"), MISTAKES)
def test_mistake_says_what_it_is(found: Any, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        recognize(found, "app")
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def served(found: Any, **options: Any) -> Any:
    return application(found, "app", resolve(options, "flag", environ={}))


@pytest.mark.parametrize("found", [wrapper, type, coroutine_function])
def test_interface_says_what_parameters_do_not(found: Any) -> None:
    assert isinstance(served(found, interface="asgi"), AsgiApplication)


UNFIT = [
    (
        App(),
        "asgi",
        "app is a bolide.web.app.App, not what --interface says; leave --interface out",
    ),
    (Asgi(), "native", f"app is a {__name__}.Asgi, not what --interface says; leave --interface o"),
    (
        wsgi,
        "asgi",
        "app is the function wsgi(environ, start_response), which cannot be called with",
    ),
    (
        None,
        "asgi",
        "app is a NoneType, which cannot be called with 3 arguments as --interface asgi",
    ),
    (Asgi(), "wsgi", f"app is a {__name__}.Asgi, which cannot be called with 2 arguments as --in"),
]


@pytest.mark.parametrize(("found", "interface", "says"), UNFIT)
def test_interface_that_does_not_fit_is_refused(found: Any, interface: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        served(found, interface=interface)
    assert str(caught.value).startswith(says)


def test_what_python_passes_is_spelled_as_a_keyword() -> None:
    for found, options, says in (
        (App(), {"interface": "asgi"}, "not what interface= says; leave interface= out"),
        (None, {"interface": "asgi"}, 'as interface="asgi" says; leave interface= out'),
        (wrapper, {}, 'set the interface with interface="asgi" or interface="wsgi"'),
        (App(), {"root_path": "/a"}, "takes no root_path=; leave it out"),
    ):
        with pytest.raises(ConfigError) as caught:
            application(found, "app", resolve(options, environ={}))
        assert str(caught.value).endswith(says)


@pytest.mark.parametrize(
    ("mounted", "says"),
    [
        (Asgi, "is the class Asgi, not an application; mount an instance of it"),
        (create_app, "if it creates the application, mount what it returns"),
        (wrapper, 'set the interface with interface="asgi" or interface="wsgi"'),
    ],
)
def test_what_is_mounted_has_no_factory(mounted: Any, says: str) -> None:
    app = App()
    app.mount("/a", mounted)
    with pytest.raises(ConfigError) as caught:
        served(app)
    assert str(caught.value).startswith("what is mounted at /a ")
    assert str(caught.value).endswith(says)


def test_native_application_takes_no_root_path() -> None:
    with pytest.raises(ConfigError, match="takes no --root-path; leave it out"):
        served(App(), root_path="/shop")


@pytest.mark.parametrize(
    ("is_one", "found"),
    [
        (True, coroutine_function),
        (True, functools.partial(configured, "/")),
        (True, Asgi()),
        (True, Asgi().method),
        (True, Asgi.of_class),
        (False, gives_an_awaitable),
        (False, decorated(coroutine_function)),
        (False, Endpoint),
        (False, print),
    ],
)
def test_what_gives_a_coroutine(is_one: bool, found: Any) -> None:
    assert is_coroutine_function(found) is is_one


def mounting(found: Any, interface: Any = "auto") -> App:
    """Mount something on a native application."""
    app = App()
    app.mount("/a", found, interface=interface)
    return app


MOUNT_MISTAKES = [
    (3, "auto", "what is mounted at /a is neither a bolide.App nor an ASGI or WSGI application"),
    (Asgi, "auto", "what is mounted at /a is the class Asgi, not an application; "),
    (
        lambda *arguments: None,
        "auto",
        "what is mounted at /a takes any number of arguments; "
        'set the interface with interface="asgi" or interface="wsgi"',
    ),
    (
        wsgi,
        "asgi",
        "what is mounted at /a is the function wsgi(environ, start_response), "
        'which cannot be called with 3 arguments as interface="asgi" says',
    ),
]


@pytest.mark.parametrize(("found", "interface", "says"), MOUNT_MISTAKES)
def test_a_mistake_in_a_mount_names_it(found: Any, interface: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        application(mounting(found, interface), "shop:app", resolve({}))
    assert str(error.value).startswith(says)


@pytest.mark.parametrize(
    ("found", "interface"), [(wsgi, "auto"), (wsgi, "wsgi"), (Asgi(), "auto"), (Asgi(), "asgi")]
)
def test_mounts_are_recognised(found: Any, interface: str) -> None:
    held = application(mounting(found, interface), "shop:app", resolve({}))
    assert isinstance(held, MountedApplication)
