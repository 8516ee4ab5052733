"""Reads and writes the results of a race: `results.jsonl`, one JSON object per line.

Each line is written at once, so that a race that ends early keeps what it has measured. `schema.py`
declares the records.
"""

from __future__ import annotations

import fcntl
import gzip
import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from bolide.errors import ConfigError
from bolide.lab.record.schema import SCHEMA, Record
from bolide.lab.visible import visible

FILE_NAME = "results.jsonl"
BYTES_MAX = 256 * 2**20
"""Of all records, which are read at once. Fifty times those of the longest study: 5 MB in 1,300
trials. A file of 400 KB that was made for it would unpack to as much as 400 MB."""

_decoder = msgspec.json.Decoder(Record)


class Journal:
    """The file that a running race writes, record by record, locked against other races."""

    def __init__(self, folder: Path) -> None:
        """Open it for appending, and remove a partial last line of a race that was killed.

        Raises:
            ConfigError: the folder cannot be written, or another race writes it.
        """
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / FILE_NAME).open("ab", buffering=0)
        except (FileExistsError, NotADirectoryError):
            raise ConfigError(f"cannot write {folder}: it is not a folder") from None
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _drop_half_line(folder / FILE_NAME)
        except BlockingIOError:
            self._file.close()
            raise ConfigError(f"another race is writing {folder}; name another --out") from None
        except OSError as error:
            self._file.close()
            raise self._unwritable(error) from None

    def write(self, record: Record) -> None:
        """Append one line.

        Raises:
            ConfigError: it cannot be written; the lines before it are kept.
        """
        left = msgspec.json.encode(record) + b"\n"
        try:
            while left:
                left = left[self._file.write(left) or 0 :]
        except OSError as error:
            raise self._unwritable(error) from None

    def records(self) -> list[Record]:
        """Return all records in the file so far."""
        return read(self._folder)

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(f"cannot write {self._folder}: {error.strerror}")

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _drop_half_line(path: Path) -> None:
    """Remove a partial last line, left by a race that was killed while it wrote."""
    content = path.read_bytes()
    if not content.endswith(b"\n"):
        os.truncate(path, len(_whole_lines(content)))


def _whole_lines(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


def raw(folder: Path) -> bytes:
    """Return the lines in a race's folder, also if they are compressed with gzip.

    A partial last line, of a race that was killed or whose disk was full, is left out.

    Raises:
        ConfigError: there are none, too many, or they cannot be decompressed.
    """
    path, packed = folder / FILE_NAME, folder / f"{FILE_NAME}.gz"
    try:
        if not path.exists() and packed.exists():
            with gzip.open(packed) as file:
                return _whole_lines(_limited(file, packed))
        with path.open("rb") as file:
            return _whole_lines(_limited(file, path))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ConfigError(f"{packed} is damaged: {error}") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None


def _limited(file: BinaryIO | gzip.GzipFile, path: Path) -> bytes:
    """Read a whole file.

    Raises:
        ConfigError: it has more than BYTES_MAX.
    """
    found = file.read(BYTES_MAX + 1)
    if len(found) > BYTES_MAX:
        raise ConfigError(
            f"{path} has more than {BYTES_MAX >> 20} MiB of records, the most that is read"
        )
    return found


def read(folder: Path) -> list[Record]:
    """Read all records of a race's folder; a partial last line is left out.

    Raises:
        ConfigError: the file does not exist, a line is not a record, or has another schema.
    """
    path = folder / FILE_NAME
    found: list[Record] = []
    for number, line in enumerate(raw(folder).split(b"\n")[:-1], 1):
        try:
            record: Any = _decoder.decode(line)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ConfigError(
                f"{path}, line {number} is not a record of a race: {visible(str(error))}"
            ) from None
        if record.schema != SCHEMA:
            raise ConfigError(
                f"{path}, line {number} has schema {record.schema}; this Bolide reads {SCHEMA}"
            )
        found.append(record)
    return found
