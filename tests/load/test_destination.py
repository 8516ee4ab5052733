"""URLs, weights, and the address that responds."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.errors import ConfigError, Error
from bolide.load import destination


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_one_url(port: int) -> None:
    found = destination.find((f"http://127.0.0.1:{port}/a b?c=\u00e9#there",))
    assert found.address == found.host == f"127.0.0.1:{port}"
    assert (found.name, found.port) == ("127.0.0.1", port)
    assert found.targets == (("/a%20b?c=%C3%A9", 1),)


def test_a_name_is_resolved_and_stays_in_host(port: int) -> None:
    found = destination.find((f"http://localhost:{port}",))
    assert found.address == f"127.0.0.1:{port}"
    assert found.host == f"localhost:{port}"
    assert found.targets == (("/", 1),)


def test_weights_of_several_urls(port: int) -> None:
    urls = (
        f"http://127.0.0.1:{port}/a*3",
        f"http://127.0.0.1:{port}/b",
        f"http://127.0.0.1:{port}*2",
    )
    found = destination.find(urls)
    assert found.targets == (("/a", 3), ("/b", 1), ("/", 2))
    assert found.url == f"http://127.0.0.1:{port}/a"


def test_a_proxy_is_connected_to_and_sent_the_whole_url(port: int) -> None:
    found = destination.find(("http://192.0.2.1/x",), proxy=f"127.0.0.1:{port}")
    assert found.address == f"127.0.0.1:{port}"
    assert found.host == "192.0.2.1"
    assert found.targets == (("http://192.0.2.1:80/x", 1),)


@pytest.mark.parametrize("proxy", ["h", "h:", ":1", "h:0", "h:65536", "h:\u00b2"])
def test_what_is_no_proxy(proxy: str) -> None:
    with pytest.raises(ConfigError, match="is not a proxy; give HOST:PORT"):
        destination.find(("http://h/",), proxy=proxy)


def test_bytes_that_are_no_text_are_percent_encoded(port: int) -> None:
    found = destination.find((f"http://127.0.0.1:{port}/\udcff",))
    assert found.targets == (("/%FF", 1),)


def test_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        found = destination.find((f"unix:{path}",), target="/x y")
    assert (found.address, found.host, found.port) == (f"unix:{path}", "localhost", 0)
    assert found.targets == (("/x%20y", 1),)


MISTAKES = [
    (
        (),
        "no URL to load; give http://HOST:PORT/PATH, https://..., ws://..., wss://... or unix:PATH",
    ),
    (("ftp://h/",), "'ftp://h/' is not a URL to load; give http"),
    (("http://",), "'http://' is not a URL to load"),
    (("http://h:0/",), "'http://h:0/' is not a URL to load"),
    (("http://h:99999/",), "'http://h:99999/' is not a URL to load"),
    (("http://[::1/",), "'http://[::1/' is not a URL to load"),
    (("http://a/", "https://a/"), "'https://a/' names another server than 'http://a/'"),
    (("http://u:p@h/",), "'http://u:p@h/' contains a user; give -H 'Authorization"),
    (("http://h/*0",), "'http://h/*0' has weight 0"),
    (("http://a/", "http://b/"), "'http://b/' names another server than 'http://a/'"),
    (("http://a/", "http://a:81/"), "'http://a:81/' names another server"),
    (("http://h/\n",), "'http://h/\\n' contains a control character; percent-encode it"),
    (("unix:",), "'unix:' names no path; give unix:PATH"),
    (("unix:/x", "unix:/x"), "'unix:/x' must be the only URL"),
    (("http://a..b/",), "http://a..b/: no address for 'a..b': it is not a host name"),
    (("http://no.such.name.invalid/",), "http://no.such.name.invalid/: no address for 'no.such"),
]


@pytest.mark.parametrize(("urls", "says"), MISTAKES, ids=[says for _, says in MISTAKES])
def test_mistake_is_one_sentence(urls: tuple[str, ...], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        destination.find(urls)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_target_is_for_unix_sockets() -> None:
    with pytest.raises(ConfigError, match="--target is for unix:PATH"):
        destination.find(("http://h/",), target="/x")
    with pytest.raises(ConfigError, match="'x' does not start with a slash"):
        destination.find(("unix:/x",), target="x")


def test_a_server_that_does_not_respond_is_no_mistake_of_the_user(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for url in (f"http://127.0.0.1:{port}/", f"unix:{tmp_path}/none"):
        with pytest.raises(Error, match="cannot connect: ") as caught:
            destination.find((url,))
        assert not isinstance(caught.value, ConfigError)
