"""Who may connect to the server's UNIX sockets: the mode, owner and group of their files."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.config.settings import Settings
    from bolide.server.listener import Listener

KEPT = -1
"""An id that chown(2) does not change."""
NOT_PERMITTED = "only root may change the owner, others only to a group that they belong to"


@dataclass(frozen=True, slots=True)
class SocketAccess:
    """What the file of a UNIX socket gets before a client can connect."""

    mode: int | None = None
    owner: str = ""
    group: str = ""

    @classmethod
    def of(cls, settings: Settings) -> SocketAccess:
        """Return what the options say."""
        mode = int(settings.uds_mode, 8) if settings.uds_mode else None
        return cls(mode, settings.uds_owner, settings.uds_group)

    def give(self, path: str) -> None:
        """Set the owner, the group and the mode, as far as they are given.

        Raises:
            ConfigError: there is no such user or group, or this user may not do that.
        """
        owner = _user_id(self.owner) if self.owner else KEPT
        group = _group_id(self.group) if self.group else KEPT
        try:
            with _itself(path) as place:
                if (owner, group) != (KEPT, KEPT):
                    os.chown(place, owner, group)
                if self.mode is not None:
                    os.chmod(place, self.mode)
        except OSError as error:
            names = (("owner", self.owner), ("group", self.group))
            given = " and ".join(f"{what} {name}" for what, name in names if name)
            why = NOT_PERMITTED if isinstance(error, PermissionError) else error.strerror
            what = f"the {given}" if given else f"the mode {self.mode:04o}"
            raise ConfigError(f"cannot give the UNIX socket {path} {what}: {why}") from None


AS_CREATED = SocketAccess()


def unused(settings: Settings, opened: Iterable[Listener]) -> str:
    """Return a line for the log if the options are given, and no file is there to get them."""
    names = ("uds_mode", "uds_owner", "uds_group")
    given = [name for name in names if getattr(settings, name)]
    if not given or any(each.inode is not None for each in opened):
        return ""
    have = "has" if len(given) == 1 else "have"
    what = f"{' and '.join(given)} {have} no effect, because the server creates no UNIX socket"
    return f"{what}: give uds, or bind unix:PATH"


@contextmanager
def _itself(path: str) -> Iterator[str]:
    """Yield a path of this socket, also if another file takes its place meanwhile.

    Who may write to the folder could put a symbolic link there, and so have any file given away.

    Raises:
        OSError: it is no socket.
    """
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            raise OSError(errno.ENOTSOCK, "another file has taken its place")
        place = f"/proc/self/fd/{fd}"
        yield place if os.path.exists(place) else path  # without /proc there is no other way
    finally:
        os.close(fd)


def _user_id(name: str) -> int:
    if name.isascii() and name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise ConfigError(f"uds_owner: there is no user {name!r}") from None


def _group_id(name: str) -> int:
    if name.isascii() and name.isdigit():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise ConfigError(f"uds_group: there is no group {name!r}") from None
