"""nginx, with a site of a test's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAIN = """\
daemon off; pid {folder}/nginx.pid; error_log stderr notice; {user} events {{}}
http {{ access_log off; client_body_temp_path {folder}/nginx; include {site}; }}
"""


@contextmanager
def nginx(folder: Path, site: Path) -> Iterator[None]:
    """Run nginx, with its own files in a folder; it listens at once."""
    user = "user root;" if os.geteuid() == 0 else ""
    main = folder / "nginx.conf"
    main.write_text(MAIN.format(folder=folder, user=user, site=site))
    with subprocess.Popen(
        ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(main)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            assert any("start worker process " in line for line in lines), "nginx did not start"
            yield
        finally:
            process.terminate()
            process.communicate(timeout=10)
