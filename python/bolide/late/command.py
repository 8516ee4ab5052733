"""A group of commands some of which are imported when they are asked for.

What a process imports it keeps: a server's workers would hold the laboratory in memory.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LateGroup(click.Group):
    """Commands that are declared beside the group, and those of `later`."""

    def __init__(self, *arguments: Any, later: Mapping[str, str], **named: Any) -> None:
        """Make it; `later` names the module that has a command, by the command's name."""
        super().__init__(*arguments, **named)
        self._later = later

    def list_commands(self, context: click.Context) -> list[str]:
        """Name them all."""
        return sorted({*super().list_commands(context), *self._later})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Give one of them."""
        if name not in self._later:
            return super().get_command(context, name)
        found: click.Command = getattr(importlib.import_module(self._later[name]), name)
        return found
