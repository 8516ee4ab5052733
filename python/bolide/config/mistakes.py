"""What to write instead of an option that does not exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bolide.config.foreign import advice_for
from bolide.errors import ConfigError

OF_APPLICATIONS = ("daemon", "debug", "group", "name", "pid", "umask", "user")
"""Options of other servers whose variables are more likely an application's own: BOLIDE_USER."""


def refuse_mistyped(environ: Mapping[str, str], prefix: str, names: Sequence[str]) -> None:
    """Reject a variable named nearly like one of ours, or clearly like another server's option.

    Others may be the application's own.
    """
    ours = {prefix + name.upper() for name in (*names, "config")}
    for variable in environ:
        if variable.startswith(prefix) and variable not in ours:
            name = variable.removeprefix(prefix).lower()
            if name in OF_APPLICATIONS or len(name) == 1:
                continue
            found = remedy(name, names, lambda option: prefix + option.upper(), cutoff=0.75)
            if found:
                raise ConfigError(f"{variable}: no such option" + found)


def _near(name: str, names: Sequence[str], cutoff: float) -> str:
    """Return the option that was probably meant, or ""."""
    from difflib import get_close_matches

    found = get_close_matches(name, names, n=1, cutoff=cutoff)
    return found[0] if found else ""


def remedy(
    name: str, names: Sequence[str], named: Callable[[str], str] = str, cutoff: float = 0.6
) -> str:
    """Return the end of an error about an unknown option: what to write instead, or ""."""
    if instead := advice_for(name, named):
        return f"; {instead}"
    near = _near(name, names, cutoff)
    return f"; did you mean {named(near)}?" if near else ""
