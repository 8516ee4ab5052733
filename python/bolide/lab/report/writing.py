"""The files of a report: the page, the Markdown, the pictures."""

from __future__ import annotations

from pathlib import Path

from bolide.errors import ConfigError
from bolide.lab.record import journal
from bolide.lab.report import markdown, page, picture
from bolide.lab.report.summary import Race, gather
from bolide.lab.visible import shown

PAGE, MARKDOWN = "report.html", "report.md"


def read(folder: Path) -> Race:
    """Read a race's folder.

    Raises:
        ConfigError: there are no results, or nothing was measured.
    """
    race = gather(map(shown, journal.read(folder)))
    if not race.results:
        raise ConfigError(f"{folder / journal.FILE_NAME} holds no trial of a study yet")
    return race


def write(folder: Path, out: Path, *, is_png: bool = False) -> list[Path]:
    """Write the report of a race's folder; return the files to open.

    Raises:
        ConfigError: there is nothing to report, or the report cannot be written.
    """
    race = read(folder)
    raw = journal.raw(folder)
    try:
        out.mkdir(parents=True, exist_ok=True)
        pictures = picture.write(race, out, is_png=is_png)
        (out / PAGE).write_text(page.render(race, raw), encoding="utf-8")
        (out / MARKDOWN).write_text(markdown.render(race, pictures), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror}") from None
    return [out / PAGE, out / MARKDOWN]
