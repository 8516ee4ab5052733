"""Names of other frameworks get what to write instead."""

from typing import Any

import pytest

from bolide import App, Request, TestClient
from bolide.web import foreign


def advised(owner: Any, name: str) -> str:
    """Return the text of the error that an attribute raises."""
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run", "App has no run: use `bolide serve FILE.py` or `bolide.run(app)`"),
        ("errorhandler", "App has no errorhandler: use @app.error_handler"),
        ("exception_handler", "App has no exception_handler: use @app.error_handler"),
        ("on_event", "App has no on_event: use @app.on_startup and @app.on_shutdown"),
        ("middleware", f"App has no middleware: {foreign.MIDDLEWARE}"),
        ("frob", "'App' object has no attribute 'frob'"),
    ],
)
def test_an_app_says_what_to_write_instead(name: str, text: str) -> None:
    assert advised(App(), name) == text


@pytest.mark.parametrize("name", foreign.APP)
def test_no_name_of_an_app_is_ours(name: str) -> None:
    assert name not in dir(App)


def test_a_subclass_may_define_a_name() -> None:
    class Own(App):
        def run(self) -> str:
            return "ours"

    assert Own().run() == "ours"
    assert advised(Own(), "on_event").startswith("Own has no on_event: ")


def test_a_request_says_what_to_write_instead() -> None:
    app = App()

    @app.get("/")
    def index(request: Request) -> list[str]:
        return [advised(request, name) for name in foreign.REQUEST]

    with TestClient(app) as client:
        found = client.get("/").json()
    assert found == [f"Request has no {name}: {text}" for name, text in foreign.REQUEST.items()]
    assert found[0] == "Request has no args: use request.query"
