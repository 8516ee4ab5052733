"""Names and keywords of other frameworks get what to write instead."""

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import bolide
from bolide import App, HTTPError, Request, Response, TestClient
from bolide.web import foreign


def advised(owner: Any, name: str) -> str:
    """Return the text of the error that an attribute raises."""
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run", "App has no run: use `bolide serve FILE.py` or `bolide.run(app)`"),
        ("errorhandler", "App has no errorhandler: use @app.error_handler"),
        ("exception_handler", "App has no exception_handler: use @app.error_handler"),
        ("on_event", "App has no on_event: use @app.on_startup and @app.on_shutdown"),
        ("middleware", f"App has no middleware: {foreign.MIDDLEWARE}"),
        ("frob", "'App' object has no attribute 'frob'"),
    ],
)
def test_an_app_says_what_to_write_instead(name: str, text: str) -> None:
    assert advised(App(), name) == text


def test_python_suggests_no_name_of_its_own() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = App().run  # type: ignore[attr-defined]
    assert caught.value.name is None
    with pytest.raises(AttributeError) as caught:
        _ = App().rout  # type: ignore[attr-defined]
    assert caught.value.name == "rout"


@pytest.mark.parametrize("name", foreign.APP)
def test_no_name_of_an_app_is_ours(name: str) -> None:
    assert name not in dir(App)


def test_a_subclass_may_define_a_name() -> None:
    class Own(App):
        def run(self) -> str:
            return "ours"

    assert Own().run() == "ours"
    assert advised(Own(), "on_event").startswith("Own has no on_event: ")


def test_a_request_says_what_to_write_instead() -> None:
    app = App()

    @app.get("/")
    def index(request: Request) -> list[str]:
        return [advised(request, name) for name in foreign.REQUEST]

    with TestClient(app) as client:
        found = client.get("/").json()
    assert found == [f"Request has no {name}: {text}" for name, text in foreign.REQUEST.items()]
    assert found[0] == "Request has no args: use request.query"


def refused(function: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    """Return the text of the error that a call raises."""
    with pytest.raises(TypeError) as caught:
        function(*arguments, **named)
    return str(caught.value)


def test_an_app_takes_no_arguments() -> None:
    assert refused(App, __name__) == "App takes no arguments: write App()"
    assert refused(App, import_name="shop") == "App takes no import_name=: leave it out"
    assert refused(App, lifespan=None) == f"App takes no lifespan=: {foreign.HOOKS}"
    assert "unexpected keyword argument 'frob'" in refused(App, frob=1)
    assert not inspect.signature(App).parameters


def test_a_subclass_of_an_app_may_take_arguments() -> None:
    class Shop(App):
        def __init__(self, title: str) -> None:
            super().__init__()
            self.title = title

    assert (Shop("a").title, Shop(title="b").title) == ("a", "b")


@pytest.mark.parametrize("name", foreign.RESPONSE_KEYWORDS)
def test_a_response_says_our_name_of_a_keyword(name: str) -> None:
    class Page(Response):
        def __init__(self, content: str, **named: Any) -> None:
            super().__init__(content, **named)

    says = f"Response takes no {name}=: {foreign.RESPONSE_KEYWORDS[name]}"
    assert refused(Response, **{name: 1}) == says
    assert refused(Response, b"a", 201, **{name: 1}) == says
    if name != "content":
        assert refused(Page, "a", **{name: 1}) == says


@pytest.mark.parametrize("name", foreign.RESPONSE)
def test_a_response_says_our_name_of_an_attribute(name: str) -> None:
    says = f"Response has no {name}: {foreign.RESPONSE[name]}"
    response: Any = Response("a")
    assert advised(response, name) == says
    with pytest.raises(AttributeError) as caught:
        setattr(response, name, 1)
    assert str(caught.value) == says


def test_an_object_of_a_subclass_may_set_a_name() -> None:
    class Page(Response):
        def __init__(self, data: str) -> None:
            super().__init__(data)
            self.data = data

    page = Page("a")
    assert (page.data, page.body) == ("a", b"a")
    assert advised(page, "status_code") == "Response has no status_code: use status"


def test_headers_say_how_one_is_added() -> None:
    response: Any = Response("a")
    assert refused(response.headers.__setitem__, "X-A", "1") == (
        "Headers cannot be changed: response.add_header(name, value) adds one"
    )
    with pytest.raises(TypeError, match="Headers cannot be changed"):
        response.headers["X-A"] = "1"


def test_a_response_says_which_keyword_is_unknown() -> None:
    says = "Response.__init__() got an unexpected keyword argument 'frob'"
    assert refused(Response, frob=1, status=200) == says
    assert refused(Response, "a", media_type="text/html").endswith("use content_type=")
    assert Response("a", content_type="text/html").status == 200


def test_a_cookie_says_our_name_of_a_keyword() -> None:
    response = Response()
    says = "set_cookie takes no httponly=: use http_only="
    assert refused(response.set_cookie, "a", "1", httponly=True) == says
    says = "delete_cookie takes no samesite=: use same_site="
    assert refused(response.delete_cookie, "a", samesite="lax") == says
    assert not response.headers


def test_an_error_says_our_name_of_a_keyword() -> None:
    says = "HTTPError takes no status_code=: use status="
    assert refused(HTTPError, status_code=404, detail="no") == says
    assert refused(HTTPError, 404, detail="no") == "HTTPError takes no detail=: use message="
    assert "'frob'" in refused(HTTPError, 404, frob="no")

    class MissingError(HTTPError):
        def __init__(self, detail: str) -> None:
            super().__init__(404, detail)

    assert str(MissingError(detail="no such item")) == "404 Not Found: no such item"


def test_the_test_client_says_our_names() -> None:
    app = App()
    app.post("/")(lambda request: "ok")
    with TestClient(app) as client:
        result = client.post("/", content="a")
        says = "a call of TestClient takes no query_string=: use params="
        assert refused(client.post, "/", query_string="a=1") == says
    assert advised(result, "status_code") == "Result has no status_code: use status"
    assert advised(result, "get_json") == "Result has no get_json: use json()"
    assert result.status == 200


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("FileResponse", "use Response(path.read_bytes(), content_type=...); nginx serves static"),
        ("request", "a handler gets the request as its first parameter"),
        ("ClientDisconnected", "import it from bolide.errors"),
    ],
)
def test_an_import_says_what_to_write_instead(name: str, text: str) -> None:
    with pytest.raises(ImportError, match=f"^bolide has no {name}: {re.escape(text)}"):
        __import__("bolide", fromlist=["App", name])  # what `from bolide import` calls
    assert advised(bolide, name).startswith(f"bolide has no {name}: {text}")
    assert name not in dir(bolide)


def test_other_names_are_unknown_as_in_any_module() -> None:
    with pytest.raises(ImportError, match="^cannot import name 'frob' from 'bolide'"):
        from bolide import frob  # type: ignore[attr-defined]  # noqa: F401
    assert advised(bolide, "frob") == "module 'bolide' has no attribute 'frob'"
    assert not bolide._FOREIGN.keys() & {*bolide.__all__, *os.listdir(bolide.__path__[0])}


def test_a_submodule_is_imported_without_the_framework() -> None:
    script = "import sys; from bolide import quantity; print('bolide.web' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
