"""The types of values of the options about logs."""

import pytest

from bolide import _core
from bolide.config.logs import LETTERS, LineFormat, Share


@pytest.mark.parametrize(("given", "share"), [("0.01", 0.01), (1, 1.0), ("0", 0.0), (0.5, 0.5)])
def test_a_share(given: object, share: float) -> None:
    assert Share().parse(given) == share


@pytest.mark.parametrize("given", ["1.01", -1, "nan", "inf", "1%", "", True, None, [1]])
def test_what_is_no_share(given: object) -> None:
    with pytest.raises(ValueError, match="is not a share; give a number from 0 to 1"):
        Share().parse(given)


def test_words_for_formats_are_accepted_in_any_case() -> None:
    assert LineFormat().parse("JSON") == "json"
    assert LineFormat().parse("{status}") == "{status}"
    with pytest.raises(ValueError, match="is no format; give combined, json, or a template"):
        LineFormat().parse("common")


@pytest.mark.parametrize(
    ("given", "instead"),
    [
        ("%(h)s %(l)s %(u)s", "{client} for %(h)s, - for %(l)s, - for %(u)s"),
        ("%(L)s {status}", "{duration_ms} (no seconds) for %(L)s"),
        ("%(b)s %(b)s", "{content_bytes} for %(b)s"),
        ("%(T)s", "{duration_ms} (no seconds) for %(T)s"),
        ("%(q)s", "{target} (path and query) for %(q)s"),
        ("%({X-Forwarded-For}i)s", "{request.x-forwarded-for} for %({X-Forwarded-For}i)s"),
        ("%({etag}o)s", "{response.etag} for %({etag}o)s"),
        ("%({wsgi.url_scheme}e)s", "nothing for %({wsgi.url_scheme}e)s"),
    ],
)
def test_letters_of_gunicorn_are_named(given: str, instead: str) -> None:
    with pytest.raises(ValueError, match="has gunicorn's letters; give names instead: ") as caught:
        LineFormat().parse(given)
    assert str(caught.value).endswith(f": {instead}")


def test_what_replaces_a_letter_is_a_field() -> None:
    for instead in LETTERS.values():
        _core.check_access_log_format("{status} " + instead)


def test_the_field_that_was_probably_meant_is_named() -> None:
    for wrong, right in (("duration_s", "duration_ms"), ("user-agent", "user_agent")):
        with pytest.raises(ValueError, match=f"field {{{wrong}}}; did you mean {{{right}}}\\? fie"):
            LineFormat().parse(f"{{{wrong}}}")
    with pytest.raises(ValueError, match="has the unknown field {x}; fields are client, "):
        LineFormat().parse("{x}")
