"""Every form of an ASGI application is served, and every request finds its place."""

from __future__ import annotations

import pytest

from support.server import Start

pytestmark = pytest.mark.slow

FORMS = {
    "respond": (),
    "plain": (),
    "gives_an_object": (),
    "Endpoint": (),
    "instance": (),
    "method": (),
    "partial": (),
    "hidden": (),
    "undecided": ("--interface", "asgi"),
    "create_app": ("--factory",),
    "Application": ("--factory",),
}
WITH_ROOT = {
    "/sh%C3%B6p/1": "/sh\u00f6p/1",
    "/sh%C3%B6p/1/a%20b": "/sh\u00f6p/1/a b",
    "/sh%C3%B6p/12": "/sh\u00f6p/1/sh\u00f6p/12",
}


@pytest.mark.parametrize("form", FORMS)
def test_form_is_served(start: Start, form: str) -> None:
    with start(f"asgi_forms:{form}", *FORMS[form]).connect() as client:
        for _ in range(2):
            reply = client.get("/a%20b")
            assert (reply.status, reply.content) == (200, b" /a b /a%20b")


def test_factory_has_a_name_of_its_own_by_default(start: Start) -> None:
    with start("asgi_forms", "--factory").connect() as client:
        assert client.get("/").content == b" / /"


def test_path_includes_the_root_path(start: Start) -> None:
    """Whether the proxy has taken it off or not; `raw_path` stays what came."""
    server = start("asgi_forms:respond", env={"BOLIDE_ROOT_PATH": "/sh\u00f6p/1"})
    with server.connect() as client:
        assert client.get("/a%20b").content == "/sh\u00f6p/1 /sh\u00f6p/1/a b /a%20b".encode()
        assert client.get("/").content == "/sh\u00f6p/1 /sh\u00f6p/1/ /".encode()
        for path, decoded in WITH_ROOT.items():
            assert client.get(path).content == f"/sh\u00f6p/1 {decoded} {path}".encode()
        client.send(b"OPTIONS * HTTP/1.1\r\nHost: test\r\n\r\n")
        assert client.read().content == "/sh\u00f6p/1 * *".encode(), "it is below no root path"
