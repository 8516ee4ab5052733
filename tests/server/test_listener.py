"""When an address is taken, and from when on clients can connect to it."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.config.address import Address
from bolide.errors import ConfigError
from bolide.server import listener
from support.client import Connection
from support.server import Start

pytestmark = pytest.mark.slow

APP = "starting/gated.py"
GATES = ("import", "startup")


@pytest.fixture
def port() -> int:
    """Find a port that is free, at least now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        number: int = found.getsockname()[1]
        return number


class Gate:
    """What the application waits at: a named pipe that lets one worker pass for each byte."""

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / name
        os.mkfifo(path)
        self.env = {f"GATE_{name.upper()}": str(path)}
        self._fd = os.open(path, os.O_RDWR)

    def open(self, workers: int = 1) -> None:
        """Let so many workers pass."""
        os.write(self._fd, b"." * workers)

    def close(self) -> None:
        """Forget it."""
        os.close(self._fd)


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[dict[str, Gate]]:
    """Make the gates, by name."""
    made = {name: Gate(tmp_path, name) for name in GATES}
    yield made
    for each in made.values():
        each.close()


def is_refused(address: tuple[str, int] | str) -> bool:
    """Return whether nobody listens there."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as client:
        try:
            client.connect(address)
        except ConnectionRefusedError:
            return True
    return False


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", GATES)
def test_clients_are_refused_until_the_application_is_ready(
    start: Start, port: int, gates: dict[str, Gate], name: str, workers: int
) -> None:
    options = ("--port", str(port), "--workers", str(workers))
    server = start(APP, *options, env=gates[name].env, ready=False)
    for _ in range(workers):
        server.wait_line(f"at the gate of {name}")
    assert is_refused(("127.0.0.1", port))
    gates[name].open(workers)
    server.wait_ready()
    with server.connect() as client:
        assert client.get("/").content == b"hello"


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_an_address_is_taken_before_the_application_is_ready(
    start: Start, port: int, gates: dict[str, Gate], tmp_path: Path, kind: str
) -> None:
    socket_path = str(tmp_path / "socket")
    where = ("--port", str(port)) if kind == "tcp" else ("--uds", socket_path)
    first = start(APP, *where, env=gates["import"].env, ready=False)
    first.wait_line("at the gate of import")
    if kind == "unix":
        assert is_refused(socket_path)
    second = start(APP, *where, ready=False)
    assert second.wait() == 2
    assert "at the gate" not in second.errors
    what = "the address is in use" if kind == "tcp" else "another process serves there"
    assert what in second.errors
    gates["import"].open()
    first.wait_ready()
    with first.connect() as client:
        assert client.get("/").content == b"hello"


def test_clients_wait_while_the_only_worker_is_replaced(
    start: Start, gates: dict[str, Gate]
) -> None:
    gate = gates["startup"]
    server = start(APP, env=gate.env, ready=False)
    server.wait_line("at the gate of startup")
    gate.open()
    server.wait_ready()
    os.kill(server.workers()[0], signal.SIGKILL)
    server.wait_line("at the gate of startup")
    with server.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        gate.open()
        assert client.read().content == b"hello"


def test_a_server_follows_another_whose_connections_remain(start: Start, port: int) -> None:
    server = start(APP, "--port", str(port))
    with server.connect() as client:
        assert client.get("/").status == 200
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        with start(APP, "--port", str(port)).connect() as second:
            assert second.get("/").content == b"hello"


def test_an_address_that_somebody_takes_by_force_is_named(port: int) -> None:
    [taken] = listener.open_all([Address("127.0.0.1", port)])
    try:
        taken.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", port))
            other.listen()
            with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: the address is in use"):
                taken.listen(1)
    finally:
        taken.close()


def test_the_socket_file_of_a_server_that_has_ended_is_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    opened = listener.open_all([Address(path=path)])
    opened[0].listen(1)
    with Connection(path) as client, pytest.raises(ConfigError, match="another process serves"):
        assert client.socket.getpeername() == path
        listener.open_all([Address(path=path)])
    listener.close_all(opened)
    assert not os.path.exists(path)


def test_a_socket_of_the_same_name_in_another_folder_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file was replaced, or it was named from another folder: it listens, and not here."""
    names = ["app.sock", str(tmp_path / "app.sock")]
    for name in names:
        monkeypatch.chdir(tmp_path)
        with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as left:
            other.bind(name)
            other.listen(1)
            os.rename("app.sock", "moved")
            left.bind(name)
            left.close()
            opened = listener.open_all([Address(path=name)])
            listener.close_all(opened)
            os.unlink("moved")


def test_a_name_in_a_folder_is_taken_before_it_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = listener.open_all([Address(path="app.sock")])
    with pytest.raises(ConfigError, match="another process serves there"):
        listener.open_all([Address(path=str(tmp_path / "app.sock"))])
    with pytest.raises(ConfigError, match="another process serves there"):
        listener.open_all([Address(path="app.sock")])
    listener.close_all(first)
    with socket.socket(socket.AF_UNIX) as elsewhere:
        elsewhere.bind("app.sock")  # a name that does not say of which folder
        listener.close_all(listener.open_all([Address(path="app.sock")]))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("none/socket", "the folder {}/none does not exist; create it"),
        ("x" * 150, "the path is too long; a UNIX socket's has 107 bytes at most"),
    ],
)
def test_a_path_where_no_socket_can_be(
    path: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        listener.open_all([Address(path=path)])
    assert str(caught.value) == f"cannot listen on unix:{path}: {why.format(tmp_path)}"


def test_a_connected_socket_that_is_passed_is_named() -> None:
    mine, passed = socket.socketpair()
    with mine, passed:
        error = f"cannot listen on fd:{passed.fileno()}: it is a connected socket, not one that"
        with pytest.raises(ConfigError, match=error):
            listener.open_all([Address(fd=passed.fileno())])


def test_a_link_to_nothing_is_not_a_path_in_use(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("missing")
    with pytest.raises(ConfigError, match="it is a link to missing, which does not exist; remove"):
        listener.open_all([Address(path=str(tmp_path / "link"))])
    assert not (tmp_path / "missing").exists()


def test_a_relative_path_needs_a_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match=r"^cannot listen on unix:s: the current folder was remo"):
        listener.open_all([Address(path="s")])
    assert listener.is_same_file("s", "s") and not listener.is_same_file("s", "t")
    monkeypatch.chdir(tmp_path)
