"""Files that are read as a whole: none of them may exceed a size.

The supervisor reads them at the start and at HUP, and handles no signal meanwhile; a path may be a
link to /dev/zero.
"""

from __future__ import annotations

import errno
import os

CONFIG_BYTES_MAX = 1 << 20
"""Of a configuration file, or that of `log_config`: real ones have a few kilobytes, and this is
parsed in a second or so."""
PEM_BYTES_MAX = 16 << 20
"""Of a file about TLS: a list of 300,000 revoked certificates fits, and so do all authorities."""


def read(path: str | os.PathLike[str], bytes_max: int) -> bytes:
    """Return what a file contains.

    Args:
        path: that of the file.
        bytes_max: how many bytes it may have.

    Raises:
        OSError: it cannot be read, or is larger.
    """
    # A pipe, or a terminal, would make the server wait for somebody who writes.
    with open(path, "rb", opener=open_at_once) as file:
        content = file.read(bytes_max + 1)
    if content is None:
        raise OSError(errno.EAGAIN, "nothing has been written to it")
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max >> 20} MiB")
    return content


def open_at_once(path: str, flags: int) -> int:
    """Open a file as `open` asks for, without waiting for anybody."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
