"""The contestants' environments: whether they are installed, and how they are created.

Each server has a folder below the user's cache directory: a virtual environment with pinned
distributions, or what go or cargo has built. Only pip, go and cargo download anything. A file in
the folder records what it was made from; if that changes, the folder is created again.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bolide.lab.folders import APPS, cache_folder
from bolide.lab.plan.contestant import Contestant
from bolide.lab.record.schema import State

NOTE = "made-of"
FAILED = "failed"
MAKE_S_MAX = 1800
PROBE_S_MAX = 20
SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/sbin")
VERSION = re.compile(r"\d+(?:\.\d+)+")
REQUIREMENT_NAME = re.compile(r"[\w.-]+")


class SetupError(Exception):
    """A step that failed; the text is one line."""


@dataclass(frozen=True)
class Status:
    """Whether a contestant can run here, the reason if not, and its version."""

    state: State
    reason: str = ""
    version: str | None = None


def folder_of(contestant: Contestant) -> Path:
    """Return the folder of its environment, which need not exist."""
    return cache_folder() / contestant.key


def python_of(contestant: Contestant) -> Path:
    """Return the interpreter that it runs on."""
    if contestant.setup.requirements:
        return folder_of(contestant) / "bin" / "python"
    return Path(sys.executable)


def find_program(name: str) -> str | None:
    """Find a program, also in folders that are only on root's PATH."""
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(SYSTEM_FOLDERS))


def examine(contestant: Contestant) -> Status:
    """Return whether it can run here."""
    setup = contestant.setup
    absent = [name for name in setup.programs if find_program(name) is None]
    absent += [path for path in setup.paths if not Path(path).exists()]
    if absent or (setup.probe and not _succeeds(setup.probe)):
        what = f"no {', '.join(absent)}" if absent else f"`{' '.join(setup.probe)}` fails"
        if setup.missing and not setup.apt:
            return Status("cannot run here", f"{what}: {setup.missing}")
        return Status("needs set-up", f"{what} ({apt_line(setup.apt)})")
    if setup.interpreter and _interpreter(setup.interpreter) is None:
        fix = f"pyenv install {setup.interpreter}"
        return Status("cannot run here", f"no CPython {setup.interpreter} ({fix})")
    if _is_made(contestant):
        return Status("ready", version=_version(contestant))
    failed = folder_of(contestant) / FAILED
    if failed.is_file():
        return Status(
            "cannot run here", f"set-up failed: {failed.read_text(encoding='utf-8').strip()}"
        )
    for kind, program in ((setup.go, "go"), (setup.cargo, "cargo"), (setup.npm, "npm")):
        if kind and find_program(program) is None:
            return Status("cannot run here", f"no {program} on the PATH")
    return Status("needs set-up", f"bolide race setup {contestant.name}")


def apt_line(packages: Iterable[str]) -> str:
    """Return the command that installs packages of the Linux distribution."""
    return f"apt-get install --no-install-recommends {' '.join(sorted(packages))}"


def prepare(contestant: Contestant, say: Callable[[str], None]) -> None:
    """Create its environment, if it needs one that does not exist yet.

    Raises:
        SetupError: a step fails, which the folder records, or the folder cannot be written.
    """
    if _is_made(contestant):
        return
    folder = folder_of(contestant)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder, say):
            if _is_made(contestant):  # by the other set-up
                return
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            _make(contestant, folder, say)
    except OSError as error:
        raise SetupError(f"cannot write {folder}: {error.strerror or error}") from None


@contextmanager
def _locked(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Wait until no other set-up uses this folder, and lock it."""
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{folder.name}: waiting for another set-up of it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(contestant: Contestant, folder: Path, say: Callable[[str], None]) -> None:
    try:
        for command, place in _steps(contestant, folder):
            say(f"{contestant.key}: {' '.join(command)}")
            _run(command, place, contestant.setup.variables)
    except SetupError as error:
        (folder / FAILED).write_text(f"{error}\n", encoding="utf-8")
        raise
    (folder / NOTE).write_text(_made_of(contestant), encoding="utf-8")


def _steps(contestant: Contestant, folder: Path) -> list[tuple[list[str], Path]]:
    setup = contestant.setup
    steps: list[tuple[list[str], Path]] = []
    if setup.requirements:
        python = _interpreter(setup.interpreter)
        if python is None:
            raise SetupError(f"no CPython {setup.interpreter}")
        steps.append(([python, "-m", "venv", str(folder)], folder))
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        pip.append("--disable-pip-version-check")
        for arguments in setup.install or (setup.requirements,):
            steps.append(([*pip, *arguments], folder))
    if setup.go:
        source = _copied(setup.go, folder)
        steps.append((["go", "build", "-o", str(folder / "bin" / "server"), "."], source))
    if setup.cargo:
        source = _copied(setup.cargo, folder)
        steps.append(
            (["cargo", "install", "--quiet", "--path", ".", "--root", str(folder)], source)
        )
    if setup.npm:
        source = _copied(setup.npm, folder)
        steps.append((["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], source))
    return steps


def _copied(name: str, folder: Path) -> Path:
    target = folder / "source"
    shutil.copytree(APPS / name, target)
    return target


def _is_made(contestant: Contestant) -> bool:
    setup = contestant.setup
    if not (setup.requirements or setup.go or setup.cargo or setup.npm):
        return True
    note = folder_of(contestant) / NOTE
    return note.is_file() and note.read_text(encoding="utf-8") == _made_of(contestant)


def _made_of(contestant: Contestant) -> str:
    """Return what an environment is made from; a different text means a different environment."""
    setup = contestant.setup
    python = setup.interpreter or platform.python_version()
    steps = [" ".join(arguments) for arguments in setup.install]
    sources = [
        path.read_text(encoding="utf-8")
        for name in (setup.go, setup.cargo, setup.npm)
        if name
        for path in sorted((APPS / name).rglob("*"))
        if path.is_file()
    ]
    variables = [f"{name}={value}" for name, value in sorted(setup.variables.items())]
    return "\n".join([python, *setup.requirements, *variables, *steps, *sources])


def _version(contestant: Contestant) -> str | None:
    setup = contestant.setup
    if setup.version:
        done = _output([find_program(setup.version[0]) or setup.version[0], *setup.version[1:]])
        found = VERSION.search(done) if done else None
        return found[0] if found else None
    if setup.go or setup.cargo or setup.npm:
        return _locked_version(contestant)
    if setup.distribution and not setup.requirements:
        try:
            return importlib.metadata.version(setup.distribution)
        except importlib.metadata.PackageNotFoundError:
            return None
    if setup.distribution and not contestant.entry.requirements:
        return _installed_version(contestant, setup.distribution)
    names = [REQUIREMENT_NAME.match(each) for each in setup.requirements]
    versions = [
        f"{name[0]} {_installed_version(contestant, name[0])}" for name in names if name is not None
    ]
    return ", ".join(versions) or platform.python_version()


def _installed_version(contestant: Contestant, distribution: str) -> str | None:
    name = re.sub(r"[-_.]+", "_", distribution).lower()
    for path in folder_of(contestant).glob("lib/python*/site-packages/*.dist-info"):
        stem, _, version = path.stem.partition("-")
        if re.sub(r"[-_.]+", "_", stem).lower() == name:
            return version
    return None


def _locked_version(contestant: Contestant) -> str | None:
    """Return the version of the library in the lock file of go or cargo."""
    name = re.escape(contestant.setup.distribution)
    source = folder_of(contestant) / "source"
    for file, pattern in (
        ("go.mod", rf"\b{name} v(\S+)"),
        ("Cargo.lock", rf'name = "{name}"\nversion = "(\S+)"'),
        ("package.json", rf'"{name}": "(\S+)"'),
    ):
        path = source / file
        found = re.search(pattern, path.read_text(encoding="utf-8")) if path.is_file() else None
        if found:
            return found[1]
    return None


def _interpreter(version: str) -> str | None:
    """Find an interpreter that runs: a version manager's shim may exist but fail."""
    if not version:
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = sorted(str(path) for path in root.glob(f"versions/{version}.*/bin/python{version}"))
    on_path = shutil.which(f"python{version}")
    for path in (*found, *([on_path] if on_path else [])):
        if _succeeds([path, "-c", "import venv"]):
            return path
    return None


def _succeeds(command: Sequence[str]) -> bool:
    return _output(command) is not None


def _output(command: Sequence[str]) -> str | None:
    """Return what a short command prints on both streams; None if it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - package clients and their tools
            [*command],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=PROBE_S_MAX,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None


def _run(command: list[str], folder: Path, variables: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - package clients and their tools
            command,
            cwd=folder,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=MAKE_S_MAX,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{command[0]}: {error}") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = (
            [line for line in lines if "error" in line.lower()] or lines or ["it printed nothing"]
        )
        raise SetupError(f"`{' '.join(command[-4:])}` failed: {errors[-1][:200]}")
