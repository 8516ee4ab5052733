"""The exceptions of Bolide's Python side."""

import pickle

import pytest

from bolide import errors
from bolide.errors import ClientDisconnected, ConfigError, Error, HTTPError, reason_phrase


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name != "reason_phrase"])
def test_every_exception_is_a_bolide_error(name: str) -> None:
    assert issubclass(getattr(errors, name), Error)


def test_they_are_what_the_standard_library_would_raise_too() -> None:
    assert issubclass(ClientDisconnected, ConnectionError)
    assert issubclass(errors.RegistrationError, ConfigError | ValueError)
    assert issubclass(errors.SignatureError, TypeError)


@pytest.mark.parametrize(
    ("status", "phrase"),
    [(404, "Not Found"), (413, "Content Too Large"), (422, "Unprocessable Content"), (499, "")],
)
def test_reason_phrases_are_those_of_rfc_9110(status: int, phrase: str) -> None:
    assert reason_phrase(status) == phrase


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (HTTPError(404), "404 Not Found"),
        (HTTPError(404, "no such user"), "404 Not Found: no such user"),
        (HTTPError(499), "499"),
        (HTTPError(499, "why"), "499: why"),
    ],
)
def test_an_http_error_says_its_status_and_message(error: HTTPError, text: str) -> None:
    assert str(error) == text


def test_an_http_error_keeps_its_headers_as_pairs() -> None:
    assert HTTPError(429, headers={"retry-after": "1"}).headers == (("retry-after", "1"),)
    assert HTTPError(429, headers=iter([("a", "1"), ("a", "2")])).headers == (
        ("a", "1"),
        ("a", "2"),
    )


@pytest.mark.parametrize("status", [0, 200, 399, 600, "404", None])
def test_an_http_error_has_the_status_of_an_error(status: int) -> None:
    with pytest.raises(ValueError, match="a status from 400 to 599"):
        HTTPError(status)


def test_an_http_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(HTTPError(404, "gone", {"a": "1"})))  # noqa: S301 - ours
    assert (error.status, error.message, error.headers) == (404, "gone", (("a", "1"),))
