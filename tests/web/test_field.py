"""Field lines of a response."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import count
from typing import Any

import pytest

from bolide._core import field_line
from bolide.web import Response
from bolide.web.field import charset_of, content_type_line, text_type_line
from bolide.web.multidict import Headers

TEXT = b"Content-Type: text/plain; charset=utf-8\r\n"


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("X-A", "1", b"X-A: 1\r\n"),
        ("date", "now", b"date: now\r\n"),
        ("x", "", b"x: \r\n"),
        ("x", " \ta b\t ", b"x: a b\r\n"),
        ("x", "a\tb", b"x: a\tb\r\n"),
        ("x", "caf\xe9", b"x: caf\xe9\r\n"),
        ("!#$%&'*+-.^_`|~09azAZ", "v", b"!#$%&'*+-.^_`|~09azAZ: v\r\n"),
    ],
)
def test_a_field_line_is_encoded(name: str, value: str, line: bytes) -> None:
    assert field_line(name, value) == line


WAYS = {
    "alone": lambda name, value: field_line(name, value),
    "dict": lambda name, value: Response(headers={name: value}),
    "pairs": lambda name, value: Response(headers=[(name, value)]),
    "added": lambda name, value: Response().add_header(name, value),
}
"""How a field line comes to a response."""


@pytest.fixture(params=WAYS)
def line_of(request: pytest.FixtureRequest) -> Callable[[Any, Any], object]:
    """Return one way of many."""
    return WAYS[request.param]


@pytest.mark.parametrize(
    "name", ["", " x", "x ", "x:", "a b", "x\r", "x\n", "é", "x\0", "(x)", '"']
)
def test_a_name_that_is_no_token_is_refused(name: str, line_of: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match="is not a field name"):
        line_of(name, "1")


@pytest.mark.parametrize("code", [*range(9), *range(10, 32), 127, 0x100, 0x20AC, 0xD800])
@pytest.mark.parametrize("name", ["x", "Content-Type"])
def test_a_value_with_a_control_character_or_beyond_latin_1_is_refused(
    name: str, code: int, line_of: Callable[..., object]
) -> None:
    with pytest.raises(ValueError, match=f"the value of {name} has a control character"):
        line_of(name, f"a{chr(code)}b")


@pytest.mark.parametrize("value", ["\n", "a\n", "\r\n", "a\r\nset-cookie: b=c"])
def test_a_value_cannot_end_its_line(value: str, line_of: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match="percent-encode it"):
        line_of("x", value)


@pytest.mark.parametrize("name", ["Content-Length", "content-length"])
def test_a_length_is_the_servers_to_set(name: str, line_of: Callable[..., object]) -> None:
    with pytest.raises(
        ValueError, match=f"cannot set {name}: the server .* leave this field line out"
    ):
        line_of(name, "1")


@pytest.mark.parametrize(
    "name", ["Transfer-Encoding", "CONNECTION", "Keep-Alive", "Proxy-Connection", "Upgrade", "te"]
)
def test_fields_about_the_connection_are_left_out(name: str) -> None:
    """As from ASGI and WSGI applications; the log says so once for each field."""
    made = Response(b"", headers={"x-before": "1", name: "close", "x-later": "2"})
    made.add_header(name, "close")
    assert made.raw_headers.endswith(b"x-before: 1\r\nx-later: 2\r\n")
    assert name.lower() not in made.headers


def test_a_field_that_is_left_out_is_logged_once() -> None:
    """In a process of its own, since it is logged once for each process."""
    program = """
import logging
from bolide import Response
logging.basicConfig(format="%(levelname)s %(name)s %(message)s")
for _ in range(3):
    Response(b"", headers={"Connection": "close"})
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(
        "WARNING bolide.error the application sets the field connection, "
    )


def test_names_and_values_may_be_of_classes_derived_from_str() -> None:
    class Name(StrEnum):
        SHORT = "x-a"

    class Text(str):
        __slots__ = ()

    assert field_line(Name.SHORT, Text(" caf\xe9 ")) == b"x-a: caf\xe9\r\n"
    assert Response(headers={Text("a"): Name.SHORT}).raw_headers == b"a: x-a\r\n"
    with pytest.raises(ValueError, match="is not a field name"):
        field_line(Text("\xe9"), "1")


def test_names_and_values_are_str() -> None:
    with pytest.raises(
        TypeError, match=r"the value of retry-after is a str, not int: pass str\(3\)"
    ):
        field_line("retry-after", 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a field name is a str, not bytes"):
        field_line(b"x", "1")  # type: ignore[arg-type]


class Pairs(dict[str, str]):
    """A mapping that is no plain dict."""


@pytest.mark.parametrize(
    ("headers", "lines"),
    [
        ({"a": "1"}, b"a: 1\r\n"),
        (Pairs(a="1"), b"a: 1\r\n"),
        ([("a", "1"), ("a", "2")], b"a: 1\r\na: 2\r\n"),
        ([["a", "1"]], b"a: 1\r\n"),
        (dict(a="1").items(), b"a: 1\r\n"),
        (Headers([("a", "1"), ("a", "2")]), b"a: 1\r\na: 2\r\n"),
        ({}, b""),
        ((), b""),
        (None, b""),
        (False, b""),
        ("", b""),
    ],
)
def test_lines_of_a_mapping_and_of_pairs(headers: Any, lines: bytes) -> None:
    assert Response(headers=headers).raw_headers == lines
    assert Response(text="", headers=headers).raw_headers == TEXT + lines


@pytest.mark.parametrize("headers", [1, "ab", ["ab"], [("a",)], [("a", "b", "c")], [1], [count()]])
def test_what_are_no_pairs_is_refused(headers: Any) -> None:
    with pytest.raises(TypeError, match="headers are a mapping, or pairs of name and value, not "):
        Response(headers=headers)


def test_pairs_may_come_one_by_one() -> None:
    pairs = (("a", number) for number in "12")
    assert Response(headers=pairs).raw_headers == b"a: 1\r\na: 2\r\n"


def test_an_error_of_the_pairs_goes_on() -> None:
    def pairs() -> Iterator[tuple[str, str]]:
        yield "a", "1"
        raise OSError("lost")

    class Lost:
        def __iter__(self) -> Iterator[tuple[str, str]]:
            raise OSError("lost")

    for headers in (pairs(), Lost(), [Lost()]):
        with pytest.raises(OSError, match="lost"):
            Response(headers=headers)  # type: ignore[arg-type]


def test_a_content_type_among_the_lines_replaces_the_default() -> None:
    lines = Response("a", headers={"x": "1", "Content-Type": "a/b"}).raw_headers
    assert lines == b"Content-Type: a/b\r\nx: 1\r\n"


@pytest.mark.parametrize("make", [dict, list])
def test_a_type_of_text_among_the_lines_says_its_charset(make: Callable[..., Any]) -> None:
    html = make([("content-type", "\ttext/html "), ("x", "1")])
    expected = b"content-type: text/html; charset=utf-8\r\nx: 1\r\n"
    assert Response("a", headers=html).raw_headers == expected
    assert Response(text="a", headers=html).raw_headers == expected
    assert Response(b"a", headers=html).raw_headers == b"content-type: text/html\r\nx: 1\r\n"
    svg = make([("Content-Type", "image/svg+xml")])
    assert Response("a", headers=svg).raw_headers == b"Content-Type: image/svg+xml\r\n"
    latin1 = make([("content-type", "text/html; charset=latin-1")])
    with pytest.raises(ValueError, match="text is sent as UTF-8, not as latin-1"):
        Response("a", headers=latin1)
    assert Response(b"a", headers=latin1).headers["content-type"] == "text/html; charset=latin-1"
    with pytest.raises(TypeError, match="the value of content-type is a str, not list"):
        Response("a", headers=make([("content-type", [])]))


def test_a_content_type_is_given_once() -> None:
    with pytest.raises(ValueError, match="the content type is given twice"):
        Response("a", headers={"Content-Type": "a/b"}, content_type="x/y")
    with pytest.raises(ValueError, match="the content type is given twice"):
        Response(headers=[("content-type", "a/b"), ("Content-Type", "c/d")])


@pytest.mark.parametrize(
    ("content_type", "charset"),
    [
        ("text/plain", None),
        ("text/plain; charset=utf-8", "utf-8"),
        ('text/plain; a=b ;CHARSET="Latin1"; c=d', "Latin1"),
        ("text/plain; xcharset=a", None),
        ("", None),
    ],
)
def test_the_charset_of_a_content_type(content_type: str, charset: str | None) -> None:
    assert charset_of(content_type) == charset


def test_a_text_type_says_its_charset() -> None:
    assert text_type_line("text/html") == b"Content-Type: text/html; charset=utf-8\r\n"
    html = "Text/HTML; Charset=UTF-8"
    assert text_type_line(html) == b"Content-Type: Text/HTML; Charset=UTF-8\r\n"
    assert text_type_line("image/svg+xml") == b"Content-Type: image/svg+xml\r\n"
    assert content_type_line("text/html") == b"Content-Type: text/html\r\n"


def test_text_in_another_charset_is_refused() -> None:
    with pytest.raises(ValueError, match="text is sent as UTF-8, not as latin-1"):
        text_type_line("text/html; charset=latin-1")
