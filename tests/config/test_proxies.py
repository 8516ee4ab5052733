"""The options about proxies: what names a peer, and what the line at startup says."""

import pytest

from bolide.config.proxies import described
from bolide.config.settings import resolve
from bolide.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("none", ()),
        ("*", ("*",)),
        ("unix", ("unix",)),
        ("10.0.0.0/8, ::1,unix", ("10.0.0.0/8", "::1", "unix")),
        ("10.0.0.1/32,10.0.0.1", ("10.0.0.1",)),
        ("2001:DB8::/32", ("2001:db8::/32",)),
        (["10.0.0.1"], ("10.0.0.1",)),
        ([], ()),
    ],
)
def test_peers(given: object, expected: tuple[str, ...]) -> None:
    assert resolve({"trusted_proxies": given}, environ={}).trusted_proxies == expected


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("", "'' names no peer; give networks"),
        ("proxy.example", "has 'proxy.example', which is not a peer; give networks"),
        ("10.0.0.1/8", "give 10.0.0.0/8 for the network, or 10.0.0.1 for the host"),
        ("10.0.0.0/33", "has '10.0.0.0/33', which is not a peer"),
        ("::ffff:10.0.0.1", "give 10.0.0.1, which stands for both forms"),
        ("none,unix", 'has "none" beside others'),
        (5, "is not a list of peers"),
    ],
)
def test_what_is_no_peer_is_said(given: object, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        resolve({"trusted_proxies": given}, environ={})
    assert text in str(error.value), error.value


def test_fields_are_some_of_the_known() -> None:
    settings = resolve({"forwarded_fields": "prefix,for"}, environ={})
    assert settings.forwarded_fields == ("for", "prefix")
    with pytest.raises(ConfigError, match="for or proto or .*, or several"):
        resolve({"forwarded_fields": "x-forwarded-for"}, environ={})


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {},
            "X-Forwarded-For and X-Forwarded-Proto are read from 127.0.0.0/8, ::1 and UNIX sockets",
        ),
        (
            {"trusted_proxies": "*", "forwarded_fields": "forwarded"},
            "Forwarded is read from every peer",
        ),
        (
            {"trusted_proxies": "none"},
            "no proxy is trusted: Forwarded and X-Forwarded-* are not read",
        ),
        ({"forwarded_fields": ""}, "Forwarded and X-Forwarded-* are not read"),
        (
            {"proxy_protocol": True, "trusted_proxies": "10.0.0.1", "forwarded_fields": ""},
            "only 10.0.0.1 may connect, with the PROXY protocol; Forwarded and X-Forwarded-* are "
            "not read",
        ),
    ],
)
def test_the_line_at_startup(given: dict[str, str], line: str) -> None:
    assert described(resolve(given, environ={})) == line
