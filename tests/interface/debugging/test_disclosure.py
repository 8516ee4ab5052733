"""To whom a traceback is shown, and what is hidden."""

from __future__ import annotations

import pytest

from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.interface.debugging.disclosure import MASK, Shown, is_local_host, masked_target

LOCAL = ("Host", "localhost:8000")


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:80", "127.0.0.1", "127.8.9.1:8000", "[::1]", "[::1]:8000"],
)
def test_local_hosts(host: str) -> None:
    assert is_local_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost:80@evil.example",
        "localhost:evil",
        "10.0.0.1:8000",
        "[::2]",
        "[::1",
        "::1",
        "[::1]evil",
        "2130706433",
        "0x7f000001",
        "0.0.0.0",  # noqa: S104
    ],
)
def test_other_hosts(host: str) -> None:
    assert not is_local_host(host)


@pytest.mark.parametrize(
    ("client", "fields", "is_local"),
    [
        ("127.0.0.1", [LOCAL], True),
        ("::1", [LOCAL], True),
        ("::ffff:127.0.0.1", [LOCAL], True),
        ("192.0.2.1", [LOCAL], False),
        ("", [LOCAL], False),
        ("127.0.0.1", [], False),
        ("127.0.0.1", [LOCAL, ("Host", "evil.example")], False),
        ("127.0.0.1", [LOCAL, ("X-Forwarded-For", "127.0.0.1")], False),
        ("127.0.0.1", [LOCAL, ("forwarded", "for=127.0.0.1")], False),
        ("127.0.0.1", [LOCAL, ("X-Real-IP", "127.0.0.1")], False),
        ("127.0.0.1", [LOCAL, ("Via", "1.1 proxy")], False),
    ],
)
def test_only_clients_of_this_machine_and_not_through_a_proxy(
    client: str, fields: list[tuple[str, str]], is_local: bool
) -> None:
    assert Shown("GET", "/", client, fields).is_local is is_local
    assert not Shown("GET", "/", client, fields, "1.0").is_local


@pytest.mark.parametrize("option", [{"untrusted_forwarded": "remove"}, {"proxy_protocol": True}])
def test_options_that_hide_proxies_are_refused(option: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="debug does not go with"):
        resolve({"debug": True, **option}, environ={})


def test_secrets_are_hidden() -> None:
    names = ["Authorization", "Proxy-Authorization", "Cookie", "X-API-Key", "X-CSRFToken"]
    fields = [*((name, "hunter2") for name in names), ("Accept", "text/html")]
    fields.append(("Referer", "http://localhost/?code=1&session_id=hunter2"))
    shown = Shown("GET", "/a?token=hunter2&page=2&password=hunter2", "127.0.0.1", fields).masked()
    assert "hunter2" not in repr(shown)
    assert shown.target == f"/a?token={MASK}&page=2&password={MASK}"
    assert ("Accept", "text/html") in shown.fields
    assert masked_target("/no-query") == "/no-query"


@pytest.mark.parametrize(
    ("accept", "wants_html"),
    [("text/html,*/*;q=0.8", True), ("*/*", False), ("application/json", False), ("", False)],
)
def test_browsers_get_html(accept: str, wants_html: bool) -> None:
    assert Shown("GET", "/", "::1", [("accept", accept)]).wants_html is wants_html
