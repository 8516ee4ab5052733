"""The options about logs, and the types of their values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bolide import _core
from bolide.config.option import Choice, Choices, LogFile, Number, Switch, Text, ZeroOr
from bolide.config.row import CORE_NUMBER_MAX, LOGGING, row
from bolide.errors import ConfigError

FORMATS = ("combined", "json")
LETTER = re.compile(r"%\((\{[^{}]+\}[ioe]|[a-zA-Z])\)[sd]")
"""One of gunicorn's fields, as in %(h)s or %({referer}i)s."""
LETTERS = {
    "B": "{content_bytes}",
    "D": "{duration_us}",
    "H": "{version}",
    "L": "{duration_ms} (no seconds)",
    "M": "{duration_ms}",
    "T": "{duration_ms} (no seconds)",
    "U": "{path}",
    "a": "{user_agent}",
    "b": "{content_bytes}",
    "f": "{referer}",
    "h": "{client}",
    "l": "-",
    "m": "{method}",
    "p": "{worker}",
    "q": "{target} (path and query)",
    "r": "{request}",
    "s": "{status}",
    "t": "[{time}]",
    "u": "-",
}
UNKNOWN = re.compile(r"has the unknown field \{(.*)\}; fields are (.*)")
USUAL_FIELD = "X-Request-ID"
FIELD_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
TAKEN = re.compile(
    r"(accept|access-control|content|proxy|sec|x-forwarded)-.*|authorization|connection|cookie|date"
    r"|expect|forwarded|host|http2-settings|keep-alive|origin|priority|referer|server|set-cookie|te"
    r"|traceparent|tracestate|trailer|transfer-encoding|upgrade|user-agent|vary",
    re.IGNORECASE,
)
"""Fields that say something else: they would be replaced."""


@dataclass(frozen=True, slots=True)
class LineFormat:
    """The format of the access log: a word for a known one, or a template."""

    metavar: str = "|".join((*FORMATS, "TEMPLATE"))

    def parse(self, value: object) -> str:
        """Parse a format, which the core checks."""
        text = str(value)
        if text.lower() in FORMATS:
            return text.lower()
        if letters := dict.fromkeys(LETTER.findall(text)):
            instead = ", ".join(f"{_of_letter(each)} for %({each})s" for each in letters)
            raise ValueError(f"has gunicorn's letters; give names instead: {instead}")
        try:
            _core.check_access_log_format(text)
        except ValueError as error:
            raise ValueError(_with_nearest(str(error))) from None
        return text


def _of_letter(letter: str) -> str:
    """Return what a template has instead of one of gunicorn's letters."""
    if letter.startswith("{"):
        name, _, kind = letter[1:].lower().rpartition("}")
        return {"i": f"{{request.{name}}}", "o": f"{{response.{name}}}"}.get(kind, "nothing")
    return LETTERS.get(letter, "nothing")


def _with_nearest(error: str) -> str:
    """Name the field that was probably meant in the core's message about an unknown one."""
    found = UNKNOWN.fullmatch(error)
    if found is None:
        return error
    from difflib import get_close_matches

    name, names = found.groups()
    wanted = re.sub(r"_s$", "_ms", name)  # no field has seconds
    near = get_close_matches(wanted, names.split(", "), n=1)
    hint = f"did you mean {{{near[0]}}}? " if near else ""
    return f"has the unknown field {{{name}}}; {hint}fields are {names}"


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


@dataclass(frozen=True, slots=True)
class RequestIdField:
    """The name of the field with the ids of requests; `off` for none."""

    metavar: str = "on|off|FIELD"

    def parse(self, value: object) -> str:
        """Parse the name of a field that has no other meaning for the server."""
        words = {"on": USUAL_FIELD, "true": USUAL_FIELD, "off": "off", "false": "off"}
        name = str(value)
        if known := words.get(name.lower()):
            return known
        if not FIELD_NAME.fullmatch(name):
            raise ValueError(f"is no name of a field; give one such as {USUAL_FIELD}, on, or off")
        if TAKEN.fullmatch(name):
            raise ValueError(f"names a field with another meaning; give one such as {USUAL_FIELD}")
        return name


@dataclass(frozen=True, kw_only=True)  # of several bases, one may have slots
class LoggingOptions:
    """The options about logs."""

    log_level: str = row(
        "info",
        Choice(
            ("debug", "info", "warning", "error", "critical"),
            {"warn": "warning", "err": "error", "fatal": "critical"},
        ),
        LOGGING,
        "Lowest level of messages that are written to standard error.",
    )
    log_format: str = row(
        "text",
        Choice(("text", "json")),
        LOGGING,
        "Format of messages on standard error: text, or one JSON object per line.",
    )
    log_config: str = row(
        "",
        Text("PATH", may_be_empty=True),
        LOGGING,
        "File that configures Python's logging: a dictionary for `logging.config.dictConfig` in "
        "JSON, TOML or YAML (with PyYAML), by its suffix; others are INI for `fileConfig`.",
    )
    access_log: str = row(
        "off",
        LogFile(),
        LOGGING,
        'File to which one line per request is appended; "-" for standard output, "off" for none.',
    )
    access_log_format: str = row(
        "combined",
        LineFormat(),
        LOGGING,
        "Format of the access log: combined, json, or a template with fields in braces, such as "
        "'{client} {method} {target} {status} {duration_ms}'.",
    )
    access_log_only: tuple[str, ...] = row(
        (),
        Choices(("errors", "slow")),
        LOGGING,
        "Requests that have a line in the access log, separated by commas: errors, with a status "
        "from 400 on; slow, those that took at least access_log_slow_ms. Without it, all have one.",
    )
    access_log_slow_ms: int = row(
        1000,
        Number(1, CORE_NUMBER_MAX),
        LOGGING,
        "Duration from which on a request is slow, for `access_log_only`. A second is what users "
        "notice.",
        unit="milliseconds",
    )
    access_log_sample: float = row(
        1.0,
        Share(),
        LOGGING,
        "Share of the requests that may have a line, drawn at random: 0.01 is one of a hundred.",
    )
    request_id: str = row(
        "off",
        RequestIdField(),
        LOGGING,
        "Field that has the id of a request: on is X-Request-ID. An id of a trusted proxy is kept, "
        "if it is valid; every other request gets a new one. Applications find it in the field, "
        "logs in messages about requests and in the access log.",
    )
    request_id_response: bool = row(
        False,
        Switch(),
        LOGGING,
        "Send the id of a request in its response too, in the field that `request_id` names.",
    )
    slow_request_ms: int = row(
        0,
        ZeroOr(1, CORE_NUMBER_MAX, "0 = off"),
        LOGGING,
        "Log a request whose handler has not started to respond for so long, with the Python stack "
        "of where it is, while it runs; and again when it responds, with the time it took. At most "
        "10 reports per second; the others are counted. 0 = never.",
        unit="milliseconds",
    )

    def check_request_ids(self) -> None:
        """Check that ids that are sent exist.

        Raises:
            ConfigError: they do not.
        """
        if self.request_id_response and self.request_id == "off":
            raise ConfigError("request_id_response needs request_id; set it to on")

    @property
    def request_ids(self) -> tuple[str, bool] | None:
        """The field with the ids of requests, and whether responses have it; None for no ids."""
        return None if self.request_id == "off" else (self.request_id, self.request_id_response)

    @property
    def logging(self) -> tuple[str, str, str]:
        """The arguments of `bolide.server.logs.configure`."""
        return self.log_level, self.log_format, self.log_config

    @property
    def has_log_file(self) -> bool:
        """Whether the access log is a file, which may be opened again."""
        return self.access_log not in ("off", "-")
