"""The form of a line on standard error, and when lines are written."""

import logging
import re
from pathlib import Path

import pytest

from bolide.server.logs import Formatter
from support.server import Start


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


DISABLED = """
import logging.config

def disable():
    handlers = {"all": {"class": "logging.StreamHandler"}}
    logging.config.dictConfig({"version": 1, "handlers": handlers, "root": {"handlers": ["all"]}})
"""
AT_THE_IMPORT = "disable()\n"
IN_THE_STARTUP = "app.on_startup(disable)\n"


@pytest.mark.parametrize("where", [AT_THE_IMPORT, IN_THE_STARTUP])
def test_logging_config_does_not_silence_the_server(
    start: Start, tmp_path: Path, where: str
) -> None:
    handler = "@app.get('/')\ndef fail(request):\n    raise OSError('broken')\n"
    text = f"from bolide import App\napp = App()\n{handler}{DISABLED}{where}"
    (tmp_path / "configured.py").write_text(text)
    server = start("configured.py", cwd=tmp_path)
    with server.connect() as client:
        assert client.get("/").status == 500
    server.wait_line("ERROR bolide.error: GET / raised OSError")
