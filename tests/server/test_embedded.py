"""`bolide.Server`: a server inside a running loop that says where it is and when it is ready."""

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

import bolide
from bolide.config.address import Address
from bolide.errors import ConfigError, StartupError
from bolide.server import listener

pytestmark = pytest.mark.slow

BOUND_S = 20


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Find no configuration."""
    monkeypatch.chdir(tmp_path)


class Shop:
    """An application that notes what happens to it, and holds what tests wait for."""

    def __init__(self) -> None:
        self.app = bolide.App()
        self.calls: list[str] = []
        self.arrived = asyncio.Event()
        self.may_start = asyncio.Event()
        self.may_start.set()
        self.may_end = asyncio.Event()
        self.app.on_startup(self._startup)
        self.app.on_shutdown(lambda: self.calls.append("shutdown"))
        self.app.get("/")(lambda request: "hello")
        self.app.get("/held")(self._held)

    async def _startup(self) -> None:
        self.calls.append("startup")
        await self.may_start.wait()

    async def _held(self, request: bolide.Request) -> str:
        self.arrived.set()
        await self.may_end.wait()
        return "done"


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(BOUND_S):
            await main

    asyncio.run(bounded())


async def ask(address: Address, path: str = "/") -> bytes:
    """Send a request on a connection of its own; return the whole response."""
    if address.path:
        reader, writer = await asyncio.open_unix_connection(address.path)
    else:
        reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


async def is_refused(address: Address) -> bool:
    try:
        await ask(address)
    except ConnectionRefusedError:
        return True
    return False


def test_a_context_serves_and_says_where() -> None:
    async def main() -> None:
        shop = Shop()
        async with bolide.Server(shop.app, port=0) as server:
            [address] = server.addresses
            assert address.host == "127.0.0.1" and address.port > 0
            assert address.url == f"http://127.0.0.1:{address.port}"
            assert (await ask(address)).endswith(b"hello")
            assert shop.calls == ["startup"]
        assert shop.calls == ["startup", "shutdown"]
        assert server.addresses == (address,)
        assert await is_refused(address)

    run(main())


def test_every_address_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bolide")

    async def main() -> None:
        binds = ["127.0.0.1:0", f"unix:{tmp_path}/socket"]
        async with bolide.Server(Shop().app, bind=binds) as server:
            assert [each.path for each in server.addresses] == ["", f"{tmp_path}/socket"]
            assert [(await ask(each))[-5:] for each in server.addresses] == [b"hello"] * 2
            mode = f"{(tmp_path / 'socket').stat().st_mode & 0o7777:04o}"
            assert caplog.messages[-1].endswith(f", unix:{tmp_path}/socket (socket mode {mode})")

    run(main())


def test_a_target_is_served(tmp_path: Path) -> None:
    (tmp_path / "target.py").write_text("import bolide\napp = bolide.App()\n")

    async def main() -> None:
        async with bolide.Server("target.py:app", port=0) as server:
            assert (await ask(server.addresses[0])).startswith(b"HTTP/1.1 404 ")

    run(main())


def test_two_servers_share_a_loop() -> None:
    async def main() -> None:
        first, second = bolide.Server(Shop().app, port=0), bolide.Server(Shop().app, port=0)
        async with first, second:
            ports = {each.addresses[0].port for each in (first, second)}
            assert len(ports) == 2
            assert (await ask(second.addresses[0])).endswith(b"hello")
        assert await is_refused(first.addresses[0])

    run(main())


def test_serve_as_a_task_says_when_it_is_ready() -> None:
    async def main() -> None:
        shop = Shop()
        shop.may_start.clear()
        server = bolide.Server(shop.app, port=0)
        task = asyncio.create_task(server.serve())
        ready = asyncio.create_task(server.wait_ready())
        while not shop.calls:
            await asyncio.sleep(0)
        assert not ready.done()
        with pytest.raises(RuntimeError, match=r"no addresses yet: await start\(\) or wait_ready"):
            _ = server.addresses
        shop.may_start.set()
        await ready
        assert (await ask(server.addresses[0])).endswith(b"hello")
        server.stop()
        server.stop()
        await server.wait_closed()
        await task
        assert shop.calls == ["startup", "shutdown"]

    run(main())


def test_stop_lets_requests_in_flight_finish() -> None:
    async def main() -> None:
        shop = Shop()
        server = bolide.Server(shop.app, port=0)
        await server.start()
        response = asyncio.create_task(ask(server.addresses[0], "/held"))
        await shop.arrived.wait()
        server.stop()
        while not await is_refused(server.addresses[0]):
            pass
        assert not response.done()
        shop.may_end.set()
        assert (await response).endswith(b"done")
        await server.wait_closed()
        assert shop.calls == ["startup", "shutdown"]

    run(main())


@pytest.mark.parametrize("how", ["context", "serve"])
def test_a_second_cancellation_closes_what_has_not_finished(how: str) -> None:
    async def in_context(server: bolide.Server) -> None:
        async with server:
            await asyncio.Event().wait()

    async def main() -> None:
        shop = Shop()
        server = bolide.Server(shop.app, port=0)
        task = asyncio.create_task(in_context(server) if how == "context" else server.serve())
        await server.wait_ready()
        response = asyncio.create_task(ask(server.addresses[0], "/held"))
        await shop.arrived.wait()
        task.cancel()
        while not await is_refused(server.addresses[0]):
            pass
        assert not task.done() and not response.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        [result] = await asyncio.gather(response, return_exceptions=True)
        assert isinstance(result, bytes) and result.startswith(b"HTTP/1.1 503 ")
        assert shop.calls == ["startup", "shutdown"]

    run(main())


def test_stop_may_come_from_another_thread() -> None:
    async def main() -> None:
        server = bolide.Server(Shop().app, port=0)
        await server.start()
        threading.Thread(target=server.stop).start()
        await server.wait_closed()

    run(main())


def test_a_server_that_is_stopped_before_it_starts_says_so() -> None:
    async def main() -> None:
        shop = Shop()
        server = bolide.Server(shop.app, port=0)
        task = asyncio.create_task(server.start())
        server.stop()
        with pytest.raises(StartupError, match="was stopped before it was ready"):
            await task
        await server.wait_closed()
        assert shop.calls == []

    run(main())


@pytest.mark.parametrize("how", ["stop", "cancel"])
def test_a_stop_during_the_startup_waits_for_it_and_shuts_down(how: str) -> None:
    async def main() -> None:
        shop = Shop()
        shop.may_start.clear()
        server = bolide.Server(shop.app, port=0)
        task = asyncio.create_task(server.serve())
        ready = asyncio.create_task(server.wait_ready())
        while not shop.calls:
            await asyncio.sleep(0)
        server.stop() if how == "stop" else task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done() and not ready.done()
        shop.may_start.set()
        with pytest.raises(StartupError, match="was stopped before it was ready"):
            await ready
        await server.wait_closed()
        assert shop.calls == ["startup", "shutdown"]
        [result] = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(result, asyncio.CancelledError) == (how == "cancel")
        with pytest.raises(RuntimeError, match="no addresses yet"):
            _ = server.addresses

    run(main())


def test_a_startup_that_does_not_end_in_time_after_a_stop_is_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        shop = Shop()
        shop.may_start.clear()
        server = bolide.Server(shop.app, port=0, graceful_timeout_ms=50)
        task = asyncio.create_task(server.start())
        while not shop.calls:
            await asyncio.sleep(0)
        server.stop()
        with pytest.raises(StartupError, match="was stopped before it was ready"):
            await task
        assert "the application's startup did not end in time: it was cancelled" in caplog.text
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


def test_a_startup_of_asgi_that_is_cancelled_ends_before_the_server() -> None:
    calls: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        calls.append((await receive())["type"])
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            calls.append("cleaned up")

    async def main() -> None:
        server = bolide.Server(app, port=0, graceful_timeout_ms=50)
        task = asyncio.create_task(server.serve())
        while not calls:
            await asyncio.sleep(0)
        server.stop()
        await task
        assert calls == ["lifespan.startup", "cleaned up"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    async def main() -> None:
        shop = Shop()
        shop.may_start.clear()
        server = bolide.Server(shop.app, port=0)
        task = asyncio.create_task(server.start())
        while not shop.calls:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


def fail() -> None:
    raise LookupError("no database")


@pytest.mark.parametrize("how", ["start", "serve", "wait_ready", "context"])
def test_a_start_that_fails_says_why_to_every_caller(how: str) -> None:
    async def main() -> None:
        app = bolide.App()
        app.on_startup(fail)
        server = bolide.Server(app, port=0)
        with pytest.raises(StartupError, match="startup failed: LookupError: no database"):
            match how:
                case "context":
                    async with server:
                        pytest.fail("it is not ready")
                case "wait_ready":
                    task = asyncio.create_task(server.serve())
                    try:
                        await server.wait_ready()
                    finally:
                        assert isinstance(
                            (await asyncio.gather(task, return_exceptions=True))[0], StartupError
                        )
                case _:
                    await getattr(server, how)()

    run(main())


def test_a_taken_port_is_named() -> None:
    async def main() -> None:
        async with bolide.Server(Shop().app, port=0) as first:
            port, shop = first.addresses[0].port, Shop()
            with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: the address is in use"):
                await bolide.Server(shop.app, port=port).start()
            assert shop.calls == []

    run(main())


def test_a_port_that_is_lost_meanwhile_is_named_and_what_was_started_shut_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def listen(self: listener.Listener, backlog: int) -> None:
        raise ConfigError("somebody else listens")

    monkeypatch.setattr(listener.Listener, "listen", listen)

    async def main() -> None:
        shop = Shop()
        with pytest.raises(ConfigError, match="somebody else listens"):
            await bolide.Server(shop.app, port=0).start()
        assert shop.calls == ["startup", "shutdown"]

    run(main())


@pytest.mark.parametrize("lost", ["application", "redirect"])
def test_a_start_that_fails_closes_the_redirect_and_shuts_the_application_down(
    monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    listen, listening = listener.Listener.listen, []

    def listen_or_fail(self: listener.Listener, backlog: int) -> None:
        if (self.address.scheme == "https") == (lost == "application"):
            raise ConfigError("somebody else listens")
        listen(self, backlog)
        listening.append(self.address)

    monkeypatch.setattr(listener.Listener, "listen", listen_or_fail)

    async def main() -> None:
        shop = Shop()
        server = bolide.Server(
            shop.app, port=0, certificate="self-signed", redirect_to_https="127.0.0.1:0"
        )
        with pytest.raises(ConfigError, match="somebody else listens"):
            await server.start()
        assert shop.calls == ["startup", "shutdown"]
        assert len(listening) == (lost == "application")
        assert [await is_refused(each) for each in listening] == [True] * len(listening)

    run(main())


def test_mistakes_are_said_at_once() -> None:
    with pytest.raises(ConfigError, match="workers= is for bolide.run"):
        bolide.Server(Shop().app, workers=2)
    with pytest.raises(ConfigError, match="prot"):
        bolide.Server(Shop().app, prot=0)
    with pytest.raises(RuntimeError, match=r"the server was not started: await start\(\)"):
        run(bolide.Server(Shop().app, port=0).wait_closed())


def test_a_server_serves_once() -> None:
    async def main() -> None:
        server = bolide.Server(Shop().app, port=0)
        async with server:
            pass
        with pytest.raises(RuntimeError, match="was started before: create another one"):
            await server.start()

    run(main())


def test_lifespan_and_requests_of_an_asgi_application() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for what in ("startup", "shutdown"):
                seen.append((await receive())["type"])
                await send({"type": f"lifespan.{what}.complete"})
            return
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"asgi"})

    async def main() -> None:
        async with bolide.Server(app, port=0) as server:
            assert (await ask(server.addresses[0])).endswith(b"asgi")
        assert seen == ["lifespan.startup", "lifespan.shutdown"]

    run(main())


def test_an_error_in_the_context_stops_it_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bolide")

    async def main() -> None:
        shop = Shop()
        with pytest.raises(ZeroDivisionError):
            async with bolide.Server(shop.app, port=0) as server:
                raise ZeroDivisionError
        assert shop.calls == ["startup", "shutdown"]
        assert f"serving the application on {server.addresses[0].url}" in caplog.text

    run(main())


def escaping(shop: Shop, action: Any) -> None:
    """Serve something that ends programs."""

    async def later(request: bolide.Request) -> str:
        await asyncio.sleep(0)
        return str(action())

    shop.app.get("/now")(lambda request: str(action()))
    shop.app.get("/later")(later)


def interrupt() -> None:
    raise KeyboardInterrupt


def test_an_interrupt_that_no_signal_has_raised_fails_its_request_only() -> None:
    async def main() -> None:
        shop = Shop()
        escaping(shop, interrupt)
        async with bolide.Server(shop.app, port=0) as server:
            [address] = server.addresses
            held = asyncio.create_task(ask(address, "/held"))
            await shop.arrived.wait()
            for path in ("/now", "/later"):
                assert (await ask(address, path)).startswith(b"HTTP/1.1 500 ")
            shop.may_end.set()
            assert (await held).endswith(b"done")

    run(main())


@pytest.mark.parametrize("path", ["/now", "/later"])
def test_a_signal_lets_the_request_finish_in_which_it_came(path: str) -> None:
    responses: list[bytes] = []

    async def main() -> None:
        shop = Shop()
        escaping(shop, lambda: signal.raise_signal(signal.SIGINT))
        server = bolide.Server(shop.app, port=0)
        serving = asyncio.create_task(server.serve())
        await server.wait_ready()
        held = asyncio.create_task(ask(server.addresses[0], "/held"))
        await shop.arrived.wait()
        response = asyncio.create_task(ask(server.addresses[0], path))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            server.stop()
            responses.append(await response)
            shop.may_end.set()
            responses.append(await held)
            await serving
            raise

    with pytest.raises(KeyboardInterrupt):
        run(main())
    assert [each[-4:] for each in responses] == [b"None", b"done"]


@pytest.mark.parametrize("path", ["/now", "/later"])
def test_a_signal_that_only_raises_ends_the_loop(path: str) -> None:
    """Without `asyncio.run`, the interpreter's own handler is all there is."""

    async def main() -> None:
        shop = Shop()
        escaping(shop, lambda: signal.raise_signal(signal.SIGINT))
        async with bolide.Server(shop.app, port=0) as server:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with contextlib.suppress(ConnectionError):
                await ask(server.addresses[0], path)
            pytest.fail("it goes on")

    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(main())
    finally:
        signal.signal(signal.SIGINT, before)


def test_debug_is_refused_where_others_may_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable or a file can set it, although it is no option of this server."""
    monkeypatch.setenv("BOLIDE_DEBUG", "1")

    async def main() -> None:
        with pytest.raises(ConfigError, match="only for addresses of loopback, not for 0"):
            await bolide.Server(Shop().app, host="0.0.0.0", port=0).start()  # noqa: S104

    run(main())
