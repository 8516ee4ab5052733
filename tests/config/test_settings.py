"""The option table and the ways in which a value reaches it."""

from pathlib import Path
from typing import Any

import pytest

from bolide import _core
from bolide.config.address import Address
from bolide.config.settings import Settings, resolve, table
from bolide.errors import ConfigError


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settle(given: dict[str, Any], **environ: str) -> Settings:
    return resolve(given, environ=environ)


def test_names_are_unique_and_ready_for_flags() -> None:
    names = [option.name for option in table()]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() and name == name.lower() for name in names)
    assert all(option.help.endswith(".") and option.group for option in table())


def test_defaults_are_valid() -> None:
    for option in table():
        assert option.kind.parse(option.default) == option.default


def test_limits_and_timeouts_come_from_the_core() -> None:
    core = settle({}).core
    assert core == {name: default for name, _, default, _, _ in _core.settings()}
    assert {"connections_max", "header_timeout_ms"} <= core.keys()


def test_flag_then_variable_then_file_then_default(tmp_path: Path) -> None:
    (tmp_path / "bolide.toml").write_text("backlog = 3\nworkers = 3\nport = 3\n")
    settings = settle({"backlog": 1}, BOLIDE_BACKLOG="2", BOLIDE_WORKERS="2")
    assert (settings.backlog, settings.workers, settings.port) == (1, 2, 3)
    assert settings.host == "127.0.0.1"


def test_section_of_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.bolide]\nbind = ["127.0.0.1:1", "unix:/x"]\n')
    assert settle({}).addresses == (Address("127.0.0.1", 1), Address(path="/x"))
    (tmp_path / "bolide.toml").write_text("port = 2\n")
    assert settle({}).addresses == (Address("127.0.0.1", 2),)


def test_named_file(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("port = 4\n")
    assert settle({}, BOLIDE_CONFIG="other.toml").port == 4


def test_variables_hold_text_of_every_kind() -> None:
    settings = settle(
        {},
        BOLIDE_BIND="127.0.0.1:1, [::1]:2",
        BOLIDE_SERVER_HEADER="no",
        BOLIDE_HEADER_TIMEOUT_MS="7",
    )
    assert settings.bind == (Address("127.0.0.1", 1), Address("::1", 2))
    assert settings.server_header is False
    assert settings.core["header_timeout_ms"] == 7


def test_nearest_says_where_to_listen() -> None:
    assert settle({"port": 9}, BOLIDE_UDS="/x").addresses == (Address("127.0.0.1", 9),)
    assert settle({"uds": "/y"}, BOLIDE_BIND="h:1").addresses == (Address(path="/y"),)
    assert settle({"port": 9}, BOLIDE_HOST="h").addresses == (Address("h", 9),)


def test_two_places_at_once_are_refused() -> None:
    with pytest.raises(ConfigError, match="host/port and bind both set where to listen"):
        settle({"port": 1, "bind": "h:1"})


def test_auto_workers_is_one_for_each_processor() -> None:
    import os

    assert settle({"workers": "auto"}).workers == len(os.sched_getaffinity(0))


MISTAKES: list[tuple[dict[str, Any], dict[str, str], str, str]] = [
    ({"port": 65536}, {}, "", "port=65536 is out of range; give 0 to 65535"),
    ({"port": True}, {}, "", "port=True is not a whole number"),
    ({"host": ""}, {}, "", "host='' is empty; give host"),
    ({"host": 3}, {}, "", "host=3 is not text"),
    ({"server_header": "maybe"}, {}, "", "server_header='maybe' is neither on nor off"),
    ({"wrokers": 2}, {}, "", "wrokers=: no such option; did you mean workers?"),
    (
        {"connections_max": 0},
        {},
        "",
        "connections_max=0 is out of range; give 1 to 1099511627776",
    ),
    ({"body_bytes_max": 2**64}, {}, "", f"body_bytes_max={2**64} is out of range; give 1 to"),
    ({}, {"BOLIDE_PORT": "9" * 30}, "", f"BOLIDE_PORT: '{'9' * 30}' is out of range; give 0 to"),
    (
        {},
        {"BOLIDE_PORT": "tcp://10.0.0.1:80"},
        "",
        "BOLIDE_PORT: 'tcp://10.0.0.1:80' is not a whole",
    ),
    ({}, {"BOLIDE_BIND": "h"}, "", "BOLIDE_BIND: 'h' is not an address; give HOST"),
    ({}, {"BOLIDE_PROT": "1"}, "", "BOLIDE_PROT: no such option; did you mean BOLIDE_PORT?"),
    (
        {},
        {"BOLIDE_WROKERS": "2"},
        "",
        "BOLIDE_WROKERS: no such option; did you mean BOLIDE_WORKERS?",
    ),
    ({}, {}, 'port = "x"', "port in bolide.toml: 'x' is not a whole number"),
    ({}, {}, "prot = 1", "prot in bolide.toml: no such option; did you mean port?"),
    ({}, {}, "port = ", "bolide.toml is not valid TOML: "),
    (
        {},
        {},
        "port = 80\nport = 81",
        "bolide.toml is not valid TOML: Cannot overwrite a value (at end of document): port is",
    ),
    (
        {},
        {},
        "port = 80\nport = 81\n",
        "bolide.toml is not valid TOML: Cannot overwrite a value (at line 2, column 10): port is",
    ),
    (
        {},
        {},
        "[tool.bolide]\nport = 1",
        "bolide.toml has the table [tool.bolide]; write its options at the top level, without [t",
    ),
    ({"host": "[::1]:80"}, {}, "", "host='[::1]:80' includes a port; give the host ::1 and the"),
    ({"host": "h:80"}, {}, "", "host='h:80' includes a port; give the host h and the port 80"),
    ({"host": "http://h:80/"}, {}, "", "host='http://h:80/' includes a port; give the host h a"),
    ({"host": "http://h/"}, {}, "", "host='http://h/' is a URL; give the host h"),
    ({"host": "[::1]"}, {}, "", "host='[::1]' has brackets; give ::1"),
    ({"host": "unix:/x"}, {}, "", "host='unix:/x' is a UNIX socket; give uds /x"),
    ({"access_log": True}, {}, "", 'access_log=True names no file; give a file, "-" for stand'),
    ({}, {"BOLIDE_ACCESS_LOG": "1"}, "", "BOLIDE_ACCESS_LOG: '1' names no file; give a file, "),
    ({}, {}, 'access_log = "stdout"', "access_log in bolide.toml: 'stdout' names no file; give"),
    ({"reload_delay": 1}, {}, "", "reload_delay=: no such option; leave it out: changes are"),
    (
        {"timeout_keep_alive": 5},
        {},
        "",
        "timeout_keep_alive=: no such option; use keep_alive_timeout_ms, in milliseconds",
    ),
    ({}, {}, 'ssl_keyfile = "k"', "ssl_keyfile in bolide.toml: no such option; use key"),
    ({}, {"BOLIDE_RELOAD_DELAY": "1"}, "", "BOLIDE_RELOAD_DELAY: no such option; leave it out"),
    (
        {},
        {"BOLIDE_TIMEOUT": "30"},
        "",
        "BOLIDE_TIMEOUT: no such option; use BOLIDE_HANDLER_TIMEOUT_MS, and ",
    ),
    (
        {"body_bytes_max": "much"},
        {},
        "",
        "body_bytes_max='much' is not a number of bytes; give 1 to 1099511627776, or one like "
        "64M or 1.5G",
    ),
    ({"body_bytes_max": "1.5"}, {}, "", "body_bytes_max='1.5' is not a number of bytes; give"),
    ({}, {"BOLIDE_BODY_BYTES_MAX": "2T"}, "", "BOLIDE_BODY_BYTES_MAX: '2T' is out of range; giv"),
    (
        {"keep_alive_timeout_ms": "30s"},
        {},
        "",
        "keep_alive_timeout_ms='30s' is not a whole number; give milliseconds, for example 30000",
    ),
    (
        {"worker_lifetime_s": "1h"},
        {},
        "",
        "worker_lifetime_s='1h' is not a whole number; give seconds, for example 3600",
    ),
    (
        {"graceful_timeout_ms": "9" * 20},
        {},
        "",
        f"graceful_timeout_ms='{'9' * 20}' is out of range; give 1 to 1000000000",
    ),
    (
        {"worker_memory_max": "2000T"},
        {},
        "",
        "worker_memory_max='2000T' is too much; give at most 1024T",
    ),
    ({"uds": "/x/"}, {}, "", "uds='/x/' ends in a slash, as a folder does; give the path of a"),
    ({"bind": "unix:x/"}, {}, "", "bind='unix:x/' ends in a slash, as a folder does; give the"),
    (
        {},
        {},
        'management = "unix:a\\u0000b"',
        "management in bolide.toml: 'unix:a\\x00b' contains a NUL character; give a path without",
    ),
    (
        {"uds_group": "99999999999"},
        {},
        "",
        "uds_group='99999999999' is not the number of a group; give 0 to 4294967294, or a name",
    ),
    ({"uds_owner": 2**32 - 1}, {}, "", "uds_owner=4294967295 is not the number of a user; give"),
    ({}, {}, f"port = {'1' * 6000}", "bolide.toml has a number with too many digits; shorten it"),
    ({}, {}, f"port = {'[' * 5000}{']' * 5000}", "bolide.toml is nested too deeply; write option"),
    ({"log_level": "trace"}, {}, "", "log_level='trace' is not one of the choices; give debug "),
]


@pytest.mark.parametrize(("given", "environ", "file", "says"), MISTAKES)
def test_mistake_names_option_value_source_and_fix(
    given: dict[str, Any], environ: dict[str, str], file: str, says: str, tmp_path: Path
) -> None:
    if file:
        (tmp_path / "bolide.toml").write_text(file)
    with pytest.raises(ConfigError) as caught:
        resolve(given, environ=environ)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "means"),
    [("INFO", "info"), ("WARN", "warning"), ("Warning", "warning"), ("FATAL", "critical")],
)
def test_a_level_in_any_case_and_by_other_names(given: str, means: str) -> None:
    assert settle({"log_level": given}).log_level == means


@pytest.mark.parametrize(
    ("given", "means"),
    [("64M", 64 << 20), ("1G", 1 << 30), ("1.5GiB", 3 << 29), ("2kb", 2048), ("7", 7), (7, 7)],
)
def test_bytes_may_have_a_unit_wherever_they_are_given(
    given: str | int, means: int, tmp_path: Path
) -> None:
    assert settle({"body_bytes_max": given}).core["body_bytes_max"] == means
    assert settle({}, BOLIDE_BODY_BYTES_MAX=str(given)).core["body_bytes_max"] == means
    (tmp_path / "bolide.toml").write_text(f"body_bytes_max = {given!r}\n")
    assert settle({}).core["body_bytes_max"] == means


def test_words_in_any_case() -> None:
    assert settle({"interface": "ASGI"}).interface == "asgi"


@pytest.mark.parametrize("host", ["localhost", "0.0.0.0", "::", "::1", "fe80::1%eth0", "a-b.c"])  # noqa: S104 - not bound
def test_hosts(host: str) -> None:
    assert settle({"host": host}).host == host


@pytest.mark.parametrize("name", ["-", "off", "./true", "true.log", "/var/log/x"])
def test_access_logs(name: str) -> None:
    assert settle({"access_log": name}).access_log == name


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tool.bolide.server]\nport = 1", "[tool.bolide.server] of pyproject.toml: write these "),
        ("tool = 3", "tool in pyproject.toml is not a table; write options below [tool.bolide]"),
        ("[tool]\nbolide = 1", "tool.bolide in pyproject.toml is not a table; write options belo"),
    ],
)
def test_tables_of_pyproject(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        settle({})
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    ("link", "says"),
    [("missing.toml", "it is a link to missing.toml, which is missing"), ("bolide.toml", "Too ma")],
)
def test_a_file_that_is_a_broken_link(link: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "bolide.toml").symlink_to(link)
    with pytest.raises(
        ConfigError, match=f"^cannot read the configuration file bolide.toml: {says}"
    ):
        settle({})


def test_a_file_in_python_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "gunicorn.conf.py").write_text("workers = 4\n")
    with pytest.raises(ConfigError, match=r"gunicorn.conf.py: this is Python; bolide.toml is TOML"):
        settle({}, BOLIDE_CONFIG="gunicorn.conf.py")


def test_an_empty_path_given_as_a_flag_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="^--uds: '' is empty; give a path, or leave it out$"):
        resolve({"uds": ""}, "flag", environ={})
    with pytest.raises(ConfigError, match="^--config: '' is empty; give a path, or leave it out$"):
        resolve({}, "flag", config="", environ={})
    assert resolve({"uds": ""}, environ={}).addresses == (Address("127.0.0.1", 8000),)


def test_numbers_of_users_and_groups_need_no_quotes() -> None:
    assert settle({"uds_owner": 0, "uds_group": 33}).uds_group == "33"


def test_a_variable_that_resembles_no_option_is_the_applications_own() -> None:
    own = {"BOLIDE_RELEASE": "7", "BOLIDE_USER": "ada", "BOLIDE_STAGE": "1", "BOLIDE_CONFIG": ""}
    assert settle({}, **own) == settle({})


def test_timeout_may_be_switched_off() -> None:
    assert settle({"header_timeout_ms": 0}).core["header_timeout_ms"] == 0


def test_options_of_the_server() -> None:
    options = settle({"server_header": False}).server_options(5)
    assert options.pop("access_log") == 5
    assert options.pop("server_header") is False
    assert options.pop("access_log_format") == "combined"
    assert options.pop("access_log_only") == []
    assert options.pop("access_log_slow_ms") == 1000
    assert options.pop("access_log_sample") == 1.0
    assert options.pop("eager_tasks") is True
    assert (options.pop("threads"), options.pop("workers")) == (8, 1)
    options.pop("spool_directory")
    assert options.pop("h2c") is False
    assert options.pop("websocket_compression") == "on"
    assert options.pop("websocket_compression_level") == 3
    assert options.pop("websocket_origins") == ("*",)
    assert options.pop("trusted_proxies") == ["127.0.0.0/8", "::1", "unix"]
    assert options.pop("forwarded_fields") == ["for", "proto"]
    assert options.pop("untrusted_forwarded") == "keep"
    assert options.pop("proxy_protocol") is False
    assert options.pop("request_id") is None
    assert options.pop("slow_request_ms") == 0
    assert (options.pop("client_ipv6_prefix_bits"), options.pop("path_limits")) == (64, [])
    assert options.keys() == {name for name, *_ in _core.settings()}


def test_origins_of_websockets() -> None:
    given = settle({"websocket_origins": "same, https://a.example:8443"})
    assert given.websocket_origins == ("same", "https://a.example:8443")
    for wrong in ("", "a.example", "https://a.example/", "https://", "1://a", ["same", 1]):
        with pytest.raises(ConfigError, match="origin"):
            settle({"websocket_origins": wrong})


def test_where_responses_are_spooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/fast")
    assert settle({}).server_options(None)["spool_directory"] == "/fast"
    monkeypatch.delenv("TMPDIR")
    assert settle({}).server_options(None)["spool_directory"] == "/var/tmp"  # noqa: S108
    assert settle({"spool_directory": "off"}).server_options(None)["spool_directory"] is None
    given = settle({"spool_directory": tmp_path})
    assert given.server_options(None)["spool_directory"] == str(tmp_path)


def test_words_are_separated_by_commas_or_given_as_a_list() -> None:
    both = ("pathsend", "zerocopysend")
    assert settle({}).asgi_extensions == ()
    for given in ("zerocopysend, pathsend", ["pathsend", "zerocopysend", "pathsend"], both):
        assert settle({"asgi_extensions": given}).asgi_extensions == both
    for given in ("websend", ["pathsend", ["zerocopysend"]], 1):
        with pytest.raises(ConfigError, match="is not one of the choices"):
            settle({"asgi_extensions": given})


@pytest.mark.parametrize(
    "text",
    [
        "bind = []\nbind = [\n  'localhost',\n]\n",
        "port = 80\nport.number = 81\n",
        "port = 80\n[port]\nnumber = 81\n",
        "[port]\nnumber = 81\n[host]\nnumber = 1\nname = 1\n'name' = 2",
    ],
)
def test_a_key_that_may_not_be_there_twice_is_not_named(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bolide.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"Cannot overwrite a value \(at [^:]*\)$"):
        resolve({}, environ={})
