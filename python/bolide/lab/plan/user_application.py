"""The application that `bolide race --app` names, and its interface.

The laboratory imports no application: a process of its own imports it and reports the interface.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from bolide.errors import ConfigError

IMPORT_S_MAX = 60
"""How long the import of the application's module may take."""
PROBE = """\
import importlib, inspect, json, os, sys
module, _, attribute = sys.argv[1].partition(":")
found = importlib.import_module(module)
for name in (attribute or "app").split("."):
    found = getattr(found, name)
call = found if inspect.isroutine(found) else getattr(found, "__call__", None)
interface = ""
if type(found).__module__.split(".")[0] == "bolide":
    interface = "native"
elif inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(call):
    interface = "asgi"
elif callable(found):
    interface = "asgi" if len(inspect.signature(call).parameters) in (1, 3) else "wsgi"
files = {getattr(each, "__file__", None) for each in [*sys.modules.values()]}
print("\\nbolide-race-files:" + json.dumps([each for each in files if isinstance(each, str)]))
print("\\nbolide-race-interface:" + interface, flush=True)
os._exit(0)
"""
"""Prints the files of all modules, and the interface.

ASGI takes (scope, receive, send), WSGI (environ, start_response). It exits without waiting for
threads or exit handlers of the module.
"""
FILES = re.compile(r"^bolide-race-files:(.*)$", re.MULTILINE)
INTERFACE = re.compile(r"^bolide-race-interface:(\w*)$", re.MULTILINE)


@dataclass(frozen=True)
class UserApplication:
    """The user's own application, which contestants serve instead of the laboratory's."""

    app: str
    interface: str
    folder: Path
    """The working folder of the servers."""
    import_folders: tuple[Path, ...]
    """Where its module is imported from."""
    files: tuple[Path, ...] = field(default=(), compare=False)
    """Files of the user's own modules that its import has imported."""


def find(text: str, interface: str | None) -> UserApplication:
    """Import the application that `--app` names, and detect its interface.

    It is named as for `bolide serve`: module:attribute or file.py:attribute.

    Raises:
        ConfigError: it cannot be imported, or is not an application.
    """
    place, _, attribute = text.partition(":")
    folder = Path.cwd()
    module = place
    import_folders: tuple[Path, ...] = (folder,)
    if place.endswith(".py"):
        module, found_in = _module_of(place)
        import_folders = tuple(dict.fromkeys((found_in, folder)))
    if not module.replace(".", "").replace("_", "").isalnum():
        raise ConfigError(
            f"--app needs module:attribute, such as mysite.wsgi:application; got {text!r}"
        )
    app = f"{module}:{attribute or 'app'}"
    path = os.pathsep.join([*map(str, import_folders), *(each for each in sys.path if each)])
    try:
        done = subprocess.run(  # noqa: S603 - the user's own application
            [sys.executable, "-c", PROBE, app],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=IMPORT_S_MAX,
            env={**os.environ, "PYTHONPATH": path},
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"importing {module} takes more than {IMPORT_S_MAX} s") from None
    match = INTERFACE.search(done.stdout)
    if done.returncode or match is None:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        is_attribute = re.match(rf"AttributeError: module '{re.escape(module)}' has", lines[-1])
        remedy = f"; name the application: --app {place}:NAME" if is_attribute else ""
        raise ConfigError(f"cannot import {app}: {lines[-1].strip()[:200]}{remedy}")
    kind = interface or match[1]
    if not kind:
        raise ConfigError(f"{app} is not an application; if it is, give --interface asgi or wsgi")
    return UserApplication(app, kind, folder, import_folders, _files(done.stdout, import_folders))


def _files(printed: str, folders: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the modules below these folders; installed packages have versions instead."""
    match = FILES.search(printed)
    paths = [Path(text) for text in json.loads(match[1])] if match else []
    own = [path for path in paths if any(path.is_relative_to(each) for each in folders)]
    installed = (Path(sys.prefix), Path(sys.base_prefix))
    return tuple(
        path
        for path in sorted(own)
        if "site-packages" not in path.parts
        and not any(path.is_relative_to(each) for each in installed)
    )


def _module_of(file: str) -> tuple[str, Path]:
    """Return the module's name of a file, and the folder from which it is imported.

    Raises:
        ConfigError: there is no such file.
    """
    path = Path(file).absolute()
    if not path.is_file():
        raise ConfigError(f"no file {file} in {Path.cwd()}")
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").exists():
        names, folder = [folder.name, *names], folder.parent
    return ".".join(names), folder
