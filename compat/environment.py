"""Virtual environments and source distributions of others, in .compat/ beside this folder."""

from __future__ import annotations

import subprocess
import tarfile
import venv
from pathlib import Path

CACHE = Path(__file__).parents[1] / ".compat"
PACKAGE = Path(__file__).parents[1] / "python"


def make(name: str, requirements: list[str]) -> Path:
    """Make an environment, unless it has what is required; return its interpreter."""
    CACHE.mkdir(exist_ok=True)
    folder = CACHE / name
    python, done = folder / "bin" / "python", folder / "requirements.txt"
    wanted = "\n".join(requirements)
    if not done.exists() or done.read_text() != wanted:
        print(f"installing into {CACHE.name}/{name}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        pip(python, "install", "--upgrade", "pip>=25.1")
        pip(python, "install", *requirements)
        done.write_text(wanted)
    return python


def source(python: Path, name: str, version: str) -> Path:
    """Return the unpacked source distribution of a release; fetch it if it was not."""
    archive = CACHE / f"{name}-{version}.tar.gz"
    if not archive.exists():
        options = ("--no-deps", "--no-binary", ":all:", "--dest", str(CACHE))
        pip(python, "download", *options, f"{name}=={version}")
    folder = CACHE / f"{name}-{version}"
    if not folder.exists():
        with tarfile.open(archive) as opened:
            opened.extractall(CACHE, filter="data")
    return folder


def pip(python: Path, *arguments: str) -> None:
    """Run pip of an environment."""
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([python, "-m", "pip", *quiet, *arguments], check=True)
