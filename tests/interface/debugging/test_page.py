"""Nothing that comes from outside is more than text on the page."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from bolide.interface.debugging import page
from bolide.interface.debugging.disclosure import Shown

TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "code", "details"}
TAGS |= {"summary", "pre", "b", "table", "tr", "td", "tbody"}


class Tags(HTMLParser):
    """Collects what a page has besides text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def request(value: str, accept: str) -> Shown:
    fields = [("Host", "localhost"), ("Accept", accept), (value, value)]
    return Shown(value, f"/{value}?{value}={value}", "127.0.0.1", fields)


HOSTILE = st.one_of(
    st.text(),
    st.sampled_from(["<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "</style>"]),
    st.sampled_from(["</title><script>", "&lt;script&gt;", "\x1b[2J", "\u202egnp", "\ud800"]),
)


@given(HOSTILE)
def test_html_has_only_the_tags_of_the_page(text: str) -> None:
    found = page.of_exception(raised(ValueError(text)), request(text, "text/html"))
    assert found is not None and found.media_type == page.HTML
    tags = Tags()
    tags.feed(found.content.decode())
    assert tags.tags <= TAGS
    assert tags.attributes <= {"lang", "charset", "class", "open"}


@given(HOSTILE)
def test_text_controls_no_terminal(text: str) -> None:
    found = page.of_exception(raised(ValueError(text)), request(text, "*/*"))
    assert found is not None and found.media_type == page.TEXT
    assert all(c.isprintable() or c in "\n\t" for c in found.content.decode())


def test_a_client_that_is_not_local_gets_none() -> None:
    there = Shown("GET", "/", "127.0.0.1", [("Host", "evil.example")])
    assert page.of_exception(raised(ValueError()), there) is None
    assert page.of_text("a", "b", there) is None


def test_long_and_strange_exceptions_are_shown_in_part() -> None:
    class StrangeError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def deep() -> None:
        deep()

    def recursion() -> BaseException:
        try:
            deep()
        except RecursionError as error:
            return error
        raise AssertionError

    group = ExceptionGroup("several", [ValueError("one"), StrangeError()])
    looped = ValueError("loop")
    looped.__cause__ = looped
    for error in (StrangeError(), recursion(), group, looped, ValueError("x" * 10**6)):
        for accept in ("text/html", "*/*"):
            found = page.of_exception(raised(error), request("x", accept))
            assert found is not None and len(found.content) < 200_000
