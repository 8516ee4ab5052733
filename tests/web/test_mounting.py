"""What may be mounted on an application and where, and how a TestClient calls it."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.errors import ConfigError, Error, RegistrationError
from bolide.web import App
from bolide.web.testclient import TestClient, WebSocketRefused


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "lifespan", "nobody calls it"


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


def steps_of(app: App, fails: str = "") -> list[str]:
    """Mount an ASGI application whose lifespan is noted, and a WSGI application."""
    steps: list[str] = []

    async def api(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            scope["state"]["name"] = "api"
            for stage in ("startup", "shutdown"):
                steps.append((await receive())["type"])
                end = "failed" if stage == fails else "complete"
                await send({"type": f"lifespan.{stage}.{end}"})
            return
        if scope["type"] == "websocket":
            assert (await receive())["type"] == "websocket.connect"
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.send", "text": scope["path"]})
            return
        content = (await receive())["body"].decode()
        shown = [scope["root_path"], scope["path"], scope["raw_path"].decode()]
        shown += [scope["query_string"].decode(), scope["state"]["name"], content]
        shown.append(dict(scope["headers"]).get(b"x-a", b"").decode())
        await send({"type": "http.response.start", "status": 202})
        await send({"type": "http.response.body", "body": "|".join(shown).encode()})

    def old(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        names = ("SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "HTTP_X_A")
        content = environ["wsgi.input"].read().decode()
        start_response("203 x", [])
        return ["|".join([*(environ.get(name, "") for name in names), content]).encode()]

    app.mount("/api", api)
    app.mount("/old", old)
    app.on_startup(lambda: steps.append("native startup"))
    app.on_shutdown(lambda: steps.append("native shutdown"))
    return steps


@pytest.mark.parametrize("threads", [1, 8])
def test_a_testclient_calls_what_is_mounted(threads: int) -> None:
    app = App()
    steps = steps_of(app)
    app.get("/api/own")(lambda request: "native")
    for _ in range(2):
        with TestClient(app, options={"threads": threads}) as client:
            assert client.get("/api/own").text == "native"
            assert client.get("/b").status == 404
            with client.websocket("/api/chat") as websocket:
                assert websocket.receive() == "/api/chat"
            for prefix, shown in [
                ("/api", "202 /api|/api/x y|/api/x%20y|q=1|api|content|b"),
                ("/old", "203 /old|/x y|q=1|b|content"),
            ]:
                path, headers = f"{prefix}/x y", {"X-A": "b"}
                reply = client.post(path, content="content", params={"q": 1}, headers=headers)
                assert f"{reply.status} {reply.text}" == shown
            with pytest.raises(WebSocketRefused):
                client.websocket("/old/chat")
        names = ["native startup", "lifespan.startup", "lifespan.shutdown", "native shutdown"]
        assert steps == names
        steps.clear()


def test_a_testclient_raises_what_a_mounted_startup_reports() -> None:
    app = App()
    steps = steps_of(app, fails="startup")
    with pytest.raises(Error, match="^mounted at /api: no reason given$"), TestClient(app):
        pytest.fail("it must not be entered")
    assert steps == ["native startup", "lifespan.startup", "native shutdown"]


def test_a_testclient_refuses_what_is_no_application() -> None:
    app = App()
    app.mount("/a", lambda: None)
    with pytest.raises(ConfigError, match="^what is mounted at /a can be called"), TestClient(app):
        pytest.fail("it must not be entered")


def test_a_mount_that_would_be_ignored_is_refused() -> None:
    app = App()
    with TestClient(app), pytest.raises(RegistrationError) as error:
        app.mount("/a", asgi)
    assert str(error.value) == "/a is mounted too late: mount before the server starts"
    app.mount("/a", asgi)
