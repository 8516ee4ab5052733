"""Where a server listens: a host and port, the path of a UNIX socket, or a socket it was passed."""

from __future__ import annotations

from dataclasses import dataclass, field

FORMS = "HOST:PORT, [IPV6]:PORT, unix:PATH or fd:N"


@dataclass(frozen=True, slots=True)
class Address:
    """One address to listen on: `host` and `port`, the `path` of a UNIX socket, or a descriptor."""

    host: str = ""
    port: int = 0
    path: str = ""
    fd: int | None = None
    """The descriptor of a socket that is bound already, and was passed to this process."""
    scheme: str = field(default="http", compare=False)
    """Of the URLs of what is served there."""

    def __str__(self) -> str:
        """Return the address in the form that `parse` reads."""
        if self.fd is not None:
            return f"fd:{self.fd}"
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The address in the form that browsers and clients accept."""
        return str(self) if self.path else f"{self.scheme}://{self}"


def parse(text: str) -> Address:
    """Parse one address.

    Raises:
        ValueError: the text is not an address; the message continues a sentence that starts with
            the text.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path:
            raise ValueError("names no path; give unix:PATH")
        check_path(path)
        return Address(path=path)
    if text.startswith("fd:"):
        number = text.removeprefix("fd:").removeprefix("//")
        if not (number.isascii() and number.isdigit() and len(number) <= 6):
            raise ValueError("names no descriptor; give fd:N, such as fd:3")
        return Address(fd=int(number))
    return _of_tcp(text)


def check_path(path: str) -> None:
    """Check the path of a UNIX socket.

    Raises:
        ValueError: no file can have it; the message continues a sentence that starts with it.
    """
    if "\0" in path:
        raise ValueError("contains a NUL character; give a path without one")
    if path.endswith("/"):
        raise ValueError("ends in a slash, as a folder does; give the path of a file")


def _of_tcp(text: str) -> Address:
    if "://" in text:
        raise ValueError("is a URL; give HOST:PORT")
    host, colon, port = text.rpartition(":")
    if not colon:
        raise ValueError(f"is not an address; give {FORMS}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("needs brackets around the IPv6 address; give [IPV6]:PORT")
    if not host:
        raise ValueError(f"names no host; give {FORMS} (0.0.0.0 for every IPv4 address)")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
        raise ValueError("has no port from 0 to 65535 after its last colon (0 = any free port)")
    return Address(host, int(port))
