"""The repository's rules as tests: sizes, directions of imports, unsafe code, names.

An exception is a line in one of the tables below, with its reason, so that it shows in the diff.
"""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
FOLDER_FILES_MAX = 20

LONG_FILES: dict[str, str] = {}
"""Path: the reason why it may be longer."""

UNSAFE = {
    "crates/net/src/fork.rs": 1,
    "crates/net/src/shared.rs": 2,
    "crates/net/src/signals.rs": 4,
    "crates/net/src/sys.rs": 2,
    "crates/py/src/ffi.rs": 46,
    "crates/py/src/ffi/allocator.rs": 7,
    "crates/py/src/ffi/construction.rs": 12,
    "crates/py/src/ffi/cell.rs": 4,
    "crates/py/src/ffi/deferred.rs": 10,
    "crates/py/src/ffi/direct.rs": 24,
    "crates/py/src/ffi/ending.rs": 12,
    "crates/py/src/ffi/kept.rs": 7,
    "crates/py/src/ffi/lent.rs": 2,
    "crates/py/src/ffi/reuse.rs": 6,
    "crates/py/src/ffi/slots.rs": 10,
    "crates/py/src/ffi/text.rs": 15,
    "crates/wire/src/scan.rs": 1,
}
"""The only files with unsafe code, and how often the word is used there."""

CRATES = {
    "wire": set(),
    "net": set(),
    "server": {"wire", "net"},
    "load": {"wire", "net"},
    "py": {"wire", "net", "server", "load"},
}
"""Which crates of ours a crate may depend on."""

LAYERS = {
    "server": (
        {"reactor"},
        {"connection"},
        {"h1", "h2"},
        {"websocket"},
        {"exchange", "link"},
        {"context"},
        {"access_log", "mailbox"},
        {"app", "timeouts", "limits"},
        {"responder"},
        {"id", "pace", "response", "router", "setting"},
    ),
    "py": (
        {"selector"},
        {"server"},
        {"interface"},
        {"asgi", "native", "wsgi"},
        {"run"},
        {"ffi", "tools"},
    ),
}
"""The modules of a crate, from the top: each uses only those below its own layer."""

PROTOCOL = re.compile(
    r"Http1|HTTP/[123]|\b\w*http1\w*|BodyLength|HeadLimits|RequestHead|SectionMemo"
    r"|parse_request|chunk|keep.?alive|is_persistent"
)
"""What only the server knows: crates/py is handed a head, a content and a responder."""

PACKAGES = {
    "config": {"_core", "errors"},
    "doctor": {"errors", "flags", "streams"},
    "fleet": {"_core", "config", "errors", "flags", "load", "quantity", "streams", "temporary"},
    "interface": {"_core", "config", "errors", "web"},
    "lab": {
        "_core",
        "errors",
        "flags",
        "lazy_group",
        "quantity",
        "streams",
        "temporary",
        "visible",
    },
    "load": {"_core", "config", "errors", "flags", "quantity", "streams", "visible"},
    "manage": {"config", "errors", "flags", "visible"},
    "server": {"_core", "config", "errors", "interface", "web"},
    "web": {"_core", "errors"},
}
"""What each package of bolide may import of bolide besides itself.

`lab` starts every server, ours too, as a command; of `_core` it has certificates made.
"""

EXCEPTIONS = {"web/testclient.py": {"config", "interface", "server"}}
"""What single modules of such a package import too: a test is served as `bolide serve` would do it.
No serving process imports the test client.
"""

LABORATORY = {
    "plan": {"folders", "matching", "record", "tools", "visible"},
    "record": {"folders", "stats", "visible"},
    "report": {"matching", "record", "stats", "visible"},
    "stats": set(),
    "tools": set(),
    "trial": {"folders", "plan", "record", "tools"},
}
"""The same for the packages of bolide.lab."""

COMMAND_ONLY = {"cli", "__main__"}
"""Modules that no other imports: a server started from Python needs no command."""

COMMANDS = COMMAND_ONLY | {"command", "flags", "lazy_group", "streams"}
"""Modules that declare commands, and may use click."""

SHAPELESS_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
MACHINE_PATH = re.compile(r"(?<![\w.$~}/])/(?:root|home|tmp|Users)/")
TODO = re.compile(r"\b(?:TODO|FIXME|XXX)\b(?!.{0,3}#\d+)")
CODE = re.compile(r"``?[^`]*``?|\"\w*\"|'\w*'|[./]\w+|\b\w+\(")
UNSAFE_WORD = re.compile(r"\bunsafe\s*(?:\{|fn\b|impl\b|extern\b|trait\b)|#\[unsafe\(")

MACHINES = (
    r"(?:applications?|backends?|clients?|connections?|generators?|handlers?|kernels?|loops?|machines?|peers?"
    r"|process(?:es)?|prox(?:y|ies)|reactors?|requests?|servers?|siblings?|sockets?|supervisors?|threads?|workers?)"
)

LANGUAGE = {
    "response": re.compile(r"\banswer(?:s|ed|ing)?\b", re.I),
    "report, show, notify": re.compile(r"\b(?:un)?told\b|\btell(?:s|ing)?\b", re.I),
    "fix": re.compile(r"\bmend(?:s|ed|ing)?\b", re.I),
    "is, appears": re.compile(r"\b(?:stands?(?! for\b)|stood)\b", re.I),
    "after": re.compile(
        r"(?<!far )\bbehind\b(?! (?:[\w-]+ ){0,3}"
        r"(?:one|prox(?:y|ies)|routers?|load balancers?|translation|nginx|Caddy|HAProxy)\b)",
        re.I,
    ),
    "detect": re.compile(r"\b(?:find|finds|found|finding) out\b", re.I),
    "which, that": re.compile(rf"\bwhoever\b|\b{MACHINES},? who\b", re.I),
    "(leave it out)": re.compile(
        r"\b(?:come what may|for the time being|since long|as ever)\b", re.I
    ),
}
"""What to write: the words that do not have this meaning. Names and quoted code are not checked.

In tests/, comments and docstrings are checked, as far as a line shows what it is, and the names of
files and functions.
"""

ALLOWED_WORDS: dict[str, str] = {}
"""Path: a line that may contain such a word."""


def tracked(*suffixes: str) -> list[Path]:
    """Return the repository's own files with one of the endings, built things left out."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.suffix in suffixes and path.is_file()]


def name_of(path: Path) -> str:
    """Return a path as people write it."""
    return path.relative_to(ROOT).as_posix()


def imported(path: Path) -> Iterator[str]:
    """Yield the full names of what a Python file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts_of_bolide(path: Path, package: str = "bolide") -> set[str]:
    """Return the modules and packages directly below `package` that a file imports."""
    above = package.split(".")
    modules = {each.stem for each in (ROOT / "python").joinpath(*above).iterdir()} | {"_core"}
    names = [name.split(".") for name in imported(path)]
    below = [
        each[len(above)] for each in names if each[: len(above)] == above and each[len(above) :]
    ]
    return modules.intersection(below)


def test_files_are_short() -> None:
    long = {
        name_of(path): lines
        for path in tracked(".py", ".pyi", ".rs", ".md")
        if (lines := path.read_text().count("\n")) > FILE_LINES_MAX
    }
    assert long.keys() <= LONG_FILES.keys(), long


def test_folders_are_small() -> None:
    sizes = Counter(path.parent for path in tracked(".py", ".rs"))
    assert not {name_of(path): size for path, size in sizes.items() if size > FOLDER_FILES_MAX}


def test_python_functions_are_short() -> None:
    long = []
    for path in tracked(".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    long.append(f"{name_of(path)}:{node.lineno} {node.name}: {lines} lines")
    assert not long


def test_unsafe_is_where_it_is_expected() -> None:
    found = {}
    for path in tracked(".rs"):
        code = "\n".join(line.split("//")[0] for line in path.read_text().splitlines())
        if count := len(UNSAFE_WORD.findall(code)):
            found[name_of(path)] = count
    assert found == UNSAFE


def test_documents_state_the_rules_as_they_are_checked() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    [sizes] = re.findall(r"\*\*Size\.\*\*.*?\n\n", contributing, re.DOTALL)
    for most in (FUNCTION_LINES_MAX, FILE_LINES_MAX, FOLDER_FILES_MAX):
        assert re.search(rf"\b{most}\b[^.]* at most", sizes), most
    [unsafe] = re.findall(
        r"\n- `unsafe` .*?(?=\n- )", (ROOT / "ARCHITECTURE.md").read_text(), re.DOTALL
    )
    named = re.findall(r"`([\w/]+(?:\.rs|/))`", unsafe)
    for path in UNSAFE:
        assert any(f"/{name}" in f"/{path}" for name in named), path
    for name in named:
        assert any(f"/{name}" in f"/{path}" for path in UNSAFE), name


@pytest.mark.parametrize("crate", CRATES)
def test_crates_depend_in_one_direction(crate: str) -> None:
    manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
    used = set(manifest.get("dependencies", {}))
    assert used & CRATES.keys() <= CRATES[crate]
    assert crate == "py" or "pyo3" not in used


def modules_used_by(path: Path) -> set[str]:
    """Return the modules of its crate that a file names in its code."""
    code = "\n".join(line.split("//")[0] for line in path.read_text().splitlines())
    return set(re.findall(r"\bcrate::([a-z][a-z0-9_]*)", code))


@pytest.mark.parametrize("crate", LAYERS)
def test_modules_of_a_crate_depend_in_one_direction(crate: str) -> None:
    source = ROOT / "crates" / crate / "src"
    layer_of = {name: level for level, names in enumerate(LAYERS[crate]) for name in names}
    found = {path.relative_to(source).parts[0].removesuffix(".rs") for path in source.rglob("*.rs")}
    assert found - {"lib"} == layer_of.keys()
    for path in source.rglob("*.rs"):
        module = path.relative_to(source).parts[0].removesuffix(".rs")
        if module != "lib":
            used = modules_used_by(path) - {module}
            wrong = {each for each in used if layer_of[each] <= layer_of[module]}
            assert not wrong, f"{name_of(path)} uses {wrong}"


def test_python_side_knows_no_protocol() -> None:
    source = ROOT / "crates/py/src"
    found = []
    for path in source.rglob("*.rs"):
        # The tools of the laboratory make requests themselves.
        if path.relative_to(source).parts[0] not in {"tools", "tools.rs"}:
            code = (line.split("//")[0] for line in path.read_text().splitlines())
            found += [f"{name_of(path)}: {line.strip()}" for line in code if PROTOCOL.search(line)]
    assert not found


def test_packages_of_python_depend_in_one_direction() -> None:
    for package, allowed in (("bolide", PACKAGES), ("bolide.lab", LABORATORY)):
        folder = (ROOT / "python").joinpath(*package.split("."))
        assert {path.parent.name for path in folder.glob("*/__init__.py")} == allowed.keys()
        for path in tracked(".py"):
            if (
                path.is_relative_to(folder)
                and (part := path.relative_to(folder).parts[0]) in allowed
            ):
                own = EXCEPTIONS.get(str(path.relative_to(folder)), set())
                found = parts_of_bolide(path, package)
                assert found <= {part, *allowed[part], *own}, name_of(path)


def test_texts_of_files_have_an_encoding() -> None:
    """Otherwise it is that of the locale, and with LC_ALL=C ASCII."""
    found = []
    for path in tracked(".py"):
        if not name_of(path).startswith("python/bolide/"):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            least = {"read_text": 1, "write_text": 2}.get(node.func.attr, 0)
            has_one = any(each.arg == "encoding" for each in node.keywords)
            if least and len(node.args) < least and not has_one:
                found.append(f"{name_of(path)}:{node.lineno}")
    assert not found, "\n".join(found)


def test_nothing_imports_the_command() -> None:
    for path in tracked(".py"):
        if not name_of(path).startswith("python/"):
            continue
        if path.stem not in COMMAND_ONLY:
            assert not parts_of_bolide(path) & COMMAND_ONLY, name_of(path)
        if path.stem not in COMMANDS:
            assert not any(name.split(".")[0] == "click" for name in imported(path)), name_of(path)


def test_names_say_what_is_inside() -> None:
    for path in tracked(".py", ".rs", ".toml", ".md"):
        assert not SHAPELESS_NAMES & {
            part.lower() for part in Path(name_of(path)).with_suffix("").parts
        }


def test_nothing_names_a_machine() -> None:
    for path in tracked(".py", ".pyi", ".rs", ".toml", ".md", ".yml", ".sh", ""):
        name = name_of(path)
        if not name.startswith("tests/"):
            assert not MACHINE_PATH.search(path.read_text(errors="replace")), name


def test_language_is_plain_technical_english() -> None:
    found = []
    for path in tracked(".py", ".pyi", ".rs", ".md"):
        name = name_of(path)
        is_checked = name.startswith(("crates/", "python/", "tests/")) or path.suffix == ".md"
        if not is_checked:
            continue
        in_prose_only = name.startswith("tests/")
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if in_prose_only and '"""' not in line and "# " not in line:
                continue
            words = CODE.sub("", line)
            for instead, pattern in LANGUAGE.items():
                if (match := pattern.search(words)) and ALLOWED_WORDS.get(name) != line.strip():
                    found.append(f"{name}:{number}: {match[0]!r}: write {instead}")
    assert not found, "\n".join(found)


def test_names_in_tests_are_plain_technical_english() -> None:
    found = []
    for path in tracked(".py"):
        name = name_of(path)
        if name.startswith("tests/"):
            for each in (name, *re.findall(r"\bdef (\w+)", path.read_text())):
                words = each.replace("_", " ")
                for instead, pattern in LANGUAGE.items():
                    if match := pattern.search(words):
                        found.append(f"{name}: {each}: {match[0]!r}: write {instead}")
    assert not found, "\n".join(found)


def test_todo_has_a_number() -> None:
    for path in tracked(".py", ".pyi", ".rs", ".toml", ".md"):
        if path != Path(__file__):
            assert not TODO.search(path.read_text()), name_of(path)


def test_settings_reference_is_what_the_table_says() -> None:
    from bolide.config.reference import render

    written = (ROOT / "docs/settings.md").read_text()
    assert written == render(), "docs/settings.md is older than the option table: run `make docs`"
