"""The form of a line on standard error, and when lines are written."""

import json
import logging
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from bolide.errors import ConfigError
from bolide.server.logs import Formatter, JsonFormatter
from bolide.server.process import log_config
from support.server import Server, Start
from support.waiting import wait_until

pytestmark = pytest.mark.slow


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


def test_a_message_is_one_json_object() -> None:
    try:
        raise OSError("no\nroom")
    except OSError:
        failure = sys.exc_info()
    record = logging.LogRecord(
        "bolide", logging.ERROR, __file__, 1, 'a "%s"\n\x1bé', ("b",), failure
    )
    record.created, record.msecs = 784_111_777.042, 42.9
    written = JsonFormatter().format(record)
    assert written.isascii()
    assert written.isprintable()
    line = json.loads(written)
    assert line.pop("exception").endswith("OSError: no\nroom")
    assert line == {
        "time": "1994-11-06T08:49:37.042Z",
        "level": "error",
        "logger": "bolide",
        "process": os.getpid(),
        "message": 'a "b"\n\x1bé',
    }


FAILING = """
from bolide import App

app = App()

@app.get("/")
def fail(request):
    raise OSError("broken")
"""


def failed(server: Server) -> None:
    with server.connect() as client:
        assert client.get("/").status == 500


def test_messages_as_json(start: Start, tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    server = start("failing.py", "--log-format", "json", cwd=tmp_path)
    failed(server)
    line = json.loads(server.wait_line(r'"logger": "bolide\.error"').string)
    assert line["message"].startswith("GET / raised OSError")
    assert line["exception"].endswith("OSError: broken")
    assert line["process"] in server.workers()


def test_a_reload_that_fails_is_json_too(start: Start, tmp_path: Path) -> None:
    module = tmp_path / "failing.py"
    module.write_text(FAILING)
    server = start("failing.py", "--log-format", "json", cwd=tmp_path)
    module.write_text("raise OSError('not today')\n")
    server.signal(signal.SIGHUP)
    raised = json.loads(server.wait_line("what the application raised follows").string)
    assert raised["level"] == "error"
    assert raised["exception"].startswith("Traceback (most recent call last):")
    assert raised["exception"].endswith("OSError: not today")
    assert "not today" in json.loads(server.wait_line("the reload has failed").string)["message"]


CONFIGURED = {
    "handlers": {
        "file": {"class": "logging.FileHandler", "filename": "server.log", "formatter": "short"}
    },
    "formatters": {"short": {"format": "%(levelname)s %(name)s %(message)s"}},
    "loggers": {"bolide.error": {"handlers": ["file"]}},
}
TOML = """
[handlers.file]
class = "logging.FileHandler"
filename = "server.log"
formatter = "short"
[formatters.short]
format = "%(levelname)s %(name)s %(message)s"
[loggers."bolide.error"]
handlers = ["file"]
"""
INI = """
[loggers]
keys = root, failures
[handlers]
keys = file
[formatters]
keys = short
[logger_root]
handlers =
[logger_failures]
handlers = file
qualname = bolide.error
[handler_file]
class = FileHandler
args = ("server.log",)
formatter = short
[formatter_short]
format = %(levelname)s %(name)s %(message)s
"""
FILES = {"log.json": json.dumps(CONFIGURED), "log.toml": TOML, "log.ini": INI}


@pytest.mark.parametrize("name", FILES)
def test_a_file_configures_logging(start: Start, tmp_path: Path, name: str) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    (tmp_path / name).write_text(FILES[name])
    server = start("failing.py", "--log-config", name, cwd=tmp_path)
    failed(server)
    server.wait_line("ERROR bolide.error: GET / raised OSError")  # passed on to `bolide`
    log = tmp_path / "server.log"
    assert log.read_text().startswith("ERROR bolide.error GET / raised OSError")


ROOT = """
[formatters.json]
"()" = "bolide.server.logs.JsonFormatter"
[handlers.all]
class = "logging.StreamHandler"
formatter = "json"
[root]
handlers = ["all"]
[loggers.bolide]
level = "DEBUG"
"""
OF_ITS_OWN = """
import logging
logging.getLogger("shop").warning("imported")
"""


def test_the_server_and_the_application_share_what_the_file_configures(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "failing.py").write_text(FAILING + OF_ITS_OWN)
    (tmp_path / "log.toml").write_text(ROOT)
    server = start("failing.py", "--log-config", "log.toml", "--log-level", "error", cwd=tmp_path)
    failed(server)
    server.wait_line("raised OSError")
    lines = [json.loads(line) for line in server.lines]
    assert {"shop", "bolide", "bolide.error"} == {line["logger"] for line in lines}
    assert [line["message"] for line in lines if line["logger"] == "shop"] == ["imported"]


def test_a_reload_reads_the_file_again(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log.toml"
    (tmp_path / "failing.py").write_text(FAILING)
    log.write_text("")
    server = start("failing.py", "--log-config", "log.toml", cwd=tmp_path)
    log.write_text("=")
    server.signal(signal.SIGHUP)
    server.wait_line(r"cannot reload: log_config: log\.toml cannot be read: Invalid statement")
    log.write_text(ROOT)
    server.signal(signal.SIGHUP)
    server.wait_line('"message": "reloaded')
    wait_until(lambda: len(server.workers()) == 1)  # the worker that drains may still accept
    failed(server)
    server.wait_line('"logger": "bolide.error"')


NAMES_NO_HANDLER = '[loggers.bolide]\nlevel = "CRITICAL"\nhandlers = ["missing"]\n'
TO_A_FILE = """
[handlers.file]
class = "logging.FileHandler"
filename = "server.log"
[loggers.bolide]
level = "INFO"
handlers = ["file"]
"""


@pytest.mark.parametrize("first", ["", TO_A_FILE])
def test_a_file_that_cannot_be_used_leaves_the_log_as_it_was(
    start: Start, tmp_path: Path, first: str
) -> None:
    config, log = tmp_path / "log.toml", tmp_path / "server.log"
    (tmp_path / "failing.py").write_text(FAILING)
    config.write_text(first)
    server = start("failing.py", "--log-config", "log.toml", cwd=tmp_path, ready=not first)

    def wait_for(text: str) -> None:
        if first:
            wait_until(lambda: log.exists() and text in log.read_text(), 30)
        else:
            server.wait_line(f"(ERROR|INFO ) bolide: {text}")

    if first:
        wait_for("serving failing.py")
    config.write_text(NAMES_NO_HANDLER)
    server.signal(signal.SIGHUP)
    wait_for("cannot reload: log_config: log.toml cannot be used")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "stopped" in (log.read_text() if first else server.errors)


UNUSABLE = {
    "missing.json": ("", "cannot read missing.json: No such file or directory"),
    "a.json": ("{", "a.json cannot be read: Expecting property name"),
    "b.json": ("[]", "b.json contains no table for logging.config.dictConfig"),
    "c.toml": ("=", "c.toml cannot be read: Invalid statement"),
    "d.toml": ("[root]\nhandlers=['x']", "d.toml cannot be used: Unable to configure root logger"),
    "e.ini": ("x", "e.ini cannot be read: File contains no section headers"),
    "f.ini": ("[a]\nb=c", "f.ini cannot be used: KeyError: 'formatters'"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_mistake_in_the_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    text, expected = UNUSABLE[name]
    monkeypatch.chdir(tmp_path)
    if text:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as raised:
        log_config.read(name).apply()
    assert str(raised.value).startswith(f"log_config: {expected}")
    assert "\n" not in str(raised.value)
