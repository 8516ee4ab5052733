"""A click group that imports some of its subcommands on first use.

A worker keeps in memory whatever its process has imported. Without this, every worker of a server
would hold the laboratory.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
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

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names.

        Raises:
            UsageError: there is none; the text suggests one that is spelled similarly.
        """
        name = args[0]
        if not name.startswith("-") and name not in self.list_commands(context):
            hint = self.suggestion(context, name, args[1:])
            raise click.UsageError(f"No such command {name!r}{hint}", context)
        return super().resolve_command(context, args)

    def suggestion(self, context: click.Context, name: str, following: Sequence[str]) -> str:
        """Return the end of the message about an unknown command; `following` is what follows."""
        from difflib import get_close_matches

        near = get_close_matches(name, self.list_commands(context), n=1)
        path = context.command_path
        return f"; did you mean `{path} {near[0]}`?" if near else f"; `{path} --help` lists them"
