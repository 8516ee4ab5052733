"""How handlers are fitted to patterns."""

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from bolide.errors import RegistrationError, SignatureError
from bolide.web import App, WebSocket
from bolide.web.routing import bind, describe, is_async_callable, parameter_names
from bolide.web.testclient import TestClient


def plain(request: Any, id: int) -> None: ...
async def coroutine(request: Any, id: int) -> None: ...


class Resource:
    """Handlers that are methods."""

    def method(self, request: Any, id: int) -> None:
        """Handle."""

    async def async_method(self, request: Any, id: int) -> None:
        """Handle."""


class AsyncCallable:
    """A handler that is an object."""

    async def __call__(self, request: Any, *, id: int) -> None: ...


class Steps:
    """A coroutine that is not the interpreter's."""

    def __init__(self, coroutine: Any) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Any:
        return self._coroutine.__await__()


class Compiled:
    """A coroutine function as Cython makes it: with the attributes of one, of another type."""

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function)
        del self.__dict__["__wrapped__"]
        self.__code__ = function.__code__
        self.__defaults__, self.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Steps:
        return Steps(self._function(*args, **kwargs))


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def logged_by_keyword(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(request: Any, **kwargs: Any) -> Any:
        return function(request, **kwargs)

    return wrapper


def logged_in_full(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(request: Any) -> Any:
        return function(request, **request.path_params)

    return wrapper


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("/", []),
        ("/a/b.c", []),
        ("/{a}", ["a"]),
        ("/{a:int}/x/{b}/{c:path}", ["a", "b", "c"]),
        ("/{é}", ["é"]),
    ],
)
def test_the_names_of_a_pattern(pattern: str, names: list[str]) -> None:
    assert parameter_names(pattern) == names


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "must begin with a slash"),
        ("a", "must begin with a slash"),
        (None, "must begin with a slash"),
        ("/{a", "has a brace without a parameter"),
        ("/a}", "has a brace without a parameter"),
        ("/{{a}}", "has a brace without a parameter"),
        ("/{}", "without a proper name"),
        ("/{:int}", "without a proper name"),
        ("/{a b}", "without a proper name"),
        ("/{1}", "without a proper name"),
        ("/x/<id>", r"the pattern '/x/<id>': '<id>' is not a parameter; write \{id\}$"),
        ("/x/<int:id>", r"'<int:id>' is not a parameter; write \{id:int\}$"),
        ("/<path:rest>", r"'<path:rest>' is not a parameter; write \{rest:path\}$"),
        ("/<string(length=2):code>/x", r"is not a parameter; write \{code\}$"),
    ],
)
def test_a_malformed_pattern_is_refused(pattern: Any, reason: str) -> None:
    with pytest.raises(RegistrationError, match=reason):
        parameter_names(pattern)


@pytest.mark.parametrize(
    ("handler", "positional", "keyword", "is_async"),
    [
        (plain, ["id"], [], False),
        (coroutine, ["id"], [], True),
        (Resource().method, ["id"], [], False),
        (Resource().async_method, ["id"], [], True),
        (AsyncCallable(), [], ["id"], True),
        (functools.partial(plain), ["id"], [], False),
        (functools.partial(functools.partial(coroutine), id=1), [], ["id"], True),
        (logged(plain), ["id"], [], False),
        (logged(coroutine), ["id"], [], True),
        (logged(AsyncCallable().__call__), [], ["id"], True),
        (functools.partial(logged(coroutine)), ["id"], [], True),
        (logged_by_keyword(plain), [], ["id"], False),
        (logged_in_full(plain), [], [], True),
        (lambda r, id: None, ["id"], [], False),
        (lambda r, id, /: None, ["id"], [], False),
        (lambda r, *, id: None, [], ["id"], False),
        (lambda r, **rest: None, [], ["id"], False),
        (lambda r, *args: None, [], [], False),
        (lambda *args, **kwargs: None, [], ["id"], False),
        (lambda r: None, [], [], False),
        (lambda r, other=1, id=2: None, [], ["id"], False),
        (lambda r, id, other=1: None, ["id"], [], False),
    ],
)
def test_a_handler_is_fitted(
    handler: Callable[..., Any], positional: list[str], keyword: list[str], is_async: bool
) -> None:
    binding = bind(handler, "/{id:int}")
    assert binding.call is handler
    assert (binding.positional, binding.keyword) == (positional, keyword)
    assert binding.is_async is is_async


def test_positions_follow_the_handler_not_the_pattern() -> None:
    assert bind(lambda request, b, a: None, "/{a}/{b}").positional == ["b", "a"]


def test_an_async_generator_is_called_through_a_coroutine() -> None:
    async def parts(request: Any, id: int) -> AsyncIterator[bytes]:
        yield b"a"

    binding = bind(parts, "/{id}")
    assert binding.positional == ["id"]
    assert binding.is_async
    assert inspect.iscoroutinefunction(binding.call)


@pytest.mark.parametrize("wrap", [Compiled, lambda function: logged(Compiled(function))])
def test_a_compiled_coroutine_function_is_awaited(wrap: Callable[[Any], Any]) -> None:
    app = App()

    async def respond(request: Any, name: str) -> str:
        await asyncio.sleep(0)
        return name

    async def converse(websocket: WebSocket) -> None:
        await websocket.send(await websocket.receive())

    app.get("/{name}")(wrap(respond))
    app.websocket("/chat")(wrap(converse))
    with TestClient(app) as client:
        assert client.get("/a").text == "a"
        with client.websocket("/chat") as websocket:
            websocket.send("b")
            assert websocket.receive() == "b"


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (lambda: None, "does not take the request"),
        (lambda *, request: None, "does not take the request"),
        (lambda **kwargs: None, "does not take the request"),
        (lambda id: None, "'id' as its first parameter, which is the request"),
        (lambda r, name: None, "takes 'name', which the pattern /{id} does not have"),
        (lambda r, *, name: None, "takes 'name', which the pattern /{id} does not have"),
        (lambda r, a=1, id=2, /: None, "takes 'id' by position after one"),
        (1, "the handler 1 of /{id} is not callable"),
    ],
)
def test_a_handler_that_does_not_fit_is_refused(handler: Any, reason: str) -> None:
    with pytest.raises(SignatureError, match=reason):
        bind(handler, "/{id}")


def test_a_refusal_names_handler_parameter_and_pattern() -> None:
    with pytest.raises(TypeError) as caught:
        bind(plain, "/users/{name}")
    assert str(caught.value) == (
        f"the handler {__name__}.plain takes 'id', which the pattern /users/{{name}} does not have"
    )


def test_names_for_messages() -> None:
    assert describe(functools.partial(plain)) == f"{__name__}.plain"
    assert describe(Resource().method) == f"{__name__}.Resource.method"
    assert describe(3) == "3"


def test_async_is_seen_only_where_it_is() -> None:
    assert not is_async_callable(plain)
    assert not is_async_callable(AsyncCallable)
    assert is_async_callable(AsyncCallable())
