"""Tells which interface an application speaks, and makes of it what the server holds.

An application is known by what it can be called with: ASGI 3 by (scope, receive, send), WSGI by
(environ, start_response). It is not called to find out. Where its parameters do not tell, the
option `interface` must.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from bolide.errors import ConfigError
from bolide.interface.asgi import AsgiApplication
from bolide.interface.mounted import MountedApplication
from bolide.interface.wsgi import WsgiApplication
from bolide.web import App
from bolide.web.mounting import Mount

if TYPE_CHECKING:
    from bolide.config.settings import Settings

Mountable: TypeAlias = AsgiApplication | WsgiApplication
Application: TypeAlias = App | MountedApplication | Mountable
Interface = Literal["native", "asgi", "wsgi"]
ARGUMENTS = {"asgi": 3, "wsgi": 2}
OPTION, ARGUMENT = "--interface {}", 'interface="{}"'
"""How it is said what something speaks: to the command, and to `App.mount`."""
LIKELY_NAMES = ("application", "api", "asgi", "wsgi", "asgi_app", "wsgi_app")
"""What functions are called that are applications; any object that can be called may be one."""


def application(found: Any, name: str, settings: Settings) -> Application:
    """Return what was found as an application of the interface that is set or recognised.

    Raises:
        ConfigError: it is something else, or an option does not fit it.
    """
    interface = settings.interface
    if interface == "auto":
        interface = recognize(found, name)
    else:
        _refuse_unfit(found, name, interface)
    if interface == "native":
        if settings.root_path:
            raise ConfigError(f"{name} is a bolide.App, which takes no --root-path; leave it out")
        native: App = found
        return _with_mounts(native, settings.asgi_extensions) if native.mounts else native
    if interface == "wsgi":
        return WsgiApplication(found, root_path=settings.root_path)
    extensions = settings.asgi_extensions
    return AsgiApplication(found, root_path=settings.root_path, extensions=extensions)


def _with_mounts(native: App, extensions: Sequence[str]) -> MountedApplication:
    """Make the applications that are mounted what the server holds."""
    mounts = [(mount.prefix, _mounted(mount, extensions)) for mount in native.mounts]
    return MountedApplication(native, mounts)


def _mounted(mount: Mount, extensions: Sequence[str]) -> Mountable:
    found, name = mount.application, f"what is mounted at {mount.prefix}"
    interface: Interface | str = mount.interface
    if interface == "auto":
        interface = recognize(found, name, ARGUMENT)
    else:
        _refuse_unfit(found, name, interface, ARGUMENT)
    root_path = mount.prefix.rstrip("/")
    if interface == "wsgi":
        return WsgiApplication(found, root_path=root_path)
    return AsgiApplication(found, root_path=root_path, extensions=extensions)


def recognize(found: Any, name: str, spelling: str = OPTION) -> Interface:
    """Find out which interface a thing speaks.

    Raises:
        ConfigError: none, or nobody can tell.
    """
    if isinstance(found, App):
        return "native"
    if not callable(found) or isinstance(found, ModuleType):
        _refuse(found, name, spelling)
    signature = _signature(found)
    if signature is None:
        raise ConfigError(
            f"{name} is {described(found)}, whose parameters cannot be read; "
            f"say what it is with {_either(spelling)}"
        )
    counts = [count for count in range(4) if _can_be_called(signature, count)]
    required = counts[0] if counts else None
    first = next(iter(signature.parameters), "")
    is_async = is_coroutine_function(found)
    if 3 in counts and (required == 3 or first == "scope" or is_async):
        _refuse_wrong_class(found, name, spelling, "__await__")
        return "asgi"
    if 2 in counts and (required == 2 or first == "environ") and not is_async:
        _refuse_wrong_class(found, name, spelling, "__iter__")
        return "wsgi"
    _refuse(found, name, spelling, signature)


def is_likely_application(found: Any, name: str) -> bool:
    """Tell whether something in a module is probably meant to be served."""
    try:
        if isinstance(found, type) or (inspect.isroutine(found) and name not in LIKELY_NAMES):
            return False
        recognize(found, name)
    except Exception:  # a proxy of a framework's may raise anything when it is looked at
        return False
    return True


def described(found: object) -> str:
    """Say what a thing is."""
    if isinstance(found, ModuleType):
        return f"the module {found.__name__}"
    if isinstance(found, type):
        return f"the class {found.__qualname__}"
    if inspect.isfunction(found):
        return f"the function {found.__name__}({', '.join(inspect.signature(found).parameters)})"
    kind = type(found)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def is_coroutine_function(found: Any) -> bool:
    """Tell whether calling it is sure to give a coroutine; of a plain function nobody knows."""
    while isinstance(found, functools.partial):
        found = found.func
    function = found if inspect.isroutine(found) else type(found).__call__
    return inspect.iscoroutinefunction(function)


def is_callable_without_arguments(found: Any) -> bool:
    """Tell whether a factory can be called; one that hides its parameters is taken at its word."""
    signature = _signature(found)
    return signature is None or _can_be_called(signature, 0)


def _either(spelling: str) -> str:
    return f"{spelling.format('asgi')} or {spelling.format('wsgi')}"


def _refuse_unfit(found: Any, name: str, interface: str, spelling: str = OPTION) -> None:
    """Refuse what cannot be of the interface that is set."""
    if isinstance(found, App) != (interface == "native"):
        mend = "leave --interface out"
        raise ConfigError(f"{name} is {described(found)}, not what --interface says; {mend}")
    count = ARGUMENTS.get(interface)
    if count is None:
        return
    signature = _signature(found) if callable(found) else None
    if not callable(found) or (signature and not _can_be_called(signature, count)):
        raise ConfigError(
            f"{name} is {described(found)}, which cannot be called with {count} arguments "
            f"as {spelling.format(interface)} says"
        )


def _refuse_wrong_class(found: Any, name: str, spelling: str, method: str) -> None:
    """Refuse a class unless its instances are what calling an application gives."""
    if isinstance(found, type) and not hasattr(found, method):
        _refuse(found, name, spelling)


def _refuse(
    found: Any, name: str, spelling: str, signature: inspect.Signature | None = None
) -> NoReturn:
    """Say what a thing is that is no application, and what was probably meant."""
    if signature is not None and _takes_any_number(signature):
        raise ConfigError(
            f"{name} takes any number of arguments; say what it is with {_either(spelling)}"
        )
    if isinstance(found, type) and not _is_asgi_2(found, signature):
        mend = "name an instance of it, or give --factory to have it made"
        raise ConfigError(f"{name} is {described(found)}, not an application; {mend}")
    if signature is not None and _is_asgi_2(found, signature):
        raise ConfigError(
            f"{name} is an application of ASGI 2, whose callable takes only a scope; "
            "wrap it with asgiref.compatibility.guarantee_single_callable"
        )
    if inspect.isroutine(found) and signature is not None and _can_be_called(signature, 0):
        mend = "if it makes the application, give --factory"
        raise ConfigError(f"{name} can be called without arguments, as no application can; {mend}")
    raise ConfigError(
        f"{name} is neither a bolide.App nor an ASGI or WSGI application but {described(found)}"
    )


def _is_asgi_2(found: Any, signature: inspect.Signature | None) -> bool:
    if signature is None or not _can_be_called(signature, 1):
        return False
    if isinstance(found, type):
        return inspect.iscoroutinefunction(vars(found).get("__call__"))
    return next(iter(signature.parameters)) == "scope" and not is_coroutine_function(found)


def _signature(found: Any) -> inspect.Signature | None:
    """Read the parameters; None if nobody can."""
    try:
        return inspect.signature(found)
    except (TypeError, ValueError):
        return None


def _can_be_called(signature: inspect.Signature, count: int) -> bool:
    """Tell whether so many positional arguments fit."""
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _takes_any_number(signature: inspect.Signature) -> bool:
    kinds = [each.kind for each in signature.parameters.values()]
    return kinds[:1] == [inspect.Parameter.VAR_POSITIONAL]
