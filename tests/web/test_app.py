"""Routes, return values and hooks of an application, through the real server."""

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from bolide.errors import RegistrationError, SignatureError
from bolide.web import App, Request, Response
from bolide.web.testclient import Result, TestClient

JSON = "application/json"
OCTETS = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"


def numbers() -> Iterator[str | bytes]:
    yield "1é"
    yield b""
    yield b"2"


async def async_numbers() -> AsyncIterator[str | bytes]:
    for number in numbers():
        await asyncio.sleep(0)
        yield number


def get(app: App, path: str = "/") -> Result:
    with TestClient(app) as client:
        return client.get(path)


VALUES: list[tuple[Callable[[], Any], int, str | None, bytes]] = [
    (lambda: "é", 200, TEXT, b"\xc3\xa9"),
    (lambda: "", 200, TEXT, b""),
    (lambda: b"\xff", 200, OCTETS, b"\xff"),
    (lambda: {"a": [1, 2.5, None, True]}, 200, JSON, b'{"a":[1,2.5,null,true]}'),
    (lambda: [], 200, JSON, b"[]"),
    (lambda: None, 204, None, b""),
    (lambda: ("made", 201), 201, TEXT, b"made"),
    (lambda: ({"a": 1}, 202), 202, JSON, b'{"a":1}'),
    (lambda: (None, 404), 404, None, b""),
    (lambda: Response(b"x", 203, {"x-a": "1"}, "a/b"), 203, "a/b", b"x"),
    (lambda: Response(), 200, None, b""),
    (lambda: Response(json=None), 200, JSON, b"null"),
    (lambda: Response(numbers(), content_type="text/csv"), 200, "text/csv", b"1\xc3\xa92"),
    (lambda: Response(async_numbers()), 200, OCTETS, b"1\xc3\xa92"),
    (lambda: Response(iter([])), 200, OCTETS, b""),
]


@pytest.mark.parametrize(("make", "status", "content_type", "content"), VALUES)
@pytest.mark.parametrize("is_async", [False, True])
def test_return_values(
    make: Callable[[], Any],
    status: int,
    content_type: str | None,
    content: bytes,
    is_async: bool,
) -> None:
    async def async_handler(request: Request) -> Any:
        await asyncio.sleep(0)
        return make()

    app = App()
    app.get("/")(async_handler if is_async else lambda request: make())
    result = get(app)
    assert (result.status, result.content) == (status, content)
    assert result.headers.get("content-type") == content_type


@pytest.mark.parametrize("make", [numbers, async_numbers])
def test_an_iterator_is_sent_in_chunks(make: Callable[[], Any]) -> None:
    app = App()
    app.get("/")(lambda request: make())
    result = get(app)
    assert (result.status, result.content) == (200, b"1\xc3\xa92")
    assert result.headers["transfer-encoding"] == "chunked"
    assert "content-length" not in result.headers


def test_generator_functions_are_handlers() -> None:
    app = App()

    @app.get("/sync")
    def sync_parts(request: Request) -> Iterator[str]:
        yield "a"
        yield request.path

    @app.get("/async")
    async def async_parts(request: Request) -> AsyncIterator[str]:
        yield "a"
        yield request.path

    with TestClient(app) as client:
        assert client.get("/sync").text == "a/sync"
        assert client.get("/async").text == "a/async"


def test_an_async_generator_function_reads_as_async_handlers_do() -> None:
    app = App()

    @app.post("/")
    async def shout(request: Request) -> AsyncIterator[bytes]:
        async for part in request.stream():
            yield part.upper()

    with TestClient(app) as client:
        assert client.post("/", content=iter([b"ab", b"c"])).content == b"ABC"


def test_a_response_can_be_returned_again_and_again() -> None:
    shared = Response(text="same", headers={"x": "1"})
    app = App()
    app.get("/")(lambda request: shared)
    with TestClient(app) as client:
        results = [client.get("/") for _ in range(3)]
    assert [result.text for result in results] == ["same"] * 3
    assert shared.raw_headers == b"Content-Type: text/plain; charset=utf-8\r\nx: 1\r\n"


@pytest.mark.parametrize("status", [204, 304])
def test_statuses_without_content_have_none(status: int) -> None:
    app = App()
    app.get("/")(lambda request: Response(text="dropped", status=status))
    result = get(app)
    assert (result.status, result.content) == (status, b"")
    assert "transfer-encoding" not in result.headers


def test_a_date_of_the_applications_replaces_the_servers() -> None:
    date = "Sun, 06 Nov 1994 08:49:37 GMT"
    app = App()
    app.get("/")(lambda request: Response(headers={"Date": date}))
    assert get(app).headers.getall("date") == [date]


def test_duplicate_fields_arrive() -> None:
    app = App()

    @app.get("/")
    def handler(request: Request) -> Response:
        response = Response(headers=[("vary", "a"), ("vary", "b")])
        response.set_cookie("c", "1")
        response.set_cookie("d", "2")
        return response

    headers = get(app).headers
    assert headers.getall("vary") == ["a", "b"]
    assert len(headers.getall("set-cookie")) == 2


def test_the_example_of_the_documentation() -> None:
    app = App()

    @app.get("/")
    def hello(request: Request) -> str:
        return "Hello, World!"

    @app.get("/users/{id:int}")
    async def user(request: Request, id: int) -> dict[str, int]:
        return {"id": id}

    with TestClient(app) as client:
        assert client.get("/").text == "Hello, World!"
        assert client.get("/users/42").json() == {"id": 42}
        assert client.get("/users/-1").json() == {"id": -1}
        assert client.get("/users/x").status == 404
        assert client.get("/users/").status == 404


@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete", "options"])
def test_each_method_has_a_decorator(method: str) -> None:
    app = App()
    getattr(app, method)("/")(lambda request: request.method)
    with TestClient(app) as client:
        assert client.request(method.upper(), "/").text == method.upper()
        other = client.request("PUT" if method != "put" else "POST", "/")
    assert other.status == 405
    assert method.upper() in other.headers["allow"].split(", ")


def test_decorators_give_the_function_back() -> None:
    def handler(request: Request) -> str:
        return ""

    app = App()
    assert app.get("/")(handler) is handler
    assert app.route("/a", ["PUT"])(handler) is handler
    assert app.error_handler(404)(lambda request, error: "") is not None
    assert app.on_startup(lambda: None) is not None


def test_the_response_to_head_is_that_to_get_without_content() -> None:
    app = App()
    app.get("/")(lambda request: Response(text=request.method, headers={"x": "1"}))
    with TestClient(app) as client:
        result = client.head("/")
    assert (result.status, result.content, result.headers["x"]) == (200, b"", "1")
    assert result.headers["content-length"] == "4"


def test_head_may_have_a_handler_of_its_own() -> None:
    app = App()
    app.get("/")(lambda request: "get")
    app.head("/")(lambda request: Response(headers={"x": "head"}))
    with TestClient(app) as client:
        assert client.head("/").headers["x"] == "head"


def test_a_route_may_have_several_methods_in_any_case() -> None:
    app = App()
    app.add_route("/", lambda request: request.method, ["get", "POST", "post", "purge"])
    with TestClient(app) as client:
        assert client.get("/").text == "GET"
        assert client.post("/").text == "POST"
        assert client.request("PURGE", "/").text == "PURGE"


def test_parameters_reach_the_handler_by_name() -> None:
    app = App()
    app.get("/swap/{a}/{b:int}")(lambda request, b, a: [a, b])
    app.get("/keyword/{a}/{b}")(lambda request, *, b, a="none": [a, b])
    app.get("/rest/{a}/{b:path}")(lambda request, **rest: rest)
    app.get("/default/{a}")(lambda request, a, b=2: [a, b])
    app.get("/partial/{a}")(functools.partial(lambda request, a, b: [a, b], b=3))
    with TestClient(app) as client:
        assert client.get("/swap/x/1").json() == ["x", 1]
        assert client.get("/keyword/x/y").json() == ["x", "y"]
        assert client.get("/rest/x/y/z%20").json() == {"a": "x", "b": "y/z "}
        assert client.get("/default/x").json() == ["x", 2]
        assert client.get("/partial/x").json() == ["x", 3]


def test_wrapped_handlers() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    app = App()

    @app.post("/sync/{a}")
    @logged
    def sync_handler(request: Request, a: str) -> list[str]:
        return [a, request.text()]

    @app.post("/async/{a}")
    @logged
    async def async_handler(request: Request, a: str) -> list[str]:
        return [a, await request.text()]

    with TestClient(app) as client:
        assert client.post("/sync/x", content="y").json() == ["x", "y"]
        assert client.post("/async/x", content="y").json() == ["x", "y"]


def test_methods_and_callable_objects_are_handlers() -> None:
    class Greeter:
        def greet(self, request: Request) -> str:
            return "method"

        async def __call__(self, request: Request) -> str:
            await asyncio.sleep(0)
            return "object"

    app = App()
    app.get("/method")(Greeter().greet)
    app.get("/object")(Greeter())
    with TestClient(app) as client:
        assert client.get("/method").text == "method"
        assert client.get("/object").text == "object"


def test_routes_may_be_added_while_serving() -> None:
    app = App()
    with TestClient(app) as client:
        assert client.get("/late").status == 404
        app.get("/late")(lambda request: "late")
        assert client.get("/late").text == "late"


def test_the_cores_side_is_one_object() -> None:
    app = App()
    assert app.core() is app.core()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("users", "must begin with a slash"),
        ("/{id:uuid}", "unknown type"),
        ("/{id", "brace"),
        ("/taken", "GET /taken is taken already, by "),
    ],
)
def test_a_bad_route_is_refused_when_it_is_declared(path: str, reason: str) -> None:
    app = App()
    app.get("/taken")(lambda request: "")
    with pytest.raises(RegistrationError, match=reason) as caught:
        app.get(path)(lambda request, **rest: "")
    assert "\n" not in str(caught.value)


def line_of(function: Any) -> str:
    """Return where a function is defined, as messages say it."""
    code = function.__code__
    return f"{__name__}.{function.__qualname__} ({__file__}:{code.co_firstlineno})"


@pytest.mark.parametrize(
    ("pattern", "by"),
    [("/items/{id:int}", ""), ("/items/{number:int}", "/items/{id:int} of ")],
)
def test_a_route_that_exists_is_refused_with_both_handlers(pattern: str, by: str) -> None:
    def first(request: Request, **parameters: int) -> str:
        return ""

    @functools.wraps(first)
    def second(request: Request, **parameters: int) -> str:
        return ""

    app = App()
    app.route("/items/{id:int}", ["POST", "GET"])(first)
    app.get("/items/{id}")(first)
    app.put(pattern)(first)
    with pytest.raises(RegistrationError) as caught:
        app.get(pattern)(functools.partial(second))
    assert str(caught.value) == (
        f"{line_of(first)}: GET {pattern} is taken already, by {by}{line_of(first)}; "
        "give one of them another path or method"
    )


def test_of_several_methods_all_are_registered_or_none() -> None:
    app = App()
    app.post("/a/{x}")(lambda request: "first")
    with pytest.raises(RegistrationError, match=r"POST /a/\{y\} is taken already"):
        app.route("/a/{y}", ["GET", "POST"])(lambda request: "second")
    app.get("/a/{y}")(lambda request: "third")
    with TestClient(app) as client:
        assert client.get("/a/1").text == "third"
        assert client.post("/a/1").text == "first"


def test_a_literal_segment_is_written_decoded() -> None:
    app = App()
    app.get("/a b/{id}")(lambda request, id: id)
    app.get("/ü")(lambda request: "u")
    with pytest.raises(RegistrationError, match="bad segment .* write a space, not %20"):
        app.get("/a%20b")(lambda request: "")
    with TestClient(app) as client:
        assert client.get("/a%20b/c%20d").text == "c d"
        assert client.get("/%C3%BC").text == "u"


def test_a_route_that_exists_is_refused_for_handlers_without_a_place() -> None:
    class Handler:
        def __call__(self, request: Request) -> str:
            return ""

        def __repr__(self) -> str:
            return "<a handler>"

    app = App()
    app.get("/")(Handler())
    with pytest.raises(RegistrationError, match="^<a handler>: GET / is taken .* by <a handler>; "):
        app.get("/")(Handler())


@pytest.mark.parametrize(
    "name", ["get", "head", "post", "put", "patch", "delete", "options", "route"]
)
def test_a_decorator_of_routes_without_parentheses_is_refused(name: str) -> None:
    def index(request: Request) -> str:
        return ""

    with pytest.raises(RegistrationError) as caught:
        getattr(App(), name)(index)
    assert str(caught.value).endswith(f'index: {name}() needs a path: write @app.{name}("/path")')


def test_a_decorator_of_error_handlers_without_parentheses_is_refused() -> None:
    with pytest.raises(RegistrationError, match=r"needs an exception class or a status: write @ap"):
        App().error_handler(lambda request, error: "")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["on_startup", "on_shutdown"])
def test_a_decorator_of_hooks_with_parentheses_is_refused(name: str) -> None:
    with pytest.raises(RegistrationError) as caught:
        getattr(App(), name)()
    assert str(caught.value) == f"{name}() has no function: write @app.{name} without parentheses"


def test_a_handler_that_does_not_fit_is_refused_when_it_is_declared() -> None:
    with pytest.raises(SignatureError, match=r"'name', which the pattern /\{id\} does not have"):
        App().get("/{id}")(lambda request, name: "")


@pytest.mark.parametrize(
    ("methods", "reason"),
    [("GET", r"is a list, not a str: \['GET'\]"), ([], "no methods"), (["G T"], "not a token")],
)
def test_bad_methods_are_refused(methods: Any, reason: str) -> None:
    with pytest.raises(RegistrationError, match=reason):
        App().route("/", methods)(lambda request: "")


def recording_app(steps: list[str]) -> App:
    app = App()

    @app.on_startup
    def first() -> None:
        steps.append("first")

    @app.on_startup
    async def second(app: App) -> None:
        await asyncio.sleep(0)
        app.state.db = "open"
        steps.append("second")

    @app.on_shutdown
    def last() -> None:
        steps.append("last")

    @app.on_shutdown
    async def before_last(application: App) -> None:
        await asyncio.sleep(0)
        steps.append(f"before last: {application.state.db}")

    @app.get("/")
    def handler(request: Request) -> str:
        steps.append("request")
        state: str = request.app.state.db
        return state

    return app


def test_hooks_run_around_the_requests() -> None:
    steps: list[str] = []
    assert get(recording_app(steps)).text == "open"
    assert steps == ["first", "second", "request", "before last: open", "last"]


def test_a_failing_startup_goes_to_the_caller() -> None:
    steps: list[str] = []
    app = recording_app(steps)

    @app.on_startup
    def fail() -> None:
        raise OSError("no database")

    app.on_startup(lambda: steps.append("never"))
    with pytest.raises(OSError, match="no database"), TestClient(app):
        pytest.fail("it must not be entered")
    assert steps == ["first", "second"]


def test_a_failing_shutdown_does_not_keep_the_others(caplog: pytest.LogCaptureFixture) -> None:
    steps: list[str] = []
    app = recording_app(steps)

    @app.on_shutdown
    def fail() -> None:
        raise OSError("stuck")

    assert get(app).status == 200
    assert steps[-2:] == ["before last: open", "last"]
    [record] = [record for record in caplog.records if record.name == "bolide.error"]
    assert record.levelno == logging.ERROR
    assert record.getMessage().endswith("fail failed")


def test_a_hook_takes_the_application_or_nothing() -> None:
    seen: list[object] = []
    app = App()
    app.on_startup(lambda app=None: seen.append(app))
    app.on_startup(lambda anything: seen.append(anything))
    app.on_startup(lambda other=1: seen.append(other))
    app.on_startup(functools.partial(seen.append, 2))
    asyncio.run(app.startup())
    assert seen == [app, app, 1, 2]
    with pytest.raises(SignatureError, match="a hook takes nothing, or the application"):
        app.on_startup(lambda app, other: None)


def about_server(app: App) -> tuple[bytes, bytes]:
    """Ask about the server as a whole; give the status line and Allow."""
    with TestClient(app) as client, client.connect() as sock:
        sock.sendall(b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        with sock.makefile("rb") as reply:
            status, *fields = reply.read().split(b"\r\n")
    [allow] = [field for field in fields if field.startswith(b"Allow: ")]
    return status, allow


def test_options_of_the_server_as_a_whole_is_a_ping() -> None:
    """RFC 9110 section 9.3.7."""
    assert about_server(App()) == (b"HTTP/1.1 204 No Content", b"Allow: OPTIONS")


def test_options_of_the_server_as_a_whole_reaches_no_route_and_no_handler() -> None:
    app, seen = App(), []
    app.options("/")(seen.append)
    app.route("/{rest:path}", ("GET", "OPTIONS", "PURGE"))(lambda request, rest: seen.append(rest))
    app.error_handler(404)(lambda request, error: seen.append(error))
    app.error_handler(405)(lambda request, error: seen.append(error))
    app.mount("/", lambda environ, start_response: seen.append(environ), interface="wsgi")
    expected = (b"HTTP/1.1 204 No Content", b"Allow: GET, HEAD, OPTIONS, PURGE")
    assert about_server(app) == expected
    assert seen == []
