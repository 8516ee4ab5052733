"""What a `WebSocket` shows of methods whose arguments the core does not unpack by name."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from bolide import WebSocket, _core

UNMADE = "only the server makes WebSockets"
SURROGATE = "\udc80"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ws: ws.send(), "missing 1 required positional argument: 'message'"),
        (lambda ws: ws.send("a", "b"), "takes 1 positional arguments but 2 were given"),
        (lambda ws: ws.send("a", message="b"), "got multiple values for argument 'message'"),
        (lambda ws: ws.send(text="a"), "got an unexpected keyword argument 'text'"),
        (lambda ws: ws.send("a", text="b"), "got an unexpected keyword argument 'text'"),
        (lambda ws: ws.send(**{SURROGATE: "a"}), "got an unexpected keyword argument"),
        (lambda ws: ws.receive(1), "takes no arguments"),
        (lambda ws: ws.receive(text="a"), "takes no keyword arguments"),
        (lambda ws: ws.__anext__(1), "expected 0 arguments, got 1"),
        (lambda ws: _core.WebSocket.send(1, "a"), "doesn't apply to a 'int' object"),
        (lambda ws: _core.WebSocket.send(), "needs an argument"),
        (lambda ws: _core.WebSocket.receive(1), "doesn't apply to a 'int' object"),
        (lambda ws: _core.WebSocket.__anext__(1), "requires a 'bolide._core.WebSocket' object"),
    ],
)
def test_what_does_not_fit_a_signature(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(WebSocket())


class Derived(WebSocket):
    """Has a method of its own."""

    def send(self, *message: Any) -> Any:
        """Send nothing."""
        return message


@pytest.mark.parametrize(
    "call",
    [
        lambda ws: _core.WebSocket.send(ws, "a"),
        lambda ws: _core.WebSocket.send(ws, message="a"),
        lambda ws: _core.WebSocket.__anext__(ws),
        lambda ws: ws.receive(),
        lambda ws: ws.__anext__(),
        anext,
    ],
)
@pytest.mark.parametrize("kind", [_core.WebSocket, WebSocket, Derived])
def test_one_that_the_server_has_not_made(kind: type, call: Callable[[Any], Any]) -> None:
    with pytest.raises(RuntimeError, match=UNMADE):
        call(kind())


def test_a_class_may_replace_a_method() -> None:
    assert Derived().send("a", "b") == ("a", "b")


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("send", "(self, /, message)"),
        ("receive", "(self, /)"),
        ("close", "(self, /, code=1000, reason='')"),
        ("__anext__", "(self, /)"),
    ],
)
def test_what_tools_see(name: str, signature: str) -> None:
    method = getattr(WebSocket, name)
    assert str(inspect.signature(method)) == signature
    assert (method.__qualname__, bool(method.__doc__)) == (f"WebSocket.{name}", True)
    assert method.__reduce__() == (getattr, (_core.WebSocket, name))
    bound = getattr(WebSocket(), name)
    assert isinstance(bound.__self__, WebSocket)
    assert name == "__anext__" or copy.copy(bound) is bound
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(bound)
