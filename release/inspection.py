"""Checks what is in a wheel, without running it: also one for another processor or C library."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import links
import notices

NAME = re.compile(r"bolide-(?P<version>[^-]+)-(?P<python>cp3\d+)-(?P=python)-(?P<platform>.+)\.whl")
PLATFORM = re.compile(r"(?P<kind>[a-z]+)_(?P<major>\d+)_(?P<minor>\d+)_(?P<machine>.+)")
ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
"""e_machine: how wheels call it."""
OF_CONTESTANTS = {".go", ".mod", ".sum", ".php", ".rs", ".lock"}
"""Suffixes of sources that only `bolide race` needs."""
OF_THE_SYSTEM = {"libc.so"}
"""musl under the name that zig links it by; musl's loader takes that for itself."""


@dataclass
class Expected:
    """What a wheel of one target holds."""

    machine: str
    """x86_64 or aarch64."""
    libc: str
    """gnu or musl."""
    policy: str
    """The oldest platform that the wheel must run on: manylinux_2_17, musllinux_1_2."""
    modules: frozenset[str]
    """Every file of python/bolide, as the wheel names it."""
    secrets: tuple[str, ...] = ()
    """Folders of the build machine, which the core must not name."""
    is_release: bool = False
    """Whether README's links must be absolute."""


def inspect(wheel: Path, expected: Expected) -> list[str]:
    """Return what is wrong with a wheel, one line each."""
    name = NAME.fullmatch(wheel.name)
    if name is None:
        return [f"unexpected name: {wheel.name}"]
    with zipfile.ZipFile(wheel) as archive:
        files = {each.filename: archive.read(each) for each in archive.infolist()}
    core = f"bolide/_core.cpython-{name['python'][2:]}-{expected.machine}-linux-{expected.libc}.so"
    info = f"bolide-{name['version']}.dist-info"
    return [
        *_wrong_files({each for each in files if not each.endswith("/")}, core, info, expected),
        *_wrong_core(files.get(core, b""), expected),
        *_wrong_metadata(files.get(f"{info}/METADATA", b"").decode(), expected),
        *_wrong_platform(wheel, name["platform"].split("."), expected),
    ]


def _wrong_files(found: set[str], core: str, info: str, expected: Expected) -> list[str]:
    of_package = {each for each in found if not each.startswith(f"{info}/")}
    of_race = {each for each in of_package if Path(each).suffix in OF_CONTESTANTS}
    wanted = {core, *expected.modules}
    licenses = ("licenses/LICENSE", f"licenses/{notices.NAME}")
    required = {f"{info}/{each}" for each in ("RECORD", "METADATA", *licenses)}
    return [
        *(f"missing: {each}" for each in sorted((wanted | required) - found)),
        *(f"does not belong: {each}" for each in sorted(of_package - wanted)),
        *(f"belongs into bolide-lab: {each}" for each in sorted(of_race & wanted)),
    ]


def _wrong_core(content: bytes, expected: Expected) -> list[str]:
    wrong = []
    machine = ELF_MACHINES.get(int.from_bytes(content[18:20], "little"))
    if machine != expected.machine:
        wrong.append(f"the core is for {machine}, not for {expected.machine}")
    if b"PyInit__core" not in content:
        wrong.append("the core does not export PyInit__core")
    wrong += [f"the core names {each}" for each in expected.secrets if each.encode() in content]
    return wrong


def _wrong_metadata(text: str, expected: Expected) -> list[str]:
    fields, _, description = text.partition("\n\n")
    wrong = []
    if not description.startswith("# Bolide"):
        wrong.append("README is not the description")
    if expected.is_release:
        wrong += [f"relative link: {each}" for each in links.relative_targets(description)]
        if "\nProject-URL: " not in fields:
            wrong.append("no Project-URL")
    return wrong


def _wrong_platform(wheel: Path, platforms: list[str], expected: Expected) -> list[str]:
    """Compare the name's platforms with the symbols and libraries that the core asks for."""
    wanted = f"{expected.policy}_{expected.machine}"
    if wanted not in platforms:
        return [f"is for {', '.join(platforms)}, not for {wanted}"]
    return wrong_needs(audited(wheel), wanted)


def audited(wheel: Path) -> dict[str, Any]:
    """Return auditwheel's report on a wheel."""
    command = [sys.executable, "-m", "auditwheel", "show", "--json", wheel]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def wrong_needs(shown: dict[str, Any], wanted: str) -> list[str]:
    """Return what a report of auditwheel says against running on a platform and all newer ones."""
    wrong = []
    symbols, libraries = shown["sym_tag"], set(shown["external_libs"]) - OF_THE_SYSTEM
    needed, promised = PLATFORM.fullmatch(symbols), PLATFORM.fullmatch(wanted)
    if needed is None or promised is None or not _is_within(needed, promised):
        wrong.append(f"its symbols need {symbols}, which is not within {wanted}")
    if libraries:
        wrong.append(f"needs libraries of its own: {', '.join(sorted(libraries))}")
    if shown["unsupported_isa"]:
        wrong.append("needs a newer processor than its platform promises")
    return wrong


def _is_within(needed: re.Match[str], promised: re.Match[str]) -> bool:
    """Compare manylinux_2_5_x86_64 with manylinux_2_17_x86_64: the same kind, and not newer."""
    if (needed["kind"], needed["machine"]) != (promised["kind"], promised["machine"]):
        return False
    versions = [(int(each["major"]), int(each["minor"])) for each in (needed, promised)]
    return versions[0] <= versions[1]
