"""Finds the application that a target names: `module:app`, `module:some.attribute`, `file.py`.

The part behind the colon may be left out; it is `app` then. The current folder comes first on
`sys.path`, and a file is imported under the name that an import of it would use.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from bolide.interface.asgi import AsgiApplication
from bolide.errors import ConfigError
from bolide.interface.wsgi import WsgiApplication

if TYPE_CHECKING:
    from bolide.web import App

    Application: TypeAlias = App | AsgiApplication | WsgiApplication

ATTRIBUTE = "app"


class LoadError(ConfigError):
    """The application's own code raised while it was imported; `details` is the traceback in it."""

    def __init__(self, message: str, details: str) -> None:
        super().__init__(message)
        self.details = details


def load(target: str) -> Application:
    """Import the application that `target` names.

    Raises:
        LoadError: the module was found, but raised while it ran.
        ConfigError: there is no such module, file or attribute, or it is not an application.
    """
    place, colon, attributes = target.partition(":")
    if not place or (colon and not attributes):
        missing = "application" if place else "module"
        raise ConfigError(f"{target!r} names no {missing}; give MODULE:APP or FILE.py:APP")
    _put_first(os.getcwd())
    is_file = place.endswith(".py") or os.sep in place
    module = _import_file(place) if is_file else _import_module(place)
    found: object = module
    names = (attributes or ATTRIBUTE).split(".")
    for count, name in enumerate(names):
        try:
            found = getattr(found, name)
        except AttributeError:
            reached = f"{place}:{'.'.join(names[:count])}".rstrip(":")
            hint = _hint(place, module)
            raise ConfigError(f"{reached} has no attribute {name!r}{hint}") from None
    return check(found, f"{place}:{attributes or ATTRIBUTE}")


def check(found: object, name: str) -> Application:
    """Return what was found as an application, whichever interface it speaks.

    Raises:
        ConfigError: it is something else.
    """
    from bolide.web import App

    if isinstance(found, App):
        return found
    if not isinstance(found, type | ModuleType) and callable(found):
        parameters = _parameters(found)
        if parameters == 3 and _is_coroutine_function(found):
            return AsgiApplication(found)
        if parameters == 1:
            raise ConfigError(
                f"{name} is an application of ASGI 2, whose callable takes only a scope; "
                "wrap it with asgiref.compatibility.guarantee_single_callable"
            )
        if parameters == 2:
            return WsgiApplication(found)
    raise ConfigError(
        f"{name} is neither a bolide.App nor an ASGI application but {_described(found)}"
    )


def _is_coroutine_function(found: Any) -> bool:
    while isinstance(found, functools.partial):
        found = found.func
    return inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(found.__call__)


def _parameters(found: Any) -> int | None:
    """Count the positional parameters without a default; None when nobody can tell."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in kinds and each.default is each.empty for each in parameters)


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            hint = f"; for a file give {name}.py" if os.path.exists(f"{name}.py") else ""
            where = f"in {os.getcwd()} or the installed packages"
            raise ConfigError(f"no module named {error.name!r} {where}{hint}") from None
        raise _failed(name, error) from error
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from error


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
    """Import a file outside any package, even one that is called like a module of the library."""
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
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _failed(place, error) from error
    return module


def _failed(place: str, error: BaseException) -> LoadError:
    """Keep of the traceback what is the application's, not the frames of the import."""
    frames = _without_import_frames(error.__traceback__)
    details = "".join(traceback.format_exception(type(error), error, frames))
    return LoadError(f"importing {place} failed: {type(error).__name__}: {error}", details)


def _without_import_frames(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        is_ours = file in (__file__, importlib.__file__) or file.startswith("<frozen importlib")
        if not is_ours:
            break
        frames = frames.tb_next
    return frames


def _hint(place: str, module: ModuleType) -> str:
    """Name an application that the module does have."""
    from bolide.web import App

    names = [name for name, value in vars(module).items() if isinstance(value, App)]
    return f"; did you mean {place}:{names[0]}?" if names else ""


def _described(found: object) -> str:
    if isinstance(found, ModuleType):
        return f"the module {found.__name__}"
    if isinstance(found, type):
        return f"the class {found.__qualname__}"
    kind = type(found)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _put_first(folder: str) -> None:
    if folder in sys.path:
        return
    sys.path.insert(0, folder)
