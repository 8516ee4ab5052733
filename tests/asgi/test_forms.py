"""Every form of an ASGI application is served, and every request finds its place."""

from __future__ import annotations

import pytest

from conftest import Start

FORMS = {
    "answer": (),
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
    """The proxy has taken it off; `raw_path` stays what came."""
    server = start("asgi_forms:answer", env={"BOLIDE_ROOT_PATH": "/sh\u00f6p/1"})
    with server.connect() as client:
        assert client.get("/a%20b").content == "/sh\u00f6p/1 /sh\u00f6p/1/a b /a%20b".encode()
        assert client.get("/").content == "/sh\u00f6p/1 /sh\u00f6p/1/ /".encode()
