"""The form of a line on standard error."""

import logging
import re

from bolide.server.logs import Formatter


def line(level: int, *, colours: bool = False) -> str:
    record = logging.LogRecord("bolide", level, __file__, 1, "it is %s", ("late",), None)
    return Formatter(colours=colours).format(record)


def test_line_has_time_process_level_and_name() -> None:
    form = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[\d+\] INFO  bolide: it is late"
    assert re.fullmatch(form, line(logging.INFO))


def test_levels_have_one_width() -> None:
    levels = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
    assert len({line(level).index("bolide") for level in levels}) == 1


def test_colours_are_for_terminals() -> None:
    assert "\x1b[33mWARN \x1b[0m" in line(logging.WARNING, colours=True)
    assert "\x1b" not in line(logging.WARNING)
