"""A process in which gevent or eventlet has replaced threads or sockets."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from types import ModuleType

import pytest

from bolide import App, serve
from bolide.errors import ConfigError
from bolide.interface.greenlets import refuse_patched


def pretend(
    monkeypatch: pytest.MonkeyPatch, name: str, function: str, patched: Collection[str]
) -> None:
    """Have a module of that name which says that these modules are patched."""
    module = ModuleType(name)
    setattr(module, function, lambda asked: asked in patched)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize(
    ("module", "function", "patched", "call"),
    [
        ("gevent.monkey", "is_module_patched", "threading", "gevent.monkey.patch_all()"),
        ("gevent.monkey", "is_module_patched", "socket", "gevent.monkey.patch_all()"),
        ("eventlet.patcher", "is_monkey_patched", "thread", "eventlet.monkey_patch()"),
        ("eventlet.patcher", "is_monkey_patched", "socket", "eventlet.monkey_patch()"),
    ],
)
def test_patched(
    monkeypatch: pytest.MonkeyPatch, module: str, function: str, patched: str, call: str
) -> None:
    pretend(monkeypatch, module, function, {patched})
    with pytest.raises(ConfigError) as refused:
        refuse_patched("shop:app")
    assert str(refused.value) == (
        f"{call} was called for shop:app: it replaces the threads and sockets with which Bolide "
        "works; remove the call: Bolide's own threads (--threads) take the place of greenlets"
    )


def test_imported_without_being_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "gevent.monkey", "is_module_patched", ())
    pretend(monkeypatch, "eventlet.patcher", "is_monkey_patched", ())
    refuse_patched("shop:app")


def test_import_that_has_failed_halfway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gevent.monkey", ModuleType("gevent.monkey"))
    refuse_patched("shop:app")


def test_an_object_is_refused_in_a_running_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "gevent.monkey", "is_module_patched", {"threading"})
    with pytest.raises(ConfigError, match="patch_all.* was called for the application: it"):
        asyncio.run(serve(App()))
