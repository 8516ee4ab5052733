"""Imports the application that a target names: `module:app`, `module:some.attribute`, `file.py`.

The part after the colon is optional: the default is `app`, or `create_app` for a factory. The
current folder is the first on `sys.path`, and a file is imported under the name that an import of
it would use. `interface/recognition.py` decides what is an application.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from bolide.errors import ConfigError
from bolide.interface import application
from bolide.interface.greenlets import refuse_patched
from bolide.interface.recognition import (
    described,
    is_callable_without_arguments,
    is_coroutine_function,
    is_likely_application,
)
from bolide.server.lifespan import text_of
from bolide.web import App

if TYPE_CHECKING:
    from bolide.config.settings import Settings
    from bolide.interface import Application

ATTRIBUTE, FACTORY = "app", "create_app"
USUAL_NAMES = (ATTRIBUTE, "application")
REMOVED = "the current folder, which was removed,"
FACTORIES = (FACTORY, "make_app", "get_app", "create_application")
"""Names of functions that an error message suggests as factories."""
NAMED_MAX = 3
"""Applications of a module that an error message names at most."""
MAIN_MODULES = {"main": "", "app": "", "wsgi": ":application", "asgi": ":application"}
"""Modules that an error message suggests if a package has no application; the last are Django's."""
DJANGO = "it is Django's command, so give its project, as in mysite.wsgi:application"


class LoadError(ConfigError):
    """The application's own code raised while it was imported; `details` is its traceback."""

    def __init__(self, message: str, details: str) -> None:
        super().__init__(message)
        self.details = details


def load(target: str, settings: Settings) -> Application:
    """Import the application that `target` names.

    Raises:
        LoadError: the module was found, but raised while it ran, or its factory did.
        ConfigError: there is no such module, file or attribute, or it is not an application, or
            it has replaced what a server needs.
    """
    attribute = FACTORY if settings.factory else ATTRIBUTE
    app = check(*find(target, settings, attribute), settings)
    refuse_patched(target)  # before anything waits: that would be for ever
    return app


def call(option: str, target: str, settings: Settings, number: int) -> None:
    """Call the function that an option names, with a number.

    Raises:
        LoadError: it raised, or its module did while it ran.
        ConfigError: there is no such function.
    """
    if not all(target.partition(":")):
        raise ConfigError(f"{option}: {target!r} names no function; give MODULE:FUNCTION")
    try:
        found, name = find(target, settings, "")
    except LoadError:
        raise
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from None
    if not callable(found) or is_coroutine_function(found):
        what = f"{option}: {name} is {described(found)}"
        raise ConfigError(f"{what}; give a function that is not a coroutine function")
    try:
        found(number)
    except BaseException as error:
        raise _failed(f"calling {name}", error) from error
    refuse_patched(target)


def find(target: str, settings: Settings, attribute: str) -> tuple[object, str]:
    """Return what a target names, and its name; `attribute` is the default, if any.

    Raises:
        LoadError: the module was found, but raised while it ran.
        ConfigError: there is no such module, file or attribute.
    """
    place, colon, attributes = target.partition(":")
    if not place or (colon and not attributes):
        missing = "application" if place else "module"
        raise ConfigError(f"{target!r} names no {missing}; give MODULE:APP or FILE.py:APP")
    if attributes.endswith(")"):
        remedy = f"give {target.partition('(')[0]} with {_factory_option(settings)}"
        raise ConfigError(f"{target!r} is a call; {remedy}, which calls it without arguments")
    if here := current_folder():
        _put_first(here)
    if os.path.isdir(place) and (os.sep in place or place in (os.curdir, os.pardir)):
        raise ConfigError(f"{place!r} is a folder; {_inside(place)}")
    is_file = place.endswith(".py") or os.sep in place
    attributes = attributes or attribute
    try:
        module = _import_file(place, attributes) if is_file else _import_module(place)
    except LoadError as error:
        cause = error.__cause__
        if cause is None or not attribute:
            raise
        hint = _neighbour_hint(cause, place, attributes, settings)
        raise _failed(f"importing {place}", cause, hint) from cause
    found = _attribute(module, place, attributes, settings if attribute else None)
    return found, f"{place}:{attributes}"


def _attribute(
    module: ModuleType, place: str, attributes: str, settings: Settings | None
) -> object:
    """Follow a dotted path from the module; with `settings`, an error suggests an application."""
    found: object = module
    names = attributes.split(".")
    for count, name in enumerate(names):
        try:
            found = getattr(found, name)
        except AttributeError:
            reached = f"{place}:{'.'.join(names[:count])}".rstrip(":")
            hint = _hint(place, module, settings, place if count else "it") if settings else ""
            raise ConfigError(f"{reached} has no attribute {name!r}{hint}") from None
        except BaseException as error:
            raise _failed(f"reading {name!r} of {place}", error) from error
    return found


def check(found: Any, name: str, settings: Settings) -> Application:
    """Return what was found, or what it creates if it is a factory, as an application.

    Raises:
        LoadError: the factory raised.
        ConfigError: it is not an application.
    """
    if settings.factory:
        found, name = _made(found, name, settings), f"the object that {name} returns"
    return application(found, name, settings)


def _made(factory: Any, name: str, settings: Settings) -> object:
    """Call a factory."""
    option = _factory_option(settings)
    if not callable(factory) or isinstance(factory, App):
        raise ConfigError(f"{name} is {described(factory)}, not a factory; leave {option} out")
    if is_coroutine_function(factory):
        remedy = "create the application in a plain function, and await in its startup"
        raise ConfigError(f"{name} is a coroutine function, which cannot be a factory; {remedy}")
    if not is_callable_without_arguments(factory):
        remedy = (
            f"leave {option} out if it is an application, or else wrap it in a function without any"
        )
        raise ConfigError(f"{name} needs arguments; a factory must take no arguments: {remedy}")
    try:
        return factory()
    except BaseException as error:
        raise _failed(f"calling {name}", error) from error


def _inside(folder: str) -> str:
    """Suggest a file of the folder whose name is usual for an application, or a made-up one."""
    there = [name for name in MAIN_MODULES if os.path.isfile(os.path.join(folder, f"{name}.py"))]
    path = os.path.normpath(os.path.join(folder, f"{(*there, 'main')[0]}.py"))
    if there:
        return f"did you mean {path}{MAIN_MODULES[there[0]]}?"
    return f"give the application's file in it, such as {path}:{ATTRIBUTE}"


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            hint = f"; for a file give {name}.py" if os.path.exists(f"{name}.py") else ""
            hint = hint or _colon_hint(name)
            where = f"in {current_folder() or REMOVED} or the installed packages"
            raise ConfigError(f"no module named {error.name!r} {where}{hint}") from None
        raise _failed(f"importing {name}", error) from error
    except BaseException as error:
        raise _failed(f"importing {name}", error) from error


def _import_file(place: str, attributes: str) -> ModuleType:
    here = current_folder()
    if not here and not os.path.isabs(place):
        raise ConfigError(f"no file {place}: the current folder was removed; change to another one")
    path = os.path.normpath(os.path.join(here, place))
    if not os.path.isfile(path):
        is_py = not place.endswith(".py") and os.path.isfile(f"{path}.py")
        hint = f"; did you mean {place}.py:{attributes}?" if is_py else ""
        raise ConfigError(f"no file {place}" + (hint or f" in {here}"))
    folder, stem = os.path.dirname(path), os.path.basename(path).removesuffix(".py")
    name = stem
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = f"{package}.{name}"
    _put_first(folder)
    if "." in name:
        return _import_module(name.removesuffix(".__init__"))
    return _import_single_file(place, path, name)


def _import_single_file(place: str, path: str, name: str) -> ModuleType:
    """Import a file outside any package, even if its name is that of an imported module."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        if getattr(loaded, "__file__", None) == path:
            return loaded
        name = f"bolide_target_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{place} is not a Python file; give FILE.py or MODULE:APP")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        raise _failed(f"importing {place}", error) from error
    return module


def _failed(what: str, error: BaseException, hint: str = "") -> LoadError:
    """Create the error, with the application's part of the traceback, without the import's.

    The message has the first line of the error's text, and `hint`, or else one that is known.
    """
    frames = _without_import_frames(error.__traceback__)
    details = "".join(traceback.format_exception(type(error), error, frames))
    hint = hint or _relative_import_hint(error, frames) or _missing_package_hint(error)
    text = (text_of(error).strip().splitlines() or [""])[0]
    what_it_is = f"{type(error).__name__}: {text}".removesuffix(": ")
    return LoadError(f"{what} failed: {what_it_is}{hint}", details)


def _neighbour_hint(error: BaseException, place: str, attributes: str, settings: Settings) -> str:
    """Say how to import a module that lies beside the file which has not found it; "" if none."""
    frames = _without_import_frames(error.__traceback__)
    if not isinstance(error, ModuleNotFoundError) or not error.name or "." in error.name:
        return ""
    if frames is None:
        return ""
    here, name = current_folder(), error.name
    frame = _innermost(frames).tb_frame
    folder = os.path.dirname(os.path.join(here, frame.f_code.co_filename))
    beside = os.path.join(folder, name)
    if not os.path.isfile(f"{beside}.py") and not os.path.isfile(f"{beside}/__init__.py"):
        return ""
    folder = os.path.relpath(folder, here) if here and _is_below(folder, here) else folder
    package = frame.f_globals.get("__package__") or ""
    file = os.path.join(folder, f"{place.rpartition('.')[2]}.py")
    is_plain = not os.path.exists(os.path.join(folder, "__init__.py"))
    if is_plain and frame.f_globals.get("__name__") == place and os.path.isfile(file):
        target = file if attributes == ATTRIBUTE else f"{file}:{attributes}"
        return f"; it is in {folder}/: {_served(target, settings)}"
    return f"; it is in {folder}/: import it as {package}.{name}" if package else ""


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def _missing_package_hint(error: BaseException) -> str:
    """Say in which environment a package is missing, which may not be the one of the shell."""
    is_missing = isinstance(error, ModuleNotFoundError) and error.name and "." not in error.name
    return f" (Bolide runs in {sys.prefix}; install it there)" if is_missing else ""


def _relative_import_hint(error: BaseException, frames: TracebackType | None) -> str:
    """Say how to name the module of a file in which a relative import has failed."""
    is_relative = isinstance(error, ImportError) and "attempted relative import" in str(error)
    if not is_relative or frames is None:
        return ""
    frames = _innermost(frames)
    name = frames.tb_frame.f_globals.get("__name__", "")
    outermost = os.path.abspath(frames.tb_frame.f_code.co_filename)
    is_folder = os.path.basename(outermost) == "__init__.py"
    for _ in range(len(name.split(".")) + is_folder):
        outermost = os.path.dirname(outermost)
    folder, package = os.path.split(outermost)
    hint = "; import without the leading dots"
    if not package.isidentifier():
        return hint
    return f"{hint}, or start one folder higher: `cd {folder}; bolide serve {package}.{name}`"


def _innermost(frames: TracebackType) -> TracebackType:
    """Return the last frame that is not of the import system."""
    found = frames
    while frames.tb_next is not None:
        frames = frames.tb_next
        if not frames.tb_frame.f_code.co_filename.startswith("<frozen importlib"):
            found = frames
    return found


def _without_import_frames(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        is_ours = file in (__file__, importlib.__file__) or file.startswith("<frozen importlib")
        if not is_ours:
            break
        frames = frames.tb_next
    return frames


def _factory_option(settings: Settings) -> str:
    return "--factory" if settings.channel == "flag" else "factory=True"


def _served(target: str, settings: Settings, option: str = "") -> str:
    """Return how a target is served by a caller who gives options in this way."""
    if settings.channel == "flag":
        return f"`{' '.join(['bolide serve', target, option]).rstrip()}`"
    return f"give {target!r}" + (f" and {option}" if option else "")


def _hint(place: str, module: ModuleType, settings: Settings, owner: str) -> str:
    """Name the applications that the module has, or a factory of one, and how to serve the first.

    `owner` is the module in the sentence. A factory comes first if one was wanted.
    """
    own = [(name, value) for name, value in vars(module).items() if not name.startswith("_")]
    likely = [(name, value) for name, value in own if is_likely_application(value, name)]
    found = [name for name, _ in sorted(likely, key=_rank)]
    factories = [name for name, value in own if name in FACTORIES and callable(value)]
    if factories and (settings.factory or not found):
        served = _served(f"{place}:{factories[0]}", settings, _factory_option(settings))
        return f"; {owner} has the factory {factories[0]!r}: {served}"
    if found:
        names = " and ".join(map(repr, found[:NAMED_MAX]))
        more = " and others" if len(found) > NAMED_MAX else ""
        served = _served(f"{place}:{found[0]}", settings)
        leave_out = f" without {_factory_option(settings)}" if settings.factory else ""
        return f"; {owner} has {names}{more}: {served}{leave_out}"
    folders = vars(module).get("__path__")  # getattr() could call the module's __getattr__
    for folder in folders or ():
        for name, attribute in MAIN_MODULES.items():
            if not place.endswith(".py") and os.path.isfile(os.path.join(folder, f"{name}.py")):
                return f"; did you mean {place}.{name}{attribute}?"
    if folders is not None:
        return f"; it is a package, so give a module in it, such as {place}.main:{ATTRIBUTE}"
    if os.path.basename(place) in ("manage", "manage.py"):
        return f"; {DJANGO}"
    return f"; name the {'factory' if settings.factory else 'application'}: {place}:NAME"


def _rank(named: tuple[str, object]) -> int:
    """Order what is suggested: the usual names first, then applications of Bolide."""
    name, value = named
    return 0 if name in USUAL_NAMES else 1 if isinstance(value, App) else 2


def _colon_hint(name: str) -> str:
    """Suggest a colon for the last dot, if what precedes it is a module with that attribute."""
    place, _, attribute = name.rpartition(".")
    module = sys.modules.get(place)
    has = module is not None and attribute in vars(module)
    return f"; did you mean {place}:{attribute}?" if has else ""


def current_folder() -> str:
    """Return the current folder; "" if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _put_first(folder: str) -> None:
    if folder in sys.path:
        return
    sys.path.insert(0, folder)
