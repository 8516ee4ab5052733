"""The peers' environments: each is made in the cache when it is first asked for, and kept.

A folder that is deleted is made anew, with the newest releases.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

FRAMEWORKS = ("fastapi", "flask", "django")


class UnavailableError(Exception):
    """A contestant cannot run here; the text says why."""


def environment(name: str, requirements: tuple[str, ...]) -> Path:
    """Give the folder of programs of an environment that holds what a peer requires.

    It is made with the interpreter that runs the benches, so that all run on the same.

    Raises: UnavailableError.
    """
    folder = _cache() / name
    programs = folder / "bin"
    python = str(programs / "python")
    made_of = _made_of(requirements)
    if not _is_made_of(folder, made_of):
        _make(
            name,
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [python, "-m", "pip", "install", "--quiet", *requirements],
        )
        (folder / "made-of").write_text(made_of)
    return programs


def frameworks() -> Path:
    """Give the folder of the frameworks, which is the same for every contestant.

    Raises: UnavailableError.
    """
    folder = _cache() / "frameworks"
    made_of = _made_of(FRAMEWORKS)
    if not _is_made_of(folder, made_of):
        shutil.rmtree(folder, ignore_errors=True)
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
        _make("the frameworks", [*install, *FRAMEWORKS])
        (folder / "made-of").write_text(made_of)
    return folder


def versions(folder: Path) -> dict[str, str]:
    """Give the distributions below a folder and their versions."""
    names = (found.name.removesuffix(".dist-info") for found in folder.rglob("*.dist-info"))
    parted = (name.partition("-") for name in names)
    return {name: version for name, _, version in sorted(parted) if name != "pip"}


def japronto() -> Path:
    """Give an interpreter that has Japronto, made with CPython 3.7 when it is not there yet.

    Raises: UnavailableError.
    """
    folder = _cache() / "japronto"
    python = folder / "bin" / "python"
    if python.exists() and _succeeds([str(python), "-c", "import japronto"]):
        return python
    _make(
        "Japronto",
        [_python37(), "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "japronto==0.1.2"],
    )
    return python


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bolide"


def _made_of(requirements: tuple[str, ...]) -> str:
    return f"{sys.version}\n" + "\n".join(requirements)


def _is_made_of(folder: Path, made_of: str) -> bool:
    note = folder / "made-of"
    return note.is_file() and note.read_text() == made_of


def _make(name: str, *steps: list[str]) -> None:
    print(f"making an environment for {name} ...", file=sys.stderr)
    for step in steps:
        if not _succeeds(step):
            raise UnavailableError(f"`{' '.join(step)}` failed")


def _python37() -> str:
    pyenv = shutil.which("pyenv")
    if pyenv:
        listed = subprocess.run(
            [pyenv, "versions", "--bare"], capture_output=True, text=True, check=False
        )
        for version in listed.stdout.split():
            if version.startswith("3.7."):
                prefix = subprocess.run(
                    [pyenv, "prefix", version], capture_output=True, text=True, check=False
                )
                found = Path(prefix.stdout.strip()) / "bin" / "python3.7"
                if found.exists():
                    return str(found)
    found_on_path = shutil.which("python3.7")
    if found_on_path and _succeeds([found_on_path, "--version"]):
        return found_on_path
    raise UnavailableError("no CPython 3.7 (`pyenv install 3.7`)")


def _succeeds(command: list[str]) -> bool:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    return done.returncode == 0
