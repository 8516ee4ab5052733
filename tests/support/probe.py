"""The checks that an application of the tests declares with `@probe`."""

from __future__ import annotations

import ast

from support.server import APPLICATIONS


def probes(file: str) -> list[str]:
    """Return the names of the checks in an application."""
    tree = ast.parse((APPLICATIONS / file).read_text())
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.AsyncFunctionDef)
        and any(isinstance(each, ast.Name) and each.id == "probe" for each in node.decorator_list)
    ]
