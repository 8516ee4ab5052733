"""Reads the files and commands out of a page of the documentation.

A block with a title is a file. A block of the language `console` holds commands (`$ `) and what
they print. Other blocks are not run. In expected output, `...` stands for any text, and alone on a
line for any lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?$")
VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[\d+\]"), "<time> [<pid>]"),
    (re.compile(r"\bpid \d+\b"), "pid <pid>"),
    (re.compile(r"\bmemory limit: \S+ \wiB per worker \(half of .*"), "memory limit: <memory>"),
    (re.compile(r"^Date: .*", re.MULTILINE), "Date: <date>"),
    (re.compile(r"\bin \d+\.\d+s\b"), "in <time>"),
)
"""What differs from run to run."""


@dataclass(frozen=True)
class File:
    """A file that the page has its reader write."""

    name: str
    content: str


@dataclass(frozen=True)
class Command:
    """A command that the page has its reader run, and the lines that it prints."""

    line: str
    output: str


def steps(path: Path) -> Iterator[File | Command]:
    """Yield the files and commands of a page in order.

    Raises:
        AssertionError: A block has no end, or a console block starts with output.
    """
    lines = iter(path.read_text().splitlines())
    before = ""
    for line in lines:
        match = FENCE.match(line)
        if match is None:
            assert not line.startswith("```"), f"{path.name}: cannot read {line}"
            before = line or before
            continue
        block = _block(path, lines)
        if match[2]:
            assert f"`{match[2]}`" in before, f"{path.name}: only the site shows {match[2]}"
            yield File(match[2], "".join(f"{each}\n" for each in block))
        elif match[1] == "console":
            yield from _commands(path, block)


def is_printed(expected: str, printed: str) -> bool:
    """Return whether a command printed what the page says."""
    lines = [_pattern(_masked(line)) for line in expected.splitlines()]
    ended = printed and printed.rstrip("\n") + "\n"
    return re.fullmatch("".join(lines), _masked(ended)) is not None


def _pattern(line: str) -> str:
    if line == "...":
        return r"(?:.*\n)*"
    return ".*".join(re.escape(part) for part in line.split("...")) + r"\n"


def _masked(text: str) -> str:
    for pattern, mask in VARYING:
        text = pattern.sub(mask, text)
    return text


def _block(path: Path, lines: Iterator[str]) -> list[str]:
    block = []
    for line in lines:
        if line == "```":
            return block
        block.append(line)
    raise AssertionError(f"{path.name}: a block has no end")


def _commands(path: Path, block: list[str]) -> Iterator[Command]:
    assert block[0].startswith("$ "), f"{path.name}: {block[0]}"
    starts = [number for number, line in enumerate(block) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(block)], strict=True):
        yield Command(block[start].removeprefix("$ "), "\n".join(block[start + 1 : end]))
