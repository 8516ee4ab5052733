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
