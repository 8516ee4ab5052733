"""What may be mounted on an application and where, and what a TestClient makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.errors import RegistrationError
from bolide.web import App
from bolide.web.testclient import TestClient


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("a TestClient does not call it")


@pytest.mark.parametrize(
    ("prefix", "says"),
    [
        ("", "the prefix '' of a mount must begin with a slash"),
        ("a", "the prefix 'a' of a mount must begin with a slash"),
        (None, "the prefix None of a mount must begin with a slash"),
        ("/a/", "the prefix '/a/' of a mount has an empty segment; "),
        ("//", "the prefix '//' of a mount has an empty segment; "),
        ("/a//b", "the prefix '/a//b' of a mount has an empty segment; "),
        ("/{a}", "the prefix '/{a}' of a mount must be literal and decoded"),
        ("/%61", "the prefix '/%61' of a mount must be literal and decoded"),
        ("/a?", "the prefix '/a?' of a mount must be literal and decoded"),
        ("/a#", "the prefix '/a#' of a mount must be literal and decoded"),
        ("/a b", "the prefix '/a b' of a mount must be literal and decoded"),
        ("/a\0", "the prefix '/a\\x00' of a mount must be literal and decoded"),
        ("/taken", "something is mounted at /taken already"),
    ],
)
def test_a_prefix_that_is_none_is_refused(prefix: Any, says: str) -> None:
    app = App()
    app.mount("/taken", asgi)
    with pytest.raises(RegistrationError) as error:
        app.mount(prefix, asgi)
    assert str(error.value).startswith(says)
    assert [mount.prefix for mount in app.mounts] == ["/taken"]


def test_an_interface_that_is_none_is_refused() -> None:
    app: Any = App()
    with pytest.raises(RegistrationError) as error:
        app.mount("/a", asgi, interface="native")
    says = "the mount at /a has the interface 'native'; use 'auto', 'asgi' or 'wsgi'"
    assert str(error.value) == says


def test_a_native_application_is_refused() -> None:
    with pytest.raises(RegistrationError) as error:
        App().mount("/a", App())
    says = "a bolide.App cannot be mounted (at /a); add its routes to this one"
    assert str(error.value) == says


def test_mounts_are_kept_as_given_and_in_order() -> None:
    app = App()
    for prefix in ("/b", "/", "/a"):
        app.mount(prefix, asgi, interface="asgi")
    found = [(mount.prefix, mount.application, mount.interface) for mount in app.mounts]
    assert found == [(prefix, asgi, "asgi") for prefix in ("/b", "/", "/a")]


def test_a_testclient_responds_501_below_a_prefix() -> None:
    app = App()
    app.mount("/a", asgi)
    app.get("/a/own")(lambda request: "native")
    with TestClient(app) as client:
        assert client.get("/a/own").text == "native"
        assert client.get("/b").status == 404
        for path in ("/a", "/a/b"):
            reply = client.post(path, content=b"x")
            says = "TestClient does not call what is mounted at /a: serve the application for that"
            assert (reply.status, reply.text) == (501, says + "\n")


def test_a_mount_that_would_be_ignored_is_refused() -> None:
    app = App()
    with TestClient(app), pytest.raises(RegistrationError) as error:
        app.mount("/a", asgi)
    assert str(error.value) == "/a is mounted too late: mount before the server starts"
    app.mount("/a", asgi)
