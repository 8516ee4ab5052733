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
from bolide.interface.recognition import (
    described,
    is_callable_without_arguments,
    is_coroutine_function,
    is_likely_application,
)
from bolide.web import App

if TYPE_CHECKING:
    from bolide.config.settings import Settings
    from bolide.interface import Application

ATTRIBUTE, FACTORY = "app", "create_app"
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
        ConfigError: there is no such module, file or attribute, or it is not an application.
    """
    attribute = FACTORY if settings.factory else ATTRIBUTE
    return check(*find(target, settings, attribute), settings)


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
    _put_first(os.getcwd())
    if os.path.isdir(place) and (os.sep in place or place in (os.curdir, os.pardir)):
        raise ConfigError(f"{place!r} is a folder; {_inside(place)}")
    is_file = place.endswith(".py") or os.sep in place
    module = _import_file(place) if is_file else _import_module(place)
    attributes = attributes or attribute
    name = f"{place}:{attributes}"
    if not attribute and not hasattr(module, attributes.partition(".")[0]):
        raise ConfigError(f"{place} has no attribute {attributes!r}")
    return _attribute(module, place, attributes, settings), name


def _attribute(module: ModuleType, place: str, attributes: str, settings: Settings) -> object:
    """Follow a dotted path from the module."""
    found: object = module
    names = attributes.split(".")
    for count, name in enumerate(names):
        try:
            found = getattr(found, name)
        except AttributeError:
            reached = f"{place}:{'.'.join(names[:count])}".rstrip(":")
            hint = _hint(place, module, settings, place if count else "it")
            raise ConfigError(f"{reached} has no attribute {name!r}{hint}") from None
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
            where = f"in {os.getcwd()} or the installed packages"
            raise ConfigError(f"no module named {error.name!r} {where}{hint}") from None
        raise _failed(f"importing {name}", error) from error
    except BaseException as error:
        raise _failed(f"importing {name}", error) from error


def _import_file(place: str) -> ModuleType:
    path = os.path.abspath(place)
    if not os.path.isfile(path):
        raise ConfigError(f"no file {place} in {os.getcwd()}")
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


def _failed(what: str, error: BaseException) -> LoadError:
    """Create the error, with the application's part of the traceback, without the import's."""
    frames = _without_import_frames(error.__traceback__)
    details = "".join(traceback.format_exception(type(error), error, frames))
    hint = _relative_import_hint(error, frames) or _missing_package_hint(error)
    what_it_is = f"{type(error).__name__}: {error}".removesuffix(": ")
    return LoadError(f"{what} failed: {what_it_is}{hint}", details)


def _missing_package_hint(error: BaseException) -> str:
    """Say in which environment a package is missing, which may not be the one of the shell."""
    is_missing = isinstance(error, ModuleNotFoundError) and error.name and "." not in error.name
    return f" (Bolide runs in {sys.prefix}; install it there)" if is_missing else ""


def _relative_import_hint(error: BaseException, frames: TracebackType | None) -> str:
    """Say how to name the module of a file in which a relative import has failed."""
    is_relative = isinstance(error, ImportError) and "attempted relative import" in str(error)
    if not is_relative or frames is None:
        return ""
    while frames.tb_next is not None:
        frames = frames.tb_next
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
    found = [name for name, value in own if is_likely_application(value, name)]
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
    for folder in getattr(module, "__path__", ()):
        for name, attribute in MAIN_MODULES.items():
            if not place.endswith(".py") and os.path.isfile(os.path.join(folder, f"{name}.py")):
                return f"; did you mean {place}.{name}{attribute}?"
    if hasattr(module, "__path__"):
        return f"; it is a package, so give a module in it, such as {place}.main:{ATTRIBUTE}"
    if os.path.basename(place) in ("manage", "manage.py"):
        return f"; {DJANGO}"
    return f"; name the {'factory' if settings.factory else 'application'}: {place}:NAME"


def _colon_hint(name: str) -> str:
    """Suggest a colon for the last dot, if what precedes it is a module with that attribute."""
    place, _, attribute = name.rpartition(".")
    has = hasattr(sys.modules.get(place), attribute)
    return f"; did you mean {place}:{attribute}?" if has else ""


def _put_first(folder: str) -> None:
    if folder in sys.path:
        return
    sys.path.insert(0, folder)
