"""`Response`: what it takes, and what is sent of it."""

import copy
import gc
import pickle
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from http import HTTPStatus
from typing import Any

import pytest

from bolide.web import App, Request, Response
from bolide.web.testclient import TestClient

pytestmark = pytest.mark.slow


class Page(Response):
    """One with arguments of its own."""

    def __init__(self, content: str, *, title: str) -> None:
        super().__init__(text=content, content_type="text/html")
        self.title = title


JSON = b"Content-Type: application/json\r\n"
OCTETS = b"Content-Type: application/octet-stream\r\n"
TEXT = b"Content-Type: text/plain; charset=utf-8\r\n"


@pytest.mark.parametrize(
    ("response", "status", "body", "raw_headers"),
    [
        (Response(), 200, None, b""),
        (Response(status=204), 204, None, b""),
        (Response(b"a"), 200, b"a", OCTETS),
        (Response(bytearray(b"a")), 200, b"a", OCTETS),
        (Response(memoryview(b"a")), 200, b"a", OCTETS),
        (Response(b""), 200, b"", OCTETS),
        (Response("é", 201), 201, b"\xc3\xa9", TEXT),
        (Response(text="é"), 200, b"\xc3\xa9", TEXT),
        (Response(text=""), 200, b"", TEXT),
        (Response(json={"a": [1, None]}), 200, b'{"a":[1,null]}', JSON),
        (Response(json=None), 200, b"null", JSON),
        (Response(b"a", 200, None, "image/png"), 200, b"a", b"Content-Type: image/png\r\n"),
        (
            Response(text="a", content_type="text/html"),
            200,
            b"a",
            b"Content-Type: text/html; charset=utf-8\r\n",
        ),
        (
            Response(json=1, content_type="application/problem+json", status=400),
            400,
            b"1",
            b"Content-Type: application/problem+json\r\n",
        ),
        (Response(text="a", headers={"x-a": "1"}), 200, b"a", TEXT + b"x-a: 1\r\n"),
        (
            Response(b"a", headers={"Content-Type": "a/b", "x": "y"}),
            200,
            b"a",
            b"Content-Type: a/b\r\nx: y\r\n",
        ),
        (
            Response(headers=[("vary", "a"), ("vary", "b")]),
            200,
            None,
            b"vary: a\r\nvary: b\r\n",
        ),
        (Response(headers={"date": "D"}), 200, None, b"date: D\r\n"),
    ],
)
def test_what_is_kept(response: Response, status: int, body: object, raw_headers: bytes) -> None:
    assert (response.status, response.body, response.raw_headers) == (status, body, raw_headers)
    assert type(response.status) is int
    assert type(response.raw_headers) is bytes


def test_a_status_of_the_standard_library_is_an_int() -> None:
    assert type(Response(status=HTTPStatus.CREATED).status) is int


@pytest.mark.parametrize("status", [-1, 0, 100, 101, 199, 600, 1000, True])
def test_a_status_is_200_to_599(status: int) -> None:
    with pytest.raises(ValueError, match="a response's status is 200 to 599"):
        Response(status=status)


@pytest.mark.parametrize("status", ["200", 200.0, None])
def test_a_status_is_an_int(status: Any) -> None:
    with pytest.raises(TypeError, match="status is an int"):
        Response(status=status)


@pytest.mark.parametrize(
    "contents",
    [
        {"body": b"a", "text": "b"},
        {"body": "a", "text": "b"},
        {"body": "a", "json": 1},
        {"text": "a", "json": None},
        {"body": b"a", "text": "b", "json": 1},
    ],
)
def test_a_response_has_one_content(contents: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="one of body, text and json"):
        Response(**contents)


@pytest.mark.parametrize("body", [{"a": 1}, [b"a"], (b"a",), {b"a"}, 1, 1.5, object()])
def test_a_body_that_is_a_value_is_refused(body: Any) -> None:
    with pytest.raises(TypeError, match="body cannot be a .*; pass json= for values"):
        Response(body)


def test_text_is_a_str() -> None:
    with pytest.raises(TypeError, match="text is a str, not int"):
        Response(text=1)  # type: ignore[arg-type]


def test_an_iterable_becomes_an_iterator() -> None:
    class Parts:
        def __iter__(self) -> Iterator[bytes]:
            return iter([b"a", b"b"])

    response = Response(Parts())
    assert response.raw_headers == OCTETS
    assert list(response.body) == [b"a", b"b"]  # type: ignore[arg-type]


def test_an_async_iterable_becomes_an_async_iterator() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"a"

    iterator = parts()
    assert Response(iterator).body is iterator


def test_headers_are_read_back() -> None:
    response = Response(text="a", headers=[("X-A", "1"), ("x-a", "2: 3")])
    assert response.headers.multi_items() == [
        ("content-type", "text/plain; charset=utf-8"),
        ("x-a", "1"),
        ("x-a", "2: 3"),
    ]
    assert Response().headers.multi_items() == []


def test_a_header_is_added_after_the_others() -> None:
    response = Response(headers={"a": "1"})
    response.add_header("a", "2")
    assert response.raw_headers == b"a: 1\r\na: 2\r\n"
    with pytest.raises(ValueError, match="control character"):
        response.add_header("a", "2\r\nb: 3")
    assert response.raw_headers == b"a: 1\r\na: 2\r\n"


def test_a_content_type_is_added_only_where_there_is_none() -> None:
    response = Response(status=204)
    response.add_header("Content-type", "a/b")
    for typed in (response, Response(json=1), Response(headers={"content-type": "c/d"})):
        before = typed.raw_headers
        with pytest.raises(ValueError, match="^the content type is given twice: leave out one$"):
            typed.add_header("CONTENT-TYPE", "a/b")
        typed.add_header("Content-Type-Options", "x")
        assert typed.raw_headers == before + b"Content-Type-Options: x\r\n"


@pytest.mark.parametrize(
    ("location", "encoded"),
    [
        ("/a?b=c&d=%20#e", b"/a?b=c&d=%20#e"),
        ("https://example.org:80/[a]", b"https://example.org:80/[a]"),
        ("/a b/é", b"/a%20b/%C3%A9"),
        ("/100%", b"/100%25"),
        ("/%2F%2f%2g%%41é%", b"/%2F%2f%252g%25%41%C3%A9%25"),
        ("/a\r\nset-cookie: b=c", b"/a%0D%0Aset-cookie:%20b=c"),
    ],
)
def test_a_redirection_encodes_its_location(location: str, encoded: bytes) -> None:
    response = Response.redirect(location)
    assert (response.status, response.body) == (302, None)
    assert response.raw_headers == b"Location: " + encoded + b"\r\n"


def test_a_redirection_has_a_status_of_one() -> None:
    assert Response.redirect("/", 308, {"x": "1"}).status == 308
    with pytest.raises(ValueError, match="301, 302, 303, 307 or 308, not 200"):
        Response.redirect("/", 200)


def test_it_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Response().code = 200  # type: ignore[attr-defined]


def test_a_derived_class_may_take_other_arguments() -> None:
    page = Page("a", title="b")
    assert (page.body, page.title, page.status) == (b"a", "b", 200)
    assert page.raw_headers == b"Content-Type: text/html; charset=utf-8\r\n"
    assert type(page) is Page


def test_a_derived_class_without_its_own_constructor_is_constructed_alike() -> None:
    class Plain(Response):
        pass

    plain = Plain("a", 201, {"x": "1"})
    assert (type(plain), plain.body, plain.status) == (Plain, b"a", 201)
    with pytest.raises(ValueError, match="200 to 599"):
        Plain(status=99)


def test_a_constructor_that_is_replaced_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    init = Response.__init__
    with monkeypatch.context() as patch:
        patch.setattr(Response, "__init__", lambda self, text: init(self, text=text * 2))
        assert Response("a").body == b"aa"
    assert Response("a", 201).body == b"a"


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((), {"code": 1}, "code"),
        (("a", 200, None, None, "b"), {}, "4 positional arguments"),
        (("a",), {"body": "b"}, "multiple values for argument 'body'"),
        ((), {"\u00e9": 1}, "\u00e9"),
    ],
)
def test_what_a_response_does_not_take(
    arguments: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        Response(*arguments, **named)


@pytest.mark.parametrize("attribute", ["body", "status"])
def test_a_response_that_holds_itself_is_collected(attribute: str) -> None:
    class Holder:
        response: Response | None = None

    holder = Holder()
    holder.response = Response()
    setattr(holder.response, attribute, holder)
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("attribute", ["body", "status"])
def test_what_goes_may_read_the_response(attribute: str) -> None:
    seen = []

    class Leaving:
        def __del__(self) -> None:
            seen.append(response.body)

    response = Response()
    setattr(response, attribute, Leaving())
    setattr(response, attribute, 204 if attribute == "status" else b"a")
    assert seen == [response.body]


def test_a_field_line_may_be_refused_with_the_response_itself() -> None:
    response = Response("a")
    with pytest.raises(TypeError, match="the value of x is a str, not Response"):
        response.add_header("x", response)  # type: ignore[arg-type]


def test_what_is_read_while_it_is_constructed_is_what_was() -> None:
    response = Response(status=201)
    response.__init__("b", headers=((text, str(response.status)) for text in "x"))  # type: ignore[misc]
    assert (response.body, response.raw_headers) == (b"b", TEXT + b"x: 201\r\n")


def _pickled(response: Response) -> Response:
    found: Response = pickle.loads(pickle.dumps(response))  # noqa: S301 - what we wrote
    return found


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, _pickled])
@pytest.mark.parametrize(
    "response", [Response(), Response("\u00e9", 201, {"X-A": "\u00e9"}), Page("a", title="b")]
)
def test_a_response_can_be_copied(response: Response, copied: Callable[..., Response]) -> None:
    other = copied(response)
    assert type(other) is type(response)
    for name in ("body", "status", "raw_headers", "title"):
        assert getattr(other, name, None) == getattr(response, name, None)
    other.add_header("y", "1")
    assert other.raw_headers == response.raw_headers + b"y: 1\r\n"


def test_a_derived_class_may_make_its_content_later() -> None:
    class Late(Response):
        @property
        def body(self) -> bytes:  # type: ignore[override]
            return b"late"

    assert _sent(Late(status=201)) == (201, b"late")


def test_a_response_that_was_not_initialized_is_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Forgetful(Response):
        def __init__(self) -> None:
            pass

    assert _sent(Forgetful())[0] == 500
    assert "AttributeError: Response.__init__ was not called" in caplog.text


def _sent(response: Response) -> tuple[int, bytes]:
    app = App()
    app.get("/")(lambda request: response)
    with TestClient(app) as client:
        reply = client.get("/")
    return reply.status, reply.content


def test_text_that_cannot_be_encoded_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        Response(text="\ud800")


def test_repr_shows_status_and_size() -> None:
    assert repr(Response(b"abc", 201)) == "<Response 201: bytes of 3 bytes>"
    assert repr(Response(iter([]))) == "<Response 200: list_iterator>"


@pytest.mark.parametrize("status", [0, 99, 100, 600, 70000, -1, "200", None])
def test_a_status_set_later_is_checked_when_it_is_sent(
    status: object, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(request: Request) -> Response:
        response = Response("a")
        response.status = status  # type: ignore[assignment]
        return response

    app = App()
    app.get("/")(handler)
    with TestClient(app) as client:
        assert client.get("/").status == 500
    assert f"a response's status is 200 to 599, not {status!r}" in caplog.text
