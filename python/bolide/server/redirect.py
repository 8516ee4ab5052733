"""Responds to requests without TLS with 308 and the https URL (RFC 9110 section 15.4.9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bolide.interface.asgi import AsgiApplication
from bolide.server import memory
from bolide.server.capacity import REDIRECTED_MAX
from bolide.server.service import Service

if TYPE_CHECKING:
    from bolide.config.settings import Settings
    from bolide.server.listener import Listener

HTTPS_PORT = 443


class Redirect:
    """An ASGI application that sends every request to the same host with TLS, at one port.

    Such a request has exactly one valid Host field, which the server checks, except that one of
    HTTP/1.0 may have none: it gets 400.
    """

    def __init__(self, port: int) -> None:
        self._port = b"" if port == HTTPS_PORT else b":%d" % port

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[dict[str, Any]], Any],
    ) -> None:
        """Respond to one request without reading its content."""
        if scope["type"] != "http":
            raise RuntimeError("there is nothing to start")
        status, headers, content = self._response(scope)
        headers += [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _response(
        self, scope: MutableMapping[str, Any]
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        path = scope["raw_path"]
        if not host or not path.startswith(b"/"):
            return 400, [], b"This server requires https.\n"
        query = scope["query_string"]
        target = path + b"?" + query if query else path
        location = b"https://" + without_port(host) + self._port + target
        return 308, [(b"location", location)], b"This server requires https.\n"


def without_port(host: bytes) -> bytes:
    """Return the host of a valid Host field; an IPv6 address is in brackets."""
    if host.startswith(b"["):
        return host[: host.index(b"]") + 1]
    return host.partition(b":")[0]


def _reduced(settings: Settings) -> Settings:
    """Return the options of a server that only redirects: its part of what a worker may hold."""
    core = {**settings.core, "connections_max": REDIRECTED_MAX}
    held_max = memory.redirected_max(settings)
    return replace(settings, core=core, memory_max=held_max, redirect_to_https=(), https_port=0)


class Redirection:
    """What serves the redirects of one worker, beside the application; nothing without listeners.

    It is a server of its own in the same loop, so it costs the application's requests nothing.
    """

    def __init__(
        self, listeners: Sequence[Listener], served: Sequence[Listener], settings: Settings
    ) -> None:
        self._listeners = listeners
        self._service: Service | None = None
        if listeners:
            ports = [each.address.port for each in served if not each.address.path]
            port = settings.https_port or (ports[0] if ports else HTTPS_PORT)
            app = AsgiApplication(Redirect(port))
            self._service = Service(app, _reduced(settings), None, redirects_to_https=True)

    async def listen(
        self,
        served: Service,
        listeners: Sequence[Listener],
        is_ending: Callable[[], bool] = lambda: False,
    ) -> None:
        """Accept connections here, and then for the application, unless the end has begun.

        Raises:
            ConfigError: another process listens at an address now; what was started is shut down.
        """
        try:
            if self._service is not None:
                await self._service.startup(own_selector=False)
                if not is_ending():
                    await self._service.listen(self._listeners)
        except BaseException:
            await served.stop(0.0)
            raise
        try:
            if not is_ending():
                await served.listen(listeners)
        except BaseException:
            await self.stop(0.0)
            raise

    async def stop(self, within_s: float) -> None:
        """Stop accepting, and close what is open after `within_s` seconds."""
        if self._service is not None:
            await self._service.stop(within_s)
