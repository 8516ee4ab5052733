"""The arguments of a handler, determined once, when it is registered.

The core matches paths and parses patterns in full (crates/server/src/router.rs). This module only
matches a pattern's names with the handler's parameters, so that a call needs no lookup.
"""

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bolide.errors import RegistrationError, SignatureError

__all__ = [
    "Binding",
    "bind",
    "describe",
    "described_at",
    "is_async_callable",
    "is_async_generator",
    "parameter_names",
    "shape",
]

Parameters = list[inspect.Parameter]

_SEGMENT = re.compile(r"\{([^{}:]*)(?::([^{}]*))?\}")
_FOREIGN = re.compile(r"<(?:(\w+)(?:\([^)]*\))?:)?(\w+)>")
"""A parameter as Flask and Django write it: <name>, <int:name>."""
_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Binding:
    """How the core calls a handler: `call(request, *positional, **keyword)`, by parameter names."""

    call: Callable[..., Any]
    positional: list[str]
    keyword: list[str]
    is_async: bool


def parameter_names(pattern: str) -> list[str]:
    """Return the names of a pattern's parameters, in order.

    The core checks types, conflicts and the rest of the grammar.

    Raises:
        RegistrationError: the pattern is not a str that starts with a slash, a brace is unmatched,
            a name is not a Python identifier, or a parameter is written as in Flask.
    """
    if not isinstance(pattern, str) or not pattern.startswith("/"):
        raise RegistrationError(f"the pattern {pattern!r} must begin with a slash")
    if foreign := _FOREIGN.search(pattern):
        kind = f":{foreign[1]}" if foreign[1] in ("int", "path") else ""
        remedy = f"{foreign[0]!r} is not a parameter; write {{{foreign[2]}{kind}}}"
        raise RegistrationError(f"the pattern {pattern!r}: {remedy}")
    if {"{", "}"} & set(_SEGMENT.sub("", pattern)):
        raise RegistrationError(f"the pattern {pattern!r} has a brace without a parameter")
    names = [found[1] for found in _SEGMENT.finditer(pattern)]
    for name in names:
        if not name.isidentifier():
            raise RegistrationError(
                f"the pattern {pattern!r} has a parameter without a proper name"
            )
    return names


def bind(handler: Callable[..., Any], pattern: str) -> Binding:
    """Match a pattern's parameters with a handler's.

    The handler's first parameter is the request. The others are matched by name and may be
    positional or keyword-only; a handler with `**kwargs` gets the rest by keyword. A parameter of
    the pattern that the handler does not name is only in `request.path_params`.

    Raises:
        RegistrationError: the pattern is malformed.
        SignatureError: the handler is not callable, does not take a request, or needs a parameter
            that the pattern does not have.
    """
    names = parameter_names(pattern)
    own, parameters = _signatures(handler, pattern)
    _check_first(handler, pattern, names, parameters)
    positional, keyword = _distribute(handler, pattern, names, parameters[1:])
    kinds = {parameter.kind for parameter in own}
    if inspect.Parameter.VAR_KEYWORD in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        # A wrapper such as wrapper(request, **kwargs): it takes what its own positions declare.
        taken = [parameter.name for parameter in own[1:] if parameter.kind in _POSITIONAL]
        if positional[: len(taken)] == taken:
            positional, keyword = taken, positional[len(taken) :] + keyword
    is_async = is_async_callable(handler)
    call = handler
    if is_async and not _is_any(handler, _is_of_python):
        call = _awaiting(handler)
    elif not is_async and is_async_generator(handler):
        call, is_async = _generator_call(handler), True
    return Binding(call, positional, keyword, is_async)


def is_async_callable(function: Any) -> bool:
    """Return whether a call returns a coroutine, also through `partial`, `__call__` and `wraps`."""
    return _is_any(function, inspect.iscoroutinefunction)


def describe(function: Any) -> str:
    """Return a function's name for a message: `package.module.name`, or its repr if it has none."""
    target = function
    while isinstance(target, functools.partial):
        target = target.func
    name = getattr(target, "__qualname__", None)
    return f"{target.__module__}.{name}" if name else repr(function)


def described_at(function: Any) -> str:
    """Return a function's name with the file and line of its definition, if these are known."""
    target = function
    while isinstance(target, functools.partial):
        target = target.func
    code = getattr(inspect.unwrap(target), "__code__", None)
    if code is None:
        return describe(function)
    return f"{describe(function)} ({code.co_filename}:{code.co_firstlineno})"


def shape(pattern: str) -> str:
    """Return a pattern without the names of its parameters: two of one shape are one route."""
    return _SEGMENT.sub(lambda found: f"{{:{found[2] or 'str'}}}", pattern)


def is_async_generator(function: Any) -> bool:
    """Return whether a call returns an async generator, also through `partial` and so on."""
    return _is_any(function, inspect.isasyncgenfunction)


def _is_any(function: Any, test: Callable[[Any], bool]) -> bool:
    while True:
        while isinstance(function, functools.partial):
            function = function.func
        if test(function) or test(getattr(type(function), "__call__", None)):  # noqa: B004
            return True
        function = getattr(function, "__wrapped__", None)
        if function is None:
            return False


def _is_of_python(function: Any) -> bool:
    """Return whether this is a coroutine function that the interpreter runs, and not compiled."""
    function = getattr(function, "__func__", function)
    return inspect.isfunction(function) and inspect.iscoroutinefunction(function)


def _awaiting(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Make a coroutine function of Python's, as the core runs no coroutines of Cython or mypyc."""

    @functools.wraps(handler)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await handler(*args, **kwargs)

    return call


def _generator_call(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Turn an async generator function into a coroutine function, which the core expects."""

    @functools.wraps(handler)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return handler(*args, **kwargs)

    return call


def _signatures(handler: Callable[..., Any], pattern: str) -> tuple[Parameters, Parameters]:
    """Return the handler's own parameters, and those whose names are matched.

    The two differ for a wrapper with `*args` or `**kwargs` that uses `functools.wraps`.
    """
    try:
        own = list(inspect.signature(handler, follow_wrapped=False).parameters.values())
        if any(parameter.kind in _OPEN for parameter in own):
            return own, list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):
        what = "has no readable signature" if callable(handler) else "is not callable"
        raise SignatureError(f"the handler {handler!r} of {pattern} {what}") from None
    return own, own


def _check_first(
    handler: Callable[..., Any], pattern: str, names: list[str], parameters: Parameters
) -> None:
    first = parameters[0] if parameters else None
    if first is None or first.kind not in (*_POSITIONAL, inspect.Parameter.VAR_POSITIONAL):
        raise SignatureError(
            f"the handler {describe(handler)} of {pattern} does not take the request: "
            "make it the first parameter"
        )
    if first.name in names:
        raise SignatureError(
            f"the handler {describe(handler)} of {pattern} has {first.name!r} as its first "
            "parameter, which is the request: add a parameter `request` before it"
        )


def _distribute(
    handler: Callable[..., Any], pattern: str, names: list[str], parameters: Parameters
) -> tuple[list[str], list[str]]:
    """Sort the pattern's names into those passed by position and those passed by keyword."""
    positional: list[str] = []
    keyword: list[str] = []
    has_gap = False
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            has_gap = True
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            keyword += [name for name in names if name not in positional + keyword]
        elif parameter.name not in names:
            if parameter.default is inspect.Parameter.empty:
                raise SignatureError(
                    f"the handler {describe(handler)} takes {parameter.name!r}, which the "
                    f"pattern {pattern} does not have"
                )
            has_gap = True
        elif parameter.kind in _POSITIONAL and not has_gap:
            positional.append(parameter.name)
        elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise SignatureError(
                f"the handler {describe(handler)} of {pattern} takes {parameter.name!r} by "
                "position after one that the pattern does not have"
            )
        else:
            keyword.append(parameter.name)
    return positional, keyword
