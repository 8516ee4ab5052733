"""Virtual environments and source distributions of others, outside the checkout.

They are in `bolide/compat` of the user's cache (`XDG_CACHE_HOME`, else ~/.cache), made by the first
run that needs them and kept for all later ones. An environment's name contains a digest of what it
requires, so that checkouts that require different things do not replace each other's. To remove
them, remove the folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bolide" / "compat"
PACKAGE = Path(__file__).parents[1] / "python"


def interpreter(name: str, requirements: list[str]) -> Path:
    """Return the interpreter of the environment that `make` makes of the same arguments."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256("\n".join(requirements).encode()).hexdigest()[:8]
    return CACHE / f"{name}-{version}-{digest}" / "bin" / "python"


def make(name: str, requirements: list[str]) -> Path:
    """Make an environment, unless there is one; return its interpreter."""
    python = interpreter(name, requirements)
    folder = python.parents[1]
    done = folder / "requirements.txt"
    with locked(folder.name):
        if not done.exists():  # written last: without it, an installation was interrupted
            print(f"installing into {folder}", flush=True)
            venv.create(folder, with_pip=True, clear=True)
            pip(python, "install", "--upgrade", "pip>=25.1")
            pip(python, "install", *requirements)
            done.write_text("\n".join(requirements))
    return python


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Keep other runs, which may be another checkout's, from making the same thing meanwhile."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def source(python: Path, name: str, version: str) -> Path:
    """Return the unpacked source distribution of a release; fetch it if it was not."""
    with locked(f"{name}-{version}"):
        archive = CACHE / f"{name}-{version}.tar.gz"
        if not archive.exists():
            options = ("--no-deps", "--no-binary", ":all:", "--dest", str(CACHE))
            pip(python, "download", *options, f"{name}=={version}")
        return unpack(archive)


def unpack(archive: Path) -> Path:
    """Unpack a source distribution, unless it was; return its folder."""
    folder = CACHE / archive.name.removesuffix(".tar.gz")
    if not folder.exists():
        with tarfile.open(archive) as opened:
            opened.extractall(CACHE, filter="data")
    return folder


def pip(python: Path, *arguments: str) -> None:
    """Run pip of an environment."""
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([python, "-m", "pip", *quiet, *arguments], check=True)
