"""The types of option values, and how they are parsed from text or a native value.

A kind does not know where a value came from; `settings.py` adds that. `parse` raises `ValueError`
with the end of a sentence that starts with the value: "is not a whole number; ...".
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bolide.config import address

TRUE_WORDS = ("1", "true", "yes", "on")
FALSE_WORDS = ("0", "false", "no", "off")
ORIGIN_FORMS = '"*", "same", or origins such as "https://example.org"'
SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([kmgt]?)(?:i?b)?", re.IGNORECASE)
SIZE_MAX = 2**50
"""Bytes. More than a machine has; sums fit into 64 bits."""
DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) ?(ms|s|sec|m|min|h|d)", re.IGNORECASE)
SECONDS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
PROCESSORS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
STREAM_WORDS = ("stdout", "stderr", "none")
"""Words that other programs accept where a log is named."""


class Kind(Protocol):
    """A type of option value."""

    @property
    def metavar(self) -> str:
        """The placeholder for a value in the help text."""
        ...

    def parse(self, value: object) -> object:
        """Turn text or a native value into the option's value."""
        ...


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number from `minimum` to `maximum`, both included.

    One whose `unit` is bytes may have a unit itself, as in `Size`.
    """

    minimum: int
    maximum: int
    note: str = ""
    unit: str = ""

    @property
    def metavar(self) -> str:
        """What the number counts."""
        return "BYTES" if self.unit == "bytes" else "N"

    def parse(self, value: object) -> int:
        """Parse a whole number."""
        number = value if isinstance(value, int) and not isinstance(value, bool) else None
        if isinstance(value, str):
            is_size = self.unit == "bytes" and not _is_whole(value)
            number = _size(value) if is_size else int(value) if _is_whole(value) else None
        if number is None:
            raise ValueError(self._refusal(value))
        if not self.minimum <= number <= self.maximum:
            raise ValueError(f"is out of range; give {self._range()}")
        return number

    def _refusal(self, value: object) -> str:
        if self.unit == "bytes":
            return f"is not a number of bytes; give {self._range()}, or one like 64M or 1.5G"
        if (meant := _in_unit(value, self.unit)) and self.minimum <= meant <= self.maximum:
            return f"is not a whole number; give {self.unit}, for example {meant}"
        return f"is not a whole number; give {self._range()}"

    def _range(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.minimum} to {self.maximum}{note}"


@dataclass(frozen=True, slots=True)
class ZeroOr(Number):
    """A whole number from `minimum` to `maximum`, or 0."""

    def parse(self, value: object) -> int:
        """Parse a whole number."""
        is_zero = value == "0" or (value == 0 and isinstance(value, int) and value is not False)
        return 0 if is_zero else Number.parse(self, value)


@dataclass(frozen=True, slots=True)
class Size:
    """A number of bytes, with or without a unit, each 1024 times the one before; 0 = off."""

    metavar: str = "BYTES"

    def parse(self, value: object) -> int:
        """Parse a size, such as 536870912, 512M or 1.5GiB."""
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return _up_to_most(value)
        size = _size(value) if isinstance(value, str) else None
        if size is None:
            raise ValueError("is not a size; give bytes, or one like 512M or 1.5G (0 = off)")
        return _up_to_most(size)


@dataclass(frozen=True, slots=True)
class SizeOrAuto:
    """A number of bytes of at least so many, as `Size` parses it, "auto", or 0 for off."""

    least: int
    metavar: str = "BYTES|auto"

    def parse(self, value: object) -> int | str:
        """Parse a size or "auto"."""
        if value == "auto":
            return "auto"
        size = Size().parse(value)
        if 0 < size < self.least:
            raise ValueError(f"is too little; give at least {self.least // 2**20}M (0 = off)")
        return size


@dataclass(frozen=True, slots=True)
class Count:
    """A number of processes, or "auto" for one per processor that this process may use."""

    metavar: str = "N|auto"

    def parse(self, value: object) -> int:
        """Parse a number of processes."""
        if value == "auto":
            return len(os.sched_getaffinity(0))
        return Number(1, 1024, 'or "auto": one for each processor').parse(value)


@dataclass(frozen=True, slots=True)
class Processors:
    """Numbers of processors, or "auto" for those that this process may use; empty for none."""

    metavar: str = "LIST|auto"

    def parse(self, value: object) -> tuple[int, ...]:
        """Parse a list such as 0,2,4-7."""
        if value == "auto":
            return tuple(sorted(os.sched_getaffinity(0)))
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list | tuple):
            value = [value]
        found: list[int] = []
        for part in value:
            numbers = PROCESSORS.fullmatch(str(part))
            if numbers is None or isinstance(part, bool):
                raise ValueError('is not a list of processors; give one like 0,2,4-7, or "auto"')
            first, last = int(numbers[1]), int(numbers[2] or numbers[1])
            found += range(first, last + 1)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Switch:
    """On or off.

    With a `metavar` the flag takes a value; without one, a second flag switches it off.
    """

    metavar: str = ""

    def parse(self, value: object) -> bool:
        """Parse a truth value."""
        if isinstance(value, bool):
            return value
        word = str(value).lower()
        if word in TRUE_WORDS:
            return True
        if word in FALSE_WORDS:
            return False
        raise ValueError('is neither on nor off; give "true" or "false"')


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words, in any case; `aliases` are other words for some of them."""

    words: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def metavar(self) -> str:
        """The words themselves."""
        return "|".join(self.words)

    def parse(self, value: object) -> str:
        """Parse one of the words."""
        word = str(value).lower() if isinstance(value, str | float) else ""  # tls_minimum = 1.3
        word = self.aliases.get(word, word)
        if word in self.words:
            return word
        raise ValueError(f"is not one of the choices; give {' or '.join(self.words)}")


@dataclass(frozen=True, slots=True)
class Choices:
    """Any of a few words; text separates them by commas."""

    words: tuple[str, ...]

    @property
    def metavar(self) -> str:
        """All of the words."""
        return ",".join(self.words)

    def parse(self, value: object) -> tuple[str, ...]:
        """Parse words; return each once, in the order of the choices."""
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list | tuple) or any(each not in self.words for each in value):
            both = ", or both" if len(self.words) == 2 else ", or several"
            raise ValueError(f"is not one of the choices; give {' or '.join(self.words)}{both}")
        return tuple(word for word in self.words if word in value)


@dataclass(frozen=True, slots=True)
class Origins:
    """Origins of browsers, as in `https://example.org`; text separates them by commas.

    `*` is all of them, `same` the one that a request is for.
    """

    metavar: str = "ORIGINS"

    def parse(self, value: object) -> tuple[str, ...]:
        """Parse origins."""
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(f"names no origin; give {ORIGIN_FORMS}")
        for each in value:
            if not isinstance(each, str) or not self._is_origin(each):
                raise ValueError(f"has {each!r}, which is not an origin; give {ORIGIN_FORMS}")
        return tuple(value)

    @staticmethod
    def _is_origin(text: str) -> bool:
        scheme, separator, authority = text.partition("://")
        is_origin = scheme.isalpha() and bool(separator) and authority.isascii()
        return text in ("*", "same") or (is_origin and bool(authority) and "/" not in authority)


@dataclass(frozen=True, slots=True)
class Ordered:
    """At least one of a few words, in the order that is given; text separates them by commas."""

    words: tuple[str, ...]

    @property
    def metavar(self) -> str:
        """All of the words."""
        return ",".join(self.words)

    def parse(self, value: object) -> tuple[str, ...]:
        """Parse words."""
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list | tuple) or not value or {*value} - {*self.words}:
            raise ValueError(f"is not a list of the choices; give {','.join(self.words)}")
        return tuple(dict.fromkeys(value))


@dataclass(frozen=True, slots=True)
class Paths:
    """Any number of files; text separates them by commas, and "" stands for no file in a list."""

    metavar: str = "PATH"

    def parse(self, value: object) -> tuple[str, ...]:
        """Parse the names of files."""
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        elif isinstance(value, os.PathLike):
            value = [value]
        if not isinstance(value, list | tuple):
            raise ValueError("is not a path or a list of paths; give path")
        return tuple(Text(self.metavar, may_be_empty=True).parse(part) for part in value)


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is not empty, unless empty text means "not set"."""

    metavar: str
    may_be_empty: bool = False

    def parse(self, value: object) -> str:
        """Parse text."""
        if not isinstance(value, str | os.PathLike):
            raise ValueError(f"is not text; give {self.metavar.lower()}")
        text = os.fspath(value)
        if not text and not self.may_be_empty:
            raise ValueError(f"is empty; give {self.metavar.lower()}")
        if "\0" in text:
            raise ValueError(f"contains a NUL character; give {self.metavar.lower()} without one")
        return text


@dataclass(frozen=True, slots=True)
class SocketPath:
    """The path of a UNIX socket; empty text means "not set"."""

    metavar: str = "PATH"

    def parse(self, value: object) -> str:
        """Parse a path."""
        text = Text(self.metavar, may_be_empty=True).parse(value)
        if text.startswith("unix:"):
            raise ValueError(f"has a scheme; give the path alone: {text.removeprefix('unix:')}")
        address.check_path(text)
        return text


ID_MAX = 2**32 - 2
"""The largest number of a user or group; the one after it means "none" to chown(2)."""


@dataclass(frozen=True, slots=True)
class Account:
    """The name or number of a user or group; empty text means "not set"."""

    metavar: str

    def parse(self, value: object) -> str:
        """Parse a name or number, which may be none of this machine."""
        what = self.metavar.lower()
        is_number = isinstance(value, int) and not isinstance(value, bool)
        text = Text(self.metavar, may_be_empty=True).parse(str(value) if is_number else value)
        if _is_whole(text) and not 0 <= int(text) <= ID_MAX:
            raise ValueError(f"is not the number of a {what}; give 0 to {ID_MAX}, or a name")
        return text


@dataclass(frozen=True, slots=True)
class FileMode:
    """The permissions of a file in octal digits; empty text means "not set".

    No numbers: 660 would not be what it looks like.
    """

    metavar: str = "MODE"

    def parse(self, value: object) -> str:
        """Parse a mode."""
        if value == "":
            return ""
        text = value.removeprefix("0o") if isinstance(value, str) else ""
        if not 3 <= len(text) <= 4 or set(text) - set("01234567") or int(text, 8) > 0o777:
            raise ValueError('is not a mode; give octal digits as text, such as "660"')
        return text


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory in which files can be created, or one of the `words` instead."""

    words: tuple[str, ...]
    metavar: str = "PATH"

    def parse(self, value: object) -> str:
        """Parse a path; look whether the directory is there."""
        text = Text(self.metavar).parse(value)
        if text in self.words:
            return text
        if not os.path.isdir(text):
            raise ValueError("is not a directory; create it, or give another")
        if not os.access(text, os.W_OK | os.X_OK):
            raise ValueError("is a directory in which this user cannot create files; give another")
        return text


@dataclass(frozen=True, slots=True)
class Host:
    """A name or an address of this machine, without a port."""

    metavar: str = "HOST"

    def parse(self, value: object) -> str:
        """Parse a host."""
        text = Text(self.metavar).parse(value)
        bare = text.partition("://")[2].rstrip("/") if "://" in text else text
        host, _, port = bare.rpartition(":")
        if host and port.isdecimal() and (":" not in host or host.endswith("]")):
            host = host.removeprefix("[").removesuffix("]")
            raise ValueError(f"includes a port; give the host {host} and the port {port}")
        if bare.startswith("[") and bare.endswith("]"):
            raise ValueError(f"has brackets; give {bare[1:-1]}")
        if bare != text:
            raise ValueError(f"is a URL; give the host {bare}")
        if text.startswith("unix:"):
            raise ValueError(f"is a UNIX socket; give uds {text.removeprefix('unix:')}")
        return text


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file for a log, "-" for standard output, or "off"; no word that only switches it on."""

    metavar: str = "PATH"

    def parse(self, value: object) -> str:
        """Parse the name of a file."""
        if isinstance(value, str) and value.lower() == "off":
            return "off"
        if str(value).lower() in (*TRUE_WORDS, *FALSE_WORDS, *STREAM_WORDS):
            remedy = 'give a file, "-" for standard output or "off" for none'
            raise ValueError(f"names no file; {remedy} (./{value} is a file of that name)")
        return Text(self.metavar).parse(value)


@dataclass(frozen=True, slots=True)
class PathPrefix:
    """The first segments of a path, decoded; empty for none."""

    metavar: str = "/PATH"

    def parse(self, value: object) -> str:
        """Parse a prefix."""
        text = Text("PATH", may_be_empty=True).parse(value)
        bare = text.rstrip("/")
        if bare.startswith("/") and bare != text and not set(text) & set("?#"):
            raise ValueError(f"ends in a slash; give it without the final /: {bare}")
        if text and (not text.startswith("/") or text.endswith("/") or set(text) & set("?#")):
            raise ValueError("is not a path prefix; give one like /shop, or leave it out for none")
        return text


@dataclass(frozen=True, slots=True)
class Addresses:
    """Any number of addresses to listen on; text separates them by commas."""

    metavar: str = "ADDRESS"

    def parse(self, value: object) -> tuple[address.Address, ...]:
        """Parse addresses."""
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list | tuple):
            raise ValueError(f"is not a list of addresses; give {address.FORMS}")
        return tuple(_one_address(part, is_alone=len(value) == 1) for part in value)


@dataclass(frozen=True, slots=True)
class OneAddress:
    """An address to listen on; empty text means "not set"."""

    metavar: str = "ADDRESS"

    def parse(self, value: object) -> address.Address | None:
        """Parse an address."""
        return None if value in ("", None) else _one_address(value, is_alone=True)


def _one_address(value: object, *, is_alone: bool) -> address.Address:
    if isinstance(value, address.Address):
        return value
    try:
        return address.parse(str(value))
    except ValueError as error:
        raise ValueError(str(error) if is_alone else f"contains {value!r}, which {error}") from None


def _up_to_most(size: int) -> int:
    if size > SIZE_MAX:
        raise ValueError(f"is too much; give at most {SIZE_MAX // 2**40}T (0 = off)")
    return size


def _size(text: str) -> int | None:
    """Return the bytes that a text such as 512M means; a fraction needs a unit."""
    found = SIZE.fullmatch(text.strip())
    if found is None or (not found[2] and "." in found[1]):
        return None
    if not found[2]:
        return int(found[1])
    return int(float(found[1]) * 1024 ** " kmgt".index(found[2].lower()))


def _in_unit(value: object, unit: str) -> int:
    """Return what a duration such as 30s is in milliseconds or seconds; 0 for anything else."""
    found = DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    factor = {"milliseconds": 1000, "seconds": 1}.get(unit)
    if found is None or factor is None:
        return 0
    return round(float(found[1]) * SECONDS[found[2].lower()] * factor)


def _is_whole(text: str) -> bool:
    digits = text[1:] if text[:1] in ("-", "+") else text
    return digits.isascii() and digits.isdigit() and len(digits) <= 4000
