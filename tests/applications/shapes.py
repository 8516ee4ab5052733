"""Things that a target may name by mistake, or in an unusual place."""

from types import SimpleNamespace

from bolide import App

api = App()
holder = SimpleNamespace(inner=SimpleNamespace(app=App()))


def create() -> App:
    """Make an application."""
    return App()
