"""Addresses as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.config.address import Address, parse

HOSTS = st.from_regex(r"[a-z0-9.-]{1,20}", fullmatch=True) | st.ip_addresses().map(str)


@given(HOSTS, st.integers(0, 65535))
def test_what_is_written_is_read_back(host: str, port: int) -> None:
    address = Address(host, port)
    assert parse(str(address)) == address


def test_unix_path_is_read_back() -> None:
    assert parse("unix:/run/shop.sock") == Address(path="/run/shop.sock")
    assert Address(path="/run/shop.sock").url == "unix:/run/shop.sock"


def test_url_has_brackets_around_ipv6() -> None:
    assert Address("::1", 80).url == "http://[::1]:80"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not an address"),
        ("8000", "is not an address"),
        (":8000", "names no host"),
        ("h:", "has no port"),
        ("h:65536", "has no port"),
        ("h:٣", "has no port"),
        ("::1:80", "needs brackets"),
        ("http://127.0.0.1:80", "is a URL; give HOST:PORT"),
        ("unix:", "names no path"),
    ],
)
def test_mistake_is_the_end_of_a_sentence(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}"):
        parse(text)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_a_mistake(text: str) -> None:
    try:
        parse(text)
    except ValueError as error:
        assert str(error)
