"""Detects the interface of an application, and wraps it accordingly.

An application is recognized by its parameters: (scope, receive, send) for ASGI 3, (environ,
start_response) for WSGI. It is not called. If the parameters are ambiguous, the option `interface`
must be set.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeAlias

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


class Spelling(NamedTuple):
    """How options are written where the application was named."""

    interface: str
    interface_set: str
    """The same with a placeholder for the value."""
    factory: str
    """"" if there is no such option."""


FLAG = Spelling("--interface", "--interface {}", "--factory")
KEYWORD = Spelling("interface=", 'interface="{}"', "factory=True")
MOUNT = KEYWORD._replace(factory="")

LIKELY_NAMES = ("application", "api", "asgi", "wsgi", "asgi_app", "wsgi_app")
"""Typical names of functions that are applications, besides those with the parameters of one."""


def application(found: Any, name: str, settings: Settings) -> Application:
    """Wrap what was found as an application of the interface that is set or detected.

    Raises:
        ConfigError: it is not such an application, or an option does not apply to it.
    """
    interface = settings.interface
    spelling = FLAG if settings.channel == "flag" else KEYWORD
    if interface == "auto":
        interface = recognize(found, name, spelling)
    else:
        _refuse_unfit(found, name, interface, spelling)
    if interface == "native":
        if settings.root_path:
            option = "--root-path" if spelling is FLAG else "root_path="
            raise ConfigError(f"{name} is a bolide.App, which takes no {option}; leave it out")
        native: App = found
        if settings.debug:
            from bolide.interface.debugging.native import respond  # with html, over 1 MiB

            native.show_failures(respond)
        extensions = settings.asgi_extensions
        lifespan = settings.lifespan
        return with_mounts(native, extensions, lifespan=lifespan, is_debugged=settings.debug)
    app = _debugged(found, interface) if settings.debug else found
    options = settings.asgi_extensions, settings.lifespan
    return _wrapped(app, interface, settings.root_path, options)


def _wrapped(
    found: Any, interface: str, root_path: str, options: tuple[Sequence[str], str]
) -> Mountable:
    """Wrap an application; `options` are the extensions and the lifespan of ASGI."""
    if interface == "wsgi":
        return WsgiApplication(found, root_path=root_path)
    extensions, lifespan = options
    return AsgiApplication(found, root_path=root_path, extensions=extensions, lifespan=lifespan)


def _debugged(found: Any, interface: str) -> Any:
    """Wrap an application so that it shows its failures; what that needs is imported here."""
    if interface == "wsgi":
        from bolide.interface.debugging.wsgi import WsgiDebugger

        return WsgiDebugger(found)
    from bolide.interface.debugging.asgi import AsgiDebugger

    return AsgiDebugger(found)


def with_mounts(
    native: App,
    extensions: Sequence[str] = (),
    *,
    lifespan: str = "auto",
    is_debugged: bool = False,
) -> App | MountedApplication:
    """Wrap an application together with those that are mounted on it; unchanged without any.

    Raises:
        ConfigError: what is mounted has no interface, or an ambiguous one.
    """
    if not native.mounts:
        return native
    options = extensions, lifespan
    mounts = [(each.prefix, _mounted(each, options, is_debugged)) for each in native.mounts]
    return MountedApplication(native, mounts)


def _mounted(mount: Mount, options: tuple[Sequence[str], str], is_debugged: bool) -> Mountable:
    found, name = mount.application, f"what is mounted at {mount.prefix}"
    interface: Interface | str = mount.interface
    if interface == "auto":
        interface = recognize(found, name, MOUNT)
    else:
        _refuse_unfit(found, name, interface, MOUNT)
    app = _debugged(found, interface) if is_debugged else found
    return _wrapped(app, interface, mount.prefix.rstrip("/"), options)


def recognize(found: Any, name: str, spelling: Spelling = FLAG) -> Interface:
    """Detect the interface of an object.

    Raises:
        ConfigError: it has none, or it is ambiguous.
    """
    if isinstance(found, App):
        return "native"
    if not callable(found) or isinstance(found, ModuleType):
        _refuse(found, name, spelling)
    signature = _signature(found)
    if signature is None:
        raise ConfigError(
            f"{name} is {described(found)}, whose parameters cannot be read; "
            f"set the interface with {_either(spelling)}"
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
    """Return whether something in a module is probably an application."""
    try:
        if isinstance(found, type):
            return False
        if inspect.isroutine(found) and name not in LIKELY_NAMES:
            names = tuple(inspect.signature(found).parameters)
            is_asgi = names == ("scope", "receive", "send") and is_coroutine_function(found)
            if not is_asgi and names != ("environ", "start_response"):
                return False
        recognize(found, name)
    except Exception:  # a framework's proxy object may raise anything when it is inspected
        return False
    return True


def described(found: object) -> str:
    """Describe an object in an error message."""
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
    """Return whether a call certainly returns a coroutine; a plain function might, too."""
    while isinstance(found, functools.partial):
        found = found.func
    function = found if inspect.isroutine(found) else type(found).__call__
    return inspect.iscoroutinefunction(function)


def is_callable_without_arguments(found: Any) -> bool:
    """Return whether a factory can be called; true if its parameters cannot be read."""
    signature = _signature(found)
    return signature is None or _can_be_called(signature, 0)


def _either(spelling: Spelling) -> str:
    return " or ".join(spelling.interface_set.format(kind) for kind in ARGUMENTS)


def _refuse_unfit(found: Any, name: str, interface: str, spelling: Spelling) -> None:
    """Reject what cannot have the interface that is set."""
    if isinstance(found, App) != (interface == "native"):
        option = spelling.interface
        raise ConfigError(
            f"{name} is {described(found)}, not what {option} says; leave {option} out"
        )
    count = ARGUMENTS.get(interface)
    if count is None:
        return
    signature = _signature(found) if callable(found) else None
    if not callable(found) or (signature and not _can_be_called(signature, count)):
        raise ConfigError(
            f"{name} is {described(found)}, which cannot be called with {count} arguments "
            f"as {spelling.interface_set.format(interface)} says; leave {spelling.interface} out"
        )


def _refuse_wrong_class(found: Any, name: str, spelling: Spelling, method: str) -> None:
    """Reject a class unless its instances are what calling an application returns."""
    if isinstance(found, type) and not hasattr(found, method):
        _refuse(found, name, spelling)


def _refuse(
    found: Any, name: str, spelling: Spelling, signature: inspect.Signature | None = None
) -> NoReturn:
    """Reject what is not an application, with a hint at what was probably meant."""
    if signature is not None and _takes_any_number(signature):
        raise ConfigError(
            f"{name} takes any number of arguments; set the interface with {_either(spelling)}"
        )
    if isinstance(found, type) and not _is_asgi_2(found, signature):
        remedy = f"name an instance of it, or use {spelling.factory} to create one"
        remedy = remedy if spelling.factory else "mount an instance of it"
        raise ConfigError(f"{name} is {described(found)}, not an application; {remedy}")
    if signature is not None and _is_asgi_2(found, signature):
        raise ConfigError(
            f"{name} is an application of ASGI 2, whose callable takes only a scope; "
            "wrap it with asgiref.compatibility.guarantee_single_callable"
        )
    if inspect.isroutine(found) and signature is not None and _can_be_called(signature, 0):
        remedy = f"use {spelling.factory}" if spelling.factory else "mount what it returns"
        raise ConfigError(
            f"{name} can be called without arguments, so it is not an application; "
            f"if it creates the application, {remedy}"
        )
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
    """Return the signature, or None if it cannot be read."""
    try:
        return inspect.signature(found)
    except (TypeError, ValueError):
        return None


def _can_be_called(signature: inspect.Signature, count: int) -> bool:
    """Return whether a call with that many positional arguments is possible."""
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _takes_any_number(signature: inspect.Signature) -> bool:
    kinds = [each.kind for each in signature.parameters.values()]
    return kinds[:1] == [inspect.Parameter.VAR_POSITIONAL]
