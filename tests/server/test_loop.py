"""Which event loop a name stands for."""

import sys

import pytest

from bolide import loop
from bolide.errors import ConfigError


def test_auto_is_uvloop_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loop.choose("auto") == "uvloop"
    monkeypatch.setattr(loop, "find_spec", lambda name: None)
    assert loop.choose("auto") == "asyncio"


def test_uvloop_that_is_not_installed_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    with pytest.raises(ConfigError, match="uvloop is not installed; pip install"):
        loop.choose("uvloop")
