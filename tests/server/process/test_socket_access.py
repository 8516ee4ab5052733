"""Who may connect to a UNIX socket."""

from __future__ import annotations

import asyncio
import errno
import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Any

import pytest

import bolide
from bolide.config.address import Address
from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.server import listener
from bolide.server.process.socket_access import SocketAccess
from bolide.server.process.sockets import Sockets
from support.server import Start


def opened(path: Path, **options: object) -> os.stat_result:
    """Return what is known of the file while it is open."""
    access = SocketAccess.of(resolve(options, environ={}))
    listeners = listener.open_all([Address(path=str(path))], access)
    found = path.stat()
    listener.close_all(listeners)
    assert not path.exists()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--uds", "--bind"])
def test_the_mode_is_that_of_the_option(start: Start, tmp_path: Path, option: str) -> None:
    where = tmp_path / "socket"
    value = str(where) if option == "--uds" else f"unix:{where}"
    server = start("basic.py", option, value, "--uds-mode", "606")
    assert stat.S_IMODE(where.stat().st_mode) == 0o606
    assert ", socket mode 0606)" in server.errors
    with server.connect() as client:
        assert client.get("/").content == b"hello"


def test_without_a_mode_it_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert stat.S_IMODE(opened(tmp_path / "socket").st_mode) == 0o750
    finally:
        os.umask(before)


@pytest.mark.parametrize("is_number", [True, False])
def test_owner_and_group_are_names_or_numbers(tmp_path: Path, is_number: bool) -> None:
    user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(os.getgid())
    owner_name = str(user.pw_uid) if is_number else user.pw_name
    group_name = str(group.gr_gid) if is_number else group.gr_name
    found = opened(tmp_path / "socket", uds_owner=owner_name, uds_group=group_name)
    assert (found.st_uid, found.st_gid) == (user.pw_uid, group.gr_gid)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may change the owner")
def test_root_may_give_it_to_another_user(tmp_path: Path) -> None:
    found = opened(tmp_path / "socket", uds_owner="65534", uds_group="65533", uds_mode="0660")
    mode = stat.S_IMODE(found.st_mode)
    assert (found.st_uid, found.st_gid, mode) == (65534, 65533, 0o660)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"uds_owner": "no such"}, "uds_owner: there is no user 'no such'"),
        ({"uds_group": "no such"}, "uds_group: there is no group 'no such'"),
        (
            {"uds_owner": "0", "uds_group": "1"},
            "cannot give the UNIX socket {} the owner 0 and group 1: only root may change the "
            "owner, others only to a group that they belong to",
        ),
    ],
)
def test_what_is_not_possible_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], message: str
) -> None:
    def chown(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "chown", chown)
    path = tmp_path / "socket"
    with pytest.raises(ConfigError) as caught:
        opened(path, **options)
    assert str(caught.value) == message.format(path)
    assert not path.exists()


@pytest.mark.parametrize("given", ["66", "888", "01000", 0o660, 660, True, "rw-rw----"])
def test_what_is_no_mode(given: object) -> None:
    with pytest.raises(ConfigError, match=r"uds_mode=.* is not a mode; give octal digits as"):
        resolve({"uds_mode": given}, environ={})


@pytest.mark.parametrize("mode", ["supervisor", "embedded"])
def test_options_without_a_unix_socket_are_a_warning(
    caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    given = {"uds_mode": "660", "uds_group": "0", "port": 0}
    if mode == "supervisor":
        Sockets(resolve(given, environ={}), None).close()
    else:
        asyncio.run(_served(given))
    text = "uds_mode and uds_group have no effect, because the server creates no UNIX socket: give"
    found = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert found == [f"{text} uds, or bind unix:PATH"]


async def _served(options: dict[str, Any]) -> None:
    async with bolide.Server(bolide.App(), **options):
        pass


def test_with_one_they_are_none(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    bind = ["127.0.0.1:0", f"unix:{tmp_path / 'socket'}"]
    Sockets(resolve({"uds_mode": "660", "bind": bind}, environ={}), None).close()
    assert not caplog.records


def test_a_file_that_takes_the_place_of_the_socket_is_not_given_away(tmp_path: Path) -> None:
    """As who may write to the folder could do it, between two steps of a server of root."""
    secret, where = tmp_path / "secret", tmp_path / "socket"
    secret.touch(0o600)
    for place in (secret, where):
        if place is where:
            where.symlink_to(secret)
        with pytest.raises(ConfigError, match="cannot give the UNIX socket .* the mode 0666"):
            SocketAccess(mode=0o666).give(str(place))
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
