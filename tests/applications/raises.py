"""A module that raises while it is imported."""


def load_secrets() -> None:
    """Raise."""
    raise ValueError("no secrets here")


load_secrets()
