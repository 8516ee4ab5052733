"""Reading and writing cookies."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from bolide.web.cookie import parse_cookies
from bolide.web.response import Response


@pytest.mark.parametrize(
    ("values", "cookies"),
    [
        ([], {}),
        ([""], {}),
        (["a=1"], {"a": "1"}),
        (["a=1; b=2"], {"a": "1", "b": "2"}),
        (["a=1;b=2;"], {"a": "1", "b": "2"}),
        (["a=1", "b=2"], {"a": "1", "b": "2"}),
        (["a=1; a=2"], {"a": "1"}),
        (['a="1 2"'], {"a": "1 2"}),
        (['a="'], {"a": '"'}),
        (["a="], {"a": ""}),
        (["a==b="], {"a": "=b="}),
        (["flag; a=1"], {"a": "1"}),
        (["=1; a=2"], {"a": "2"}),
        ([" a = 1 "], {"a": "1"}),
        (["a=%20+"], {"a": "%20+"}),
        (["a=é; b c=d,e"], {"a": "é", "b c": "d,e"}),
    ],
)
def test_cookies_are_read_leniently(values: list[str], cookies: dict[str, str]) -> None:
    assert parse_cookies(values) == cookies


def set_cookie(*args: str, **attributes: object) -> str:
    response = Response()
    response.set_cookie(*args, **attributes)  # type: ignore[arg-type]
    return response.headers["set-cookie"]


def test_a_cookie_is_for_all_paths_and_lax_by_default() -> None:
    assert set_cookie("a", "1") == "a=1; Path=/; SameSite=Lax"


def test_every_attribute_is_written() -> None:
    line = set_cookie(
        "a",
        "1",
        max_age=60,
        expires=datetime(2026, 11, 6, 10, 49, 37, tzinfo=timezone(timedelta(hours=2))),
        path="/x",
        domain="example.org",
        secure=True,
        http_only=True,
        same_site="none",
    )
    assert line == (
        "a=1; Max-Age=60; Expires=Fri, 06 Nov 2026 08:49:37 GMT; Domain=example.org; Path=/x; "
        "Secure; HttpOnly; SameSite=None"
    )


def test_no_attribute_is_written_that_was_taken_away() -> None:
    assert set_cookie("a", "1", path=None, same_site=None) == "a=1"


def test_cookies_are_kept_side_by_side() -> None:
    response = Response()
    response.set_cookie("a", "1", path=None, same_site=None)
    response.set_cookie("b", "2", path=None, same_site=None)
    assert response.raw_headers == b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n"


def test_a_cookie_is_deleted_by_an_end_in_the_past() -> None:
    response = Response()
    response.delete_cookie("a", domain="example.org")
    assert response.headers["set-cookie"] == (
        "a=; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Domain=example.org; Path=/; "
        "SameSite=Lax"
    )


@pytest.mark.parametrize("name", ["", "a b", "a=b", "a;b", "é", "a\r\n"])
def test_a_name_that_is_no_token_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a cookie name"):
        set_cookie(name, "1")


@pytest.mark.parametrize("value", ["a b", 'a"', "a,b", "a;b", "a\\b", "é", "a\r\nb", "\x7f"])
def test_a_value_with_other_characters_than_cookie_octets_is_refused(value: str) -> None:
    with pytest.raises(
        ValueError, match="the value of cookie a contains an invalid character: percent-encode"
    ):
        set_cookie("a", value)


@pytest.mark.parametrize("name", ["__Secure-a", "__Host-a", "__host-a"])
def test_a_prefix_of_a_name_needs_its_attributes(name: str) -> None:
    response = Response()
    assert set_cookie(name, "1", secure=True) == f"{name}=1; Path=/; Secure; SameSite=Lax"
    response.delete_cookie(name, secure=True)
    assert response.headers["set-cookie"] == (
        f"{name}=; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Path=/; Secure; SameSite=Lax"
    )
    with pytest.raises(ValueError, match=f"^clients reject cookie {name} without Secure: add"):
        set_cookie(name, "1")
    with pytest.raises(ValueError, match=f"^clients reject cookie {name} without Secure: add"):
        response.delete_cookie(name)
    assert len(response.headers.getall("set-cookie")) == 1


@pytest.mark.parametrize("attributes", [{"domain": "example.org"}, {"path": None}, {"path": "/x"}])
def test_a_cookie_of_a_host_has_no_domain_and_all_paths(attributes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="unless path is '/' and domain is not set"):
        set_cookie("__Host-a", "1", secure=True, **attributes)
    assert set_cookie("__Secure-a", "1", secure=True, **attributes).startswith("__Secure-a=1; ")
    assert set_cookie("__Hosts", "1", **attributes).startswith("__Hosts=1; ")


def test_attributes_that_clients_refuse_are_refused() -> None:
    with pytest.raises(ValueError, match="add secure=True"):
        set_cookie("a", "1", same_site="none")
    with pytest.raises(ValueError, match="same_site is 'lax', 'strict' or 'none', not 'loose'"):
        set_cookie("a", "1", same_site="loose")
    with pytest.raises(ValueError, match="a cookie's Path takes"):
        set_cookie("a", "1", path="/;x")
    with pytest.raises(ValueError, match="needs a time zone"):
        set_cookie("a", "1", expires=datetime.now(UTC).replace(tzinfo=None))
