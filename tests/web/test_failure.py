"""The response, and the log, when a handler fails."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from bolide.errors import (
    ClientDisconnected,
    Error,
    HTTPError,
    RegistrationError,
    SignatureError,
    WebSocketClosed,
)
from bolide.web import App, Request, Response
from bolide.web.failure import FailureTable
from bolide.web.testclient import Result, TestClient

PLAIN = "text/plain; charset=utf-8"


class TeapotError(HTTPError):
    """An application's own error with a status."""

    def __init__(self) -> None:
        super().__init__(418, "short and stout")


class StubRequest:
    """Stands for a request where no server is needed."""

    def __init__(self, path: str = "/") -> None:
        self.method = "GET"
        self.path = path
        self.id = None


def failing_app(error: BaseException) -> App:
    app = App()

    @app.get("/sync")
    def sync_handler(request: Any) -> None:
        raise error

    @app.get("/async")
    async def async_handler(request: Any) -> None:
        raise error

    return app


def get(app: App, path: str = "/sync") -> Result:
    with TestClient(app) as client:
        return client.get(path)


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return the message and the exception of every record of bolide.error."""
    records = [record for record in caplog.records if record.name == "bolide.error"]
    return [
        (record.getMessage(), str(record.exc_info[1]) if record.exc_info else "")
        for record in records
    ]


@pytest.mark.parametrize("path", ["/sync", "/async"])
def test_an_unexpected_error_is_a_plain_500_and_logged_once(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    result = get(failing_app(KeyError("secret")), path)
    assert (result.status, result.text) == (500, "500 Internal Server Error\n")
    assert result.headers["content-type"] == PLAIN
    assert logged(caplog) == [(f"GET {path} raised KeyError", "'secret'")]
    assert caplog.records[-1].levelno == logging.ERROR
    assert f"in {path[1:]}_handler" in caplog.text  # the traceback


@pytest.mark.parametrize("path", ["/sync", "/async"])
def test_an_http_error_is_the_response_and_not_logged(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = HTTPError(429, "slowly", {"retry-after": "3"})
    result = get(failing_app(error), path)
    assert (result.status, result.text) == (429, "429 Too Many Requests: slowly\n")
    assert result.headers["retry-after"] == "3"
    assert logged(caplog) == []


def test_the_routers_statuses_have_short_responses() -> None:
    app = App()
    app.add_route("/", lambda request: "", ["GET", "PUT"])
    with TestClient(app) as client:
        missing = client.get("/missing")
        refused = client.post("/")
    assert (missing.status, missing.text) == (404, "404 Not Found\n")
    assert "allow" not in missing.headers
    assert (refused.status, refused.text) == (405, "405 Method Not Allowed\n")
    assert refused.headers["allow"] == "GET, HEAD, PUT"


def test_the_most_specific_class_wins(caplog: pytest.LogCaptureFixture) -> None:
    app = failing_app(KeyError("k"))
    app.error_handler(LookupError)(lambda request, error: (f"lookup {error}", 404))
    app.error_handler(Exception)(lambda request, error: "any")
    result = get(app)
    assert (result.status, result.text) == (404, "lookup 'k'")
    assert logged(caplog) == []


@pytest.mark.parametrize("key", [Exception, 500, "5xx"])
def test_what_a_catch_all_handles_is_logged(key: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = failing_app(KeyError("k"))
    app.error_handler(key)(lambda request, error: (type(error).__name__, 503))
    result = get(app)
    assert (result.status, result.text) == (503, "KeyError")
    assert len(logged(caplog)) == 1


@pytest.mark.parametrize("path", ["/sync", "/async"])
def test_an_error_handler_may_be_async(path: str) -> None:
    app = failing_app(KeyError("k"))

    @app.error_handler(KeyError)
    async def respond(request: Any, error: KeyError) -> Response:
        return Response(json={"path": request.path}, status=422)

    result = get(app, path)
    assert (result.status, result.json()) == (422, {"path": path})


def test_a_status_handler_serves_handlers_and_router() -> None:
    app = failing_app(HTTPError(404, "no user"))

    @app.error_handler(404)
    def respond(request: Any, error: HTTPError) -> tuple[dict[str, str], int]:
        return {"path": request.path, "error": error.message}, 404

    with TestClient(app) as client:
        assert client.get("/sync").json() == {"path": "/sync", "error": "no user"}
        missing = client.get("/missing")
    assert (missing.status, missing.json()) == (404, {"path": "/missing", "error": ""})


def test_a_405_handler_is_given_the_allow_field() -> None:
    app = App()
    app.get("/")(lambda request: "")
    app.error_handler(405)(
        lambda request, error: Response("no", error.status, headers=error.headers)
    )
    with TestClient(app) as client:
        result = client.delete("/")
    assert (result.status, result.text, result.headers["allow"]) == (405, "no", "GET, HEAD")


def test_a_handler_of_the_routers_statuses_may_read_the_content() -> None:
    app = App()

    @app.error_handler(404)
    async def respond(request: Any, error: HTTPError) -> tuple[bytes, int]:
        return await request.body(), 404

    with TestClient(app) as client:
        for content in (b"abc", iter([b"a", b"bc"])):
            result = client.post("/missing", content=content)
            assert (result.status, result.content) == (404, b"abc")


def find(table: FailureTable, error: BaseException) -> Any:
    request: Any = StubRequest()
    return table.respond(request, error)


def test_the_order_of_classes_and_statuses() -> None:
    table = FailureTable()
    table.add(lambda request, error: "Exception", Exception)
    table.add(lambda request, error: "Error", Error)
    assert find(table, TeapotError()).status == 418  # an HTTPError is a response, not a failure
    table.add(lambda request, error: "HTTPError", HTTPError)
    assert find(table, TeapotError()) == "HTTPError"
    table.add(lambda request, error: "4xx", "4xx")
    assert find(table, TeapotError()) == "4xx"
    assert find(table, HTTPError(500)) == "HTTPError"
    table.add(lambda request, error: "418", 418)
    assert find(table, TeapotError()) == "418"
    assert find(table, HTTPError(404)) == "4xx"
    table.add(lambda request, error: "TeapotError", TeapotError)
    assert find(table, TeapotError()) == "TeapotError"
    assert find(table, KeyError()) == "Exception"
    assert find(table, RegistrationError()) == "Error"


@pytest.mark.parametrize("key", [KeyError, Exception])
@pytest.mark.parametrize("is_async", [False, True])
def test_when_an_error_handler_fails_both_are_logged(
    key: type[Exception], is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    app = failing_app(KeyError("first"))

    def fail(request: Any, error: Exception) -> None:
        raise ValueError("second")

    async def fail_async(request: Any, error: Exception) -> None:
        raise ValueError("second")

    app.error_handler(key)(fail_async if is_async else fail)
    result = get(app)
    assert (result.status, result.text) == (500, "500 Internal Server Error\n")
    assert logged(caplog) == [
        ("GET /sync raised KeyError", "'first'"),
        ("GET /sync raised ValueError", "second"),
    ]


def test_an_error_handler_may_choose_a_status_by_raising(caplog: pytest.LogCaptureFixture) -> None:
    app = failing_app(KeyError("k"))

    @app.error_handler(KeyError)
    def missing(request: Any, error: KeyError) -> None:
        raise HTTPError(404, "no such key")

    result = get(app)
    assert (result.status, result.text) == (404, "404 Not Found: no such key\n")
    assert logged(caplog) == []


@pytest.mark.parametrize("path", ["/sync", "/missing"])
def test_an_error_handler_that_gives_what_cannot_be_sent(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = failing_app(HTTPError(404))
    nothing: Any = object()
    app.error_handler(404)(lambda request, error: nothing)
    result = get(app, path)
    assert (result.status, result.text) == (500, "500 Internal Server Error\n")
    assert len(logged(caplog)) == 1


def test_headers_of_an_error_that_cannot_be_sent(caplog: pytest.LogCaptureFixture) -> None:
    result = get(failing_app(HTTPError(404, headers={"x": "a\r\nb"})))
    assert result.status == 500
    assert len(logged(caplog)) == 2  # the HTTPError and why it could not be sent


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, 3.5, ("a", "b"), ("a", 200, 3), {"a": object()}]
)
def test_a_value_that_cannot_be_sent_is_a_500(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = App()
    app.get("/")(lambda request: value)
    result = get(app, "/")
    assert (result.status, result.text) == (500, "500 Internal Server Error\n")
    assert len(logged(caplog)) == 1


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (("x", 200, {"a": "b"}), "; to set header fields, return Response(body, status, headers)"),
        (("x", {"a": "b"}), "; to set header fields, return Response(body, status, headers)"),
        (
            ("x", 200, [("a", "b")]),
            "; to set header fields, return Response(body, status, headers)",
        ),
        ((200, "x"), ""),
        (("x", 199), ""),
        ((), ""),
    ],
)
def test_a_tuple_of_another_framework(
    value: Any, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App()

    @app.get("/")
    def handler(request: Any) -> Any:
        return value

    assert get(app, "/").status == 500
    says = "a handler's tuple must be (value, status), with a status from 200 to 599"
    assert logged(caplog) == [("GET / raised TypeError", says + hint)]


def test_a_path_cannot_forge_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    request: Any = StubRequest("/a\r\nGET /b\x1b[31m\u2028é")
    FailureTable().respond(request, KeyError())
    assert logged(caplog)[0][0] == r"GET /a\r\nGET /b\x1b[31m\u2028é raised KeyError"


@pytest.mark.parametrize(
    "error",
    [ClientDisconnected(), ExceptionGroup("", [ExceptionGroup("", [WebSocketClosed(1006)])])],
    ids=["itself", "of-a-task-group"],
)
def test_a_disconnected_client_is_no_error_of_the_application(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    caplog.set_level(logging.DEBUG, "bolide.error")
    table = FailureTable()
    table.add(lambda request, error: pytest.fail("it is not for this handler"), Exception)
    assert find(table, error).status == 500
    [record] = caplog.records
    assert record.levelno == logging.DEBUG
    assert record.exc_info is None


def test_a_group_with_another_exception_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    FailureTable().respond(StubRequest("/"), ExceptionGroup("", [ClientDisconnected(), KeyError()]))
    assert logged(caplog)[0][0] == "GET / raised ExceptionGroup"


async def work() -> int:
    return 1


@pytest.mark.parametrize(
    ("wrap", "text"),
    [
        (
            lambda forgotten: {"a": forgotten},
            "unsupported; an await is missing, for example `await r",
        ),
        (lambda forgotten: Response(json=forgotten), "unsupported; an await is missing, for examp"),
        (lambda forgotten: forgotten, "a handler returned coroutine; an await is missing, for ex"),
    ],
)
def test_a_forgotten_await_is_named(
    wrap: Callable[[Any], Any], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App()
    forgotten = work()

    @app.get("/")
    async def index(request: Request) -> Any:
        return wrap(forgotten)

    with TestClient(app) as client:
        assert client.get("/").status == 500
    forgotten.close()
    assert text in caplog.text


@dataclass
class Note:
    """What a handler may not return by itself."""

    text: str


class Row(msgspec.Struct):
    """The same."""

    text: str


@pytest.mark.parametrize(
    ("value", "kind", "is_json"),
    [
        (Note("a"), "Note", True),
        (Row("a"), "Row", True),
        (1, "int", True),
        (1.5, "float", True),
        (True, "bool", True),
        (object(), "object", False),
        ({"a"}, "set", False),
    ],
)
def test_a_value_that_json_can_represent_gets_the_remedy(
    value: Any, kind: str, is_json: bool, caplog: pytest.LogCaptureFixture
) -> None:
    app = App()
    app.get("/")(lambda request: value)
    with TestClient(app) as client:
        assert client.get("/").status == 500
    assert f"a handler returned {kind}; it may return str, bytes, " in caplog.text
    assert ("; use Response(json=...) to send it as JSON\n" in caplog.text) == is_json


@pytest.mark.parametrize(
    "key", [200, 399, 600, int, KeyboardInterrupt, BaseException, "404", "3xx", None, (404, 405)]
)
def test_a_key_is_an_exception_class_or_an_error_status(key: Any) -> None:
    with pytest.raises(RegistrationError, match="an Exception class or a status from 400 to 599"):
        App().error_handler(key)(lambda request, error: "")


def test_a_key_has_one_handler() -> None:
    app = App()
    app.error_handler(404)(lambda request, error: "")
    with pytest.raises(RegistrationError, match="404 has an error handler already, .*<lambda>"):
        app.error_handler(404)(lambda request, error: "")


def test_an_error_handler_is_for_something() -> None:
    with pytest.raises(
        RegistrationError, match="the error handler .*<lambda> has no exception class or status"
    ):
        App().error_handler()(lambda request, error: "")


def test_a_handler_that_cannot_have_one_key_has_none() -> None:
    app = App()
    app.error_handler(405)(lambda request, error: "")
    with pytest.raises(RegistrationError, match="405 has an error handler already"):
        app.error_handler(404, 405)(lambda request, error: "")
    app.error_handler(404)(lambda request, error: "")


@pytest.mark.parametrize("keys", [(HTTPError,), (404, 405, 409), ("4xx",), (404, "4xx")])
def test_one_handler_for_what_the_router_and_handlers_decide(keys: Any) -> None:
    app = failing_app(HTTPError(409, "taken"))

    @app.error_handler(*keys)
    def as_json(request: Any, error: HTTPError) -> Response:
        status = error.status
        return Response(json={"status": status}, status=status, headers=error.headers)

    with TestClient(app) as client:
        results = [client.get("/sync"), client.get("/missing"), client.post("/async")]
    assert [result.json() for result in results] == [{"status": n} for n in (409, 404, 405)]
    assert [result.status for result in results] == [409, 404, 405]
    assert results[2].headers["allow"] == "GET, HEAD"


def test_all_server_errors_have_one_handler(caplog: pytest.LogCaptureFixture) -> None:
    app = failing_app(KeyError("k"))
    app.add_route("/raises-503", _raise_503)
    app.error_handler("5xx")(lambda request, error: (type(error).__name__, 500))
    with TestClient(app) as client:
        assert client.get("/sync").text == "KeyError"
        assert client.get("/raises-503").text == "HTTPError"
        assert client.get("/missing").text == "404 Not Found\n"
    assert len(logged(caplog)) == 1  # the KeyError, which nobody expected


def _raise_503(request: Any) -> None:
    raise HTTPError(503)


def test_an_error_handler_takes_two_arguments() -> None:
    with pytest.raises(SignatureError, match="an error handler takes the request and the error"):
        App().error_handler(404)(lambda request: "")  # type: ignore[type-var]
