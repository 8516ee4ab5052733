"""Options about clients and paths: their values and what does not go together."""

from __future__ import annotations

import pytest

from bolide.config.admission import PathLimit, PathLimits
from bolide.config.settings import resolve
from bolide.errors import ConfigError

LIMITS = PathLimits()


def test_rules_are_text_or_tables() -> None:
    both = (PathLimit("/a", 1 << 30, 5000), PathLimit("/b/", 10))
    text = "/a body_bytes_max=1G handler-timeout-ms=5000, /b/ body_bytes_max=10"
    assert LIMITS.parse(text) == both
    assert LIMITS.parse(tuple(text.split(", "))) == both
    tables = [
        {"prefix": "/a", "body_bytes_max": "1G", "handler_timeout_ms": 5000},
        {"prefix": "/b/", "body_bytes_max": 10},
    ]
    assert LIMITS.parse(tables) == both
    assert LIMITS.parse(both) == both
    assert LIMITS.parse("") == ()
    assert LIMITS.parse("/ handler_timeout_ms=0") == (PathLimit("/", None, 0),)
    assert [str(each) for each in both] == [
        "/a body_bytes_max=1073741824 handler_timeout_ms=5000",
        "/b/ body_bytes_max=10",
    ]


@pytest.mark.parametrize(
    "value",
    [
        "a body_bytes_max=1",
        "/a//b body_bytes_max=1",
        "/a/. body_bytes_max=1",
        "/a?b body_bytes_max=1",
    ],
)
def test_prefixes_that_no_path_has_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match="as a prefix"):
        LIMITS.parse(value)


@pytest.mark.parametrize("value", [5, [5], {}, [{"prefix": "/a"}], [{"body_bytes_max": 5}]])
def test_values_of_other_types_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="give"):
        LIMITS.parse(value)


def test_clients_are_not_limited_where_anyone_may_name_them() -> None:
    for name in ("client_requests_per_s_max", "client_connections_max"):
        for peers in ("*", "0.0.0.0/0", "::/0", "0.0.0.0/0,::/0", "10.0.0.0/8, ::/0"):
            message = rf"{name} does not go with trusted_proxies (\*|0\.0\.0\.0/0|::/0): any client"
            with pytest.raises(ConfigError, match=message):
                resolve({name: 5, "trusted_proxies": peers}, environ={})
            resolve({"trusted_proxies": peers}, environ={})
        assert resolve({name: 5, "trusted_proxies": "10.0.0.0/8"}, environ={}).core[name] == 5
