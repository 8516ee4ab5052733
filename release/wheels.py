"""Builds the source distribution, and from nothing but that a wheel for each target and Python.

zig, which comes as a Python package, compiles and links for every target, so that a machine of one
kind makes all wheels; `rustup target add` gets the standard libraries that are missing. Each wheel
is inspected (`inspection.py`). tests/release/test_wheels.py runs those that can run here. The wheel
of bolide-lab is for all of them (`laboratory.py`).
"""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import inspection
import laboratory
import links
import notices

ROOT = Path(__file__).parents[1]
WORK = ROOT / "target" / "release-sources"
PYTHON = re.compile(r"Programming Language :: Python :: (3\.\d+)")

STEERING = ("PYO3_", "VIRTUAL_ENV")
"""Variables of the Makefile that name one interpreter, where each wheel has its own."""


@dataclass(frozen=True)
class Target:
    """One kind of machine that a wheel is for."""

    machine: str
    libc: str
    policy: str

    @property
    def name(self) -> str:
        """What Rust calls it."""
        return f"{self.machine}-unknown-linux-{self.libc}"

    @property
    def runs_here(self) -> bool:
        """Whether this machine runs its wheels."""
        libc = "gnu" if platform.libc_ver()[0] == "glibc" else "musl"
        return (self.machine, self.libc) == (platform.machine(), libc)


TARGETS = [
    Target(machine, libc, policy)
    for libc, policy in (("gnu", "manylinux_2_17"), ("musl", "musllinux_1_2"))
    for machine in ("x86_64", "aarch64")
]


def main() -> int:
    """Build what the command line asks for; return how many wheels are wrong, as an exit code."""
    arguments = parse()
    arguments.out.mkdir(parents=True, exist_ok=True)
    targets = [each for each in TARGETS if each.name in arguments.target]
    sources = build_sources(arguments.out, arguments.repository, arguments.tag)
    laboratory.build(WORK / "tree", arguments.out)
    package = files_of(sources / "python" / "bolide")
    modules = {each.relative_to(sources / "python") for each in package}
    is_wrong = False
    for target in targets:
        add_to_rust(target)
        profile = learn(sources, target) if arguments.pgo and target.runs_here else None
        for wheel in build(sources, target, arguments.python, arguments.out, profile):
            expected = inspection.Expected(
                machine=target.machine,
                libc=target.libc,
                policy=target.policy,
                modules=frozenset(each.as_posix() for each in modules),
                secrets=(str(Path.home()), str(ROOT)),
                is_release=bool(arguments.repository),
            )
            wrong = inspection.inspect(wheel, expected)
            is_wrong = is_wrong or bool(wrong)
            print(wheel.name, "is right" if not wrong else "is WRONG:", flush=True)
            print(*(f"  {each}\n" for each in wrong), sep="", end="", flush=True)
    return int(is_wrong)


def parse() -> argparse.Namespace:
    """Read the command line."""
    pythons = supported_pythons()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="[dist]")
    parser.add_argument(
        "--target", action="append", choices=[each.name for each in TARGETS], help="[all]"
    )
    parser.add_argument("--python", action="append", choices=pythons, help="[all supported]")
    parser.add_argument(
        "--here", action="store_true", help="only for this interpreter on this machine"
    )
    parser.add_argument("--sdist", action="store_true", help="the source distribution only")
    parser.add_argument("--pgo", action="store_true", help="let the compiler learn (training.py)")
    parser.add_argument("--repository", default="", help="address of the web pages (links.py)")
    parser.add_argument("--tag", default="", help="the release's tag, with --repository")
    arguments = parser.parse_args()
    if bool(arguments.repository) != bool(arguments.tag):
        parser.error("--repository and --tag go together")
    arguments.out = arguments.out.resolve()
    if arguments.here:
        arguments.python = [f"3.{sys.version_info.minor}"]
        arguments.target = [each.name for each in TARGETS if each.runs_here]
    arguments.python = arguments.python or pythons
    arguments.target = arguments.target or [each.name for each in TARGETS]
    if arguments.sdist:
        arguments.target = []
    return arguments


def supported_pythons() -> list[str]:
    """Return the versions that pyproject.toml's classifiers name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = [PYTHON.fullmatch(each) for each in project["classifiers"]]
    return [each[1] for each in found if each]


def build_sources(out: Path, repository: str, tag: str) -> Path:
    """Build the source distribution; return the folder where it is unpacked, of the same files."""
    shutil.rmtree(WORK, ignore_errors=True)
    tree = WORK / "tree"
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    if repository:
        links.apply(tree, repository.rstrip("/"), tag)
    notices.apply(tree)
    maturin("sdist", "--out", str(WORK), cwd=tree)
    (archive,) = WORK.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(WORK, filter="data")
    sources = WORK / archive.name.removesuffix(".tar.gz")
    for path in files_of(sources):
        os.utime(path)  # all have one constant time in it, by which cargo would see no change
    shutil.copyfile(archive, out / archive.name)
    return sources


def learn(sources: Path, target: Target) -> Path:
    """Build a wheel that counts, let it learn (`training.py`), and return what it has counted.

    It is linked without zig, which does not know the linker's option that the counters need.
    """
    counted = WORK / "counted"
    words = ("build", "--release", "--locked", "--target", target.name, "--out", str(WORK))
    interpreter = ("--interpreter", sys.executable, "--compatibility", "linux")
    maturin(*words, *interpreter, cwd=sources, flags=f"-Cprofile-generate={counted}")
    (wheel,) = WORK.glob("*.whl")
    python = WORK / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", str(WORK / "venv"), cwd=WORK)
    run(str(python), "-m", "pip", "install", "--quiet", str(wheel), cwd=WORK)
    wheel.unlink()
    run(str(python), str(ROOT / "release" / "training.py"), cwd=WORK)
    profile = WORK / "learned.profdata"
    raw = [str(path) for path in counted.glob("*.profraw")]
    run(profdata(), "merge", "--output", str(profile), *raw, cwd=WORK)
    return profile


def profdata() -> str:
    """Return the program that merges counts: of rustup's llvm-tools, or of the same LLVM."""
    (lib,) = Path(run("rustc", "--print", "sysroot", cwd=ROOT).strip()).glob("lib/rustlib")
    found = next(lib.glob("*/bin/llvm-profdata"), None) or shutil.which("llvm-profdata")
    if found is None:
        sys.exit("--pgo needs llvm-profdata: rustup component add llvm-tools")
    return str(found)


def build(
    sources: Path, target: Target, pythons: list[str], out: Path, profile: Path | None
) -> list[Path]:
    """Build a target's wheels, with what the compiler has learned, if it has; return them."""
    before = {path: path.stat().st_mtime_ns for path in out.glob("*.whl")}
    wanted = [word for each in pythons for word in ("--interpreter", each)]
    compatibility = ["--zig", "--target", target.name, "--compatibility", target.policy]
    maturin(
        *("build", "--release", "--strip", "--locked", "--out", str(out)),
        *(*compatibility, *wanted),
        cwd=sources,
        flags=f"-Cprofile-use={profile}" if profile else "",
    )
    return [
        path for path in sorted(out.glob("*.whl")) if before.get(path) != path.stat().st_mtime_ns
    ]


def add_to_rust(target: Target) -> None:
    """Install a target's standard library, if rustup is here and has not done so yet."""
    if shutil.which("rustup") is None:
        return
    installed = run("rustup", "target", "list", "--installed", cwd=ROOT).split()
    if target.name not in installed:
        run("rustup", "target", "add", target.name, cwd=ROOT)


def maturin(*words: str, cwd: Path, flags: str = "") -> None:
    """Run maturin in a copy of the sources, with the checkout's folder for what cargo builds.

    `flags` are for the compiler.
    """
    cargo = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    remap = f"--remap-path-prefix={cargo}=/cargo --remap-path-prefix={cwd}=/bolide"
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(STEERING)},
        # zig is found as a module of the first python3
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "CARGO_TARGET_DIR": str(ROOT / "target"),
        "RUSTFLAGS": f"{remap} {flags}".rstrip(),
    }
    command = [sys.executable, "-m", "maturin", *words]
    subprocess.run(command, cwd=cwd, env=env, check=True)


def files_of(folder: Path) -> list[Path]:
    """Return the files below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def run(*command: str, cwd: Path) -> str:
    """Run a command; return what it writes."""
    return subprocess.run(command, cwd=cwd, check=True, text=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    WORK.parent.mkdir(exist_ok=True)
    with WORK.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second run would take the sources away
        sys.exit(main())
