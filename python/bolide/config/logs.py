"""The types of values of the options about logs."""

from __future__ import annotations

from dataclasses import dataclass

from bolide import _core

FORMATS = ("combined", "json")


@dataclass(frozen=True, slots=True)
class LineFormat:
    """The format of the access log: a word for a known one, or a template."""

    metavar: str = "|".join((*FORMATS, "TEMPLATE"))

    def parse(self, value: object) -> str:
        """Parse a format, which the core checks."""
        text = str(value)
        if text.lower() in FORMATS:
            return text.lower()
        _core.check_access_log_format(text)
        return text


@dataclass(frozen=True, slots=True)
class Share:
    """A share from 0 to 1."""

    metavar: str = "SHARE"

    def parse(self, value: object) -> float:
        """Parse a number such as 0.01."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        try:
            share = float(str(value)) if is_number or isinstance(value, str) else -1.0
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            raise ValueError("is not a share; give a number from 0 to 1, such as 0.01")
        return share
