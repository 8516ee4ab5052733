"""Options that are one setting together: the first place that sets any of them determines all.

The places are a flag or keyword, the variables, and the file, in this order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bolide.config import tls
from bolide.config.option import Number
from bolide.errors import ConfigError

PORT = Number(0, 65535, "0 = any free port")


def addresses(layers: list[Any]) -> dict[str, Any]:
    """Take all addresses from the first layer that sets any; drop those of the other layers."""
    ways = ("host", "port"), ("uds",), ("bind",)
    for _, given in layers:
        said = [way for way in ways if any(given.get(name) not in (None, "", ()) for name in way)]
        if len(said) > 1:
            names = " and ".join("/".join(way) for way in said)
            raise ConfigError(f"{names} both set where to listen; give only one of them")
        if said:
            defaults: dict[str, Any] = {"uds": "", "bind": ()}
            return {name: value for name, value in defaults.items() if (name,) not in said}
    return {}


def port_of_platform(layers: list[Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Take the port from the variable PORT, which platforms set, if no option sets an address.

    A host alone keeps its place, and gets that port.
    """
    given = {name for _, layer in layers for name in layer if layer[name] not in (None, "", ())}
    if not (text := environ.get("PORT")) or given & {"port", "uds", "bind"}:
        return {}
    try:
        port = PORT.parse(text)
    except ValueError as error:
        raise ConfigError(f"the variable PORT: {text!r} {error}") from None
    return {"port": port} if "host" in given else {"port": port, "host": "0.0.0.0"}  # noqa: S104


def pairs(layers: list[Any]) -> dict[str, Any]:
    """Take all certificates and keys from the first layer that sets any."""
    for _, given in layers:
        if any(given.get(name) for name in tls.PAIR_OPTIONS):
            return {name: () for name in tls.PAIR_OPTIONS if not given.get(name)}
    return {}
