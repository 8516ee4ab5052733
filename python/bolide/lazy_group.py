"""A click group that imports some of its subcommands on first use.

A worker keeps in memory whatever its process has imported. Without this, every worker of a server
would hold the laboratory.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group of commands declared in code, and of commands imported from `lazy` on first use."""

    def __init__(self, *arguments: Any, lazy: Mapping[str, str], **named: Any) -> None:
        """Create the group; `lazy` maps the name of a command to the module that defines it."""
        super().__init__(*arguments, **named)
        self._lazy = lazy

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands without importing them."""
        return sorted({*super().list_commands(context), *self._lazy})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command, imported if necessary; None if there is none with this name."""
        if name not in self._lazy:
            return super().get_command(context, name)
        found: click.Command = getattr(importlib.import_module(self._lazy[name]), name)
        return found
