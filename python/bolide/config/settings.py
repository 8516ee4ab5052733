"""The option table: every option of the server, declared here and nowhere else.

The command's flags, the `BOLIDE_*` variables, the configuration file, the keywords of `bolide.run`
and docs/settings.md derive from it. The limits and timeouts are rows too, but their names, defaults
and reasons come from the Rust core (`_core.settings()`), which enforces them.

Precedence: flag or keyword, variable, file, default. `configfile.py` finds and reads the file,
`option.py` parses values.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal

from bolide import _core
from bolide.config import admission, configfile, development, logs, places, proxies, tls
from bolide.config.address import Address
from bolide.config.mistakes import refuse_mistyped, remedy
from bolide.config.option import (
    Account,
    Addresses,
    Choice,
    Choices,
    Count,
    Directory,
    FileMode,
    Host,
    Number,
    OneAddress,
    Ordered,
    Origins,
    PathPrefix,
    Paths,
    Processors,
    Size,
    SizeOrAuto,
    SocketPath,
    Switch,
    Text,
    ZeroOr,
)
from bolide.config.row import (
    APPLICATION,
    CORE_NUMBER_MAX,
    GROUPS,
    LISTENING,
    PREFIX,
    PROCESSES,
    PROXIES,
    RESPONDING,
    TLS,
    WEBSOCKET,
    Option,
    core_option,
    row,
)
from bolide.errors import ConfigError

MEMORY_MIN = 8 * 2**20
"""Bytes. Less would not hold one long content, and what every connection needs."""
WAIT_MS_MAX = 10**9
"""Eleven days: epoll_wait(2), in which the supervisor waits, takes at most 24."""
Channel = Literal["flag", "keyword"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(admission.RequestOptions, logs.LoggingOptions, development.DevelopmentOptions):
    """The validated value of every option."""

    interface: str = row(
        "auto",
        Choice(("auto", "native", "asgi", "wsgi")),
        APPLICATION,
        "Interface of the application; auto detects it from the parameters of its callable.",
    )
    factory: bool = row(
        False,
        Switch(),
        APPLICATION,
        "Treat the target as a factory: call it without arguments to get the application. The "
        "default attribute is then `create_app`.",
    )
    root_path: str = row(
        "",
        PathPrefix(),
        APPLICATION,
        "URL prefix under which a proxy serves the application, stripped by the proxy or not: "
        "root_path of ASGI, SCRIPT_NAME of WSGI.",
    )
    lifespan: str = row(
        "auto",
        Choice(("auto", "on", "off")),
        APPLICATION,
        "Lifespan of ASGI applications. auto serves one that raises, or returns, without saying "
        "that its startup failed; on ends the start then; off does not call it for a lifespan.",
    )
    asgi_extensions: tuple[str, ...] = row(
        (),
        Choices(("pathsend", "zerocopysend")),
        APPLICATION,
        "Extensions with which ASGI applications may let the kernel send files; separated by "
        "commas. Enable them only if no middleware reads, changes or counts the content of "
        "responses, because it does not see files sent this way.",
    )
    host: str = row(
        "127.0.0.1",
        Host(),
        LISTENING,
        "Address or name to listen on: 0.0.0.0 for every IPv4 address, :: for every IPv6 one.",
    )
    port: int = row(
        8000,
        places.PORT,
        LISTENING,
        "Port to listen on; 0 = any free. If no place sets an address, the variable PORT sets it, "
        "and the host is then 0.0.0.0, as platforms expect that set this variable.",
    )
    uds: str = row(
        "",
        SocketPath(),
        LISTENING,
        "UNIX socket to listen on instead of host and port. Its mode follows the umask; uvicorn "
        "makes it 0666. nginx runs as another user and cannot connect to 0755: set `uds_mode`, and "
        "`uds_group` to nginx's group.",
    )
    uds_mode: str = row(
        "",
        FileMode(),
        LISTENING,
        "Mode of the files of UNIX sockets, in octal: 660 lets their owner and group connect, 666 "
        'every user. Without it, it follows the umask. A file needs quotes: uds_mode = "660".',
    )
    uds_owner: str = row(
        "",
        Account("USER"),
        LISTENING,
        "Owner of the files of UNIX sockets, a name or number. Only root may set another user.",
    )
    uds_group: str = row(
        "",
        Account("GROUP"),
        LISTENING,
        "Group of the files of UNIX sockets, a name or number, such as that of the proxy. Users "
        "other than root may set a group that they belong to.",
    )
    bind: tuple[Address, ...] = row(
        (),
        Addresses(),
        LISTENING,
        "Addresses to listen on instead of host and port: HOST:PORT, [IPV6]:PORT, unix:PATH, or "
        "fd:N for a socket that is passed as a descriptor. The flag may be repeated; the variable "
        "separates them by commas. Sockets that systemd passes replace them all.",
    )
    management: Address | None = row(
        None,
        OneAddress(),
        LISTENING,
        "Address of the management listener: HOST:PORT, or unix:PATH for a socket that only this "
        "user can connect to. The supervisor serves metrics, health checks, status and commands "
        "there, also while its workers are occupied. Not an address that clients can reach.",
    )
    backlog: int = row(
        2048,
        Number(1, 65535),
        LISTENING,
        "Connections that may wait to be accepted. Absorbs a burst while the workers are busy; the "
        "kernel limits it to net.core.somaxconn.",
        unit="count",
    )
    h2c: bool = row(
        False,
        Switch(),
        LISTENING,
        "Accept HTTP/2 without TLS from clients that start with its preface (RFC 9113 section "
        "3.3), such as a proxy. Clients that start with an HTTP/1.1 request are served as before.",
    )
    certificate: tuple[str, ...] = row(
        (),
        Paths(),
        TLS,
        "File with the server's certificate, followed by the intermediate certificates, in PEM. "
        'Every address then uses TLS. "self-signed" generates one for localhost, for development. '
        "Of several certificates, each with its key in the same order, the one for the name that a "
        "client asks for is used. The flag may be repeated; the variable separates files by "
        "commas.",
    )
    key: tuple[str, ...] = row(
        (), Paths(), TLS, "File with the private key of the certificate, in PEM."
    )
    key_password_file: tuple[str, ...] = row(
        (),
        Paths(),
        TLS,
        "File whose first line is the password of the key: one file for all keys, or one for each.",
    )
    client_ca: str = row(
        "",
        Text("PATH", may_be_empty=True),
        TLS,
        "File with the authorities' certificates, in PEM, that verify those of clients.",
    )
    client_crl: tuple[str, ...] = row(
        (),
        Paths(),
        TLS,
        "File with lists of revoked certificates, in PEM. With one, each authority in the chain of "
        "a client needs a list that has not expired; changed files are read again. The flag may be "
        "repeated; the variable separates files by commas.",
    )
    client_certificate: str = row(
        "none",
        Choice(("none", "optional", "required")),
        TLS,
        "Whether to ask clients for a certificate. optional also serves clients without one. An "
        "invalid one always ends the handshake.",
    )
    tls_minimum: str = row("1.2", Choice(("1.2", "1.3")), TLS, "Minimum version of TLS.")
    alpn: tuple[str, ...] = row(
        tls.PROTOCOLS,
        Ordered(tls.PROTOCOLS),
        TLS,
        "Protocols to offer over TLS (ALPN), in order of preference.",
    )
    redirect_to_https: tuple[Address, ...] = row(
        (),
        Addresses(),
        TLS,
        "Addresses that redirect http to https, for example 0.0.0.0:80. Requests get 308 with the "
        "https URL of the server's first address.",
    )
    https_port: int = row(
        0,
        ZeroOr(1, 65535, "0 = that of the first address"),
        TLS,
        "Port of the URLs to which redirect_to_https sends clients, if another one is mapped to "
        "that of the first address. 0 = that of the first address.",
        unit="count",
    )
    trusted_proxies: tuple[str, ...] = row(
        proxies.LOOPBACK,
        proxies.Peers(),
        PROXIES,
        "Peers that are proxies and are trusted: networks, addresses, unix for UNIX sockets, * for "
        "every peer, none; separated by commas. The client of a request is the last address in "
        "X-Forwarded-For that is not one of them. The default is this machine, as with uvicorn and "
        "gunicorn.",
    )
    forwarded_fields: tuple[str, ...] = row(
        ("for", "proto"),
        Choices(proxies.FIELDS),
        PROXIES,
        "Fields that are read from trusted proxies, separated by commas: X-Forwarded-For, -Proto, "
        "-Host, -Port, -Prefix, and Forwarded (RFC 7239). Name only those that the proxy sets or "
        "removes in every request: one that it passes on is the client's word. If Forwarded and "
        "the others contradict each other, none is used.",
    )
    untrusted_forwarded: str = row(
        "keep",
        Choice(("keep", "remove")),
        PROXIES,
        "What the application gets of such fields from peers that are not trusted. They have no "
        "effect either way. From every request, remove also removes those that forwarded_fields "
        "does not name, and those with an underscore in their names: frameworks and middleware may "
        "read them.",
    )
    proxy_protocol: bool = row(
        False,
        Switch(),
        PROXIES,
        "Require a header of the PROXY protocol, version 1 or 2, at the start of each connection, "
        "before TLS. Only trusted proxies may connect then; other connections, and those without "
        "the header within header_timeout_ms, are closed.",
    )
    workers: int = row(
        1, Count(), PROCESSES, 'Worker processes; "auto" for one per usable processor.'
    )
    threads: int = row(
        8,
        Number(1, 1024),
        PROCESSES,
        "Threads per worker that call a WSGI application, so that one slow view does not block "
        "its worker. 1 calls it on the server's own thread, which is fastest for views that never "
        "wait. WSGI only.",
        unit="count",
    )
    spool_directory: str = row(
        "auto",
        Directory(("auto", "off")),
        PROCESSES,
        "Directory of temporary files for WSGI responses that clients do not read while other "
        "requests need their threads. auto is $TMPDIR or, if that is not set, /var/tmp, because "
        '/tmp is often memory; "off" lets threads wait for their clients. On by default, because '
        "otherwise as many clients as there are threads can stop a worker.",
    )
    preload: bool = row(
        False,
        Switch(),
        PROCESSES,
        "Import the application once, before the workers are started: they share the memory of "
        "what was imported. HUP then does not import it again, USR2 does. It must not start "
        "threads or open connections while it is imported.",
    )
    on_worker_start: str = row(
        "",
        Text("MODULE:FUNCTION", may_be_empty=True),
        PROCESSES,
        "Function to call in each worker process before it imports the application or, with "
        "`preload`, before it uses it. It gets the worker's number, from 1 on.",
    )
    cpu_affinity: tuple[int, ...] = row(
        (),
        Processors(),
        PROCESSES,
        "Processors to which the workers are bound, one each in turn: a list such as 0,2,4-7, or "
        '"auto" for those that the server may use. What the application starts is bound too.',
    )
    loop: str = row(
        "asyncio",
        Choice(("asyncio", "uvloop", "auto")),
        PROCESSES,
        "Event loop for coroutines. asyncio runs on the server's own reactor and needs no second "
        "one. uvloop uses up to a quarter less processor time for an application's own timers "
        "and streams, so auto selects it if it is installed. "
        "WSGI applications always use asyncio's.",
    )
    eager_tasks: bool = row(
        True,
        Switch("on|off"),
        PROCESSES,
        "Run the first step of each coroutine in a task that requests share, which costs less than "
        "a task per request. Off creates a task for every request with the loop's create_task, for "
        "debugging and for libraries that depend on it.",
    )
    graceful_timeout_ms: int = row(
        25000,
        Number(1, WAIT_MS_MAX),
        PROCESSES,
        "Time allowed for shutdown after the first TERM or INT. Requests in flight get the first "
        "nine tenths, the application's shutdown the rest (at least 150 ms, but at most half). "
        "Less than the 30 s after which Kubernetes kills.",
        unit="milliseconds",
    )
    requests_max: int = row(
        0,
        Number(0, CORE_NUMBER_MAX, "0 = off"),
        PROCESSES,
        "Replace a worker after so many requests, for applications that leak memory. Its successor "
        "serves before it drains, workers are replaced one after the other, and those that need "
        "less than 10 seconds for it after increasing delays. 0 = never.",
    )
    requests_max_jitter: int = row(
        0,
        Number(0, CORE_NUMBER_MAX),
        PROCESSES,
        "Random number of requests, at most, that is added to `requests_max` for each worker.",
    )
    worker_lifetime_s: int = row(
        0,
        Number(0, CORE_NUMBER_MAX, "0 = off"),
        PROCESSES,
        "Replace a worker that has served for so long, as `requests_max` does. 0 = never.",
        unit="seconds",
    )
    worker_memory_max: int = row(
        0,
        Size(),
        PROCESSES,
        "Replace a worker whose resident memory is more than this, as `requests_max` does: bytes, "
        "or with a unit, as in 512M or 1.5G. It is read every second, and includes pages that "
        "workers share: for applications that leak. What clients may use is `memory_max`. 0 = off.",
        unit="bytes",
    )
    memory_max: int | str = row(
        "auto",
        SizeOrAuto(MEMORY_MIN),
        PROCESSES,
        "Most memory that clients together may make a worker hold: content, requests, responses "
        "that wait; bytes, or with a unit, as in 512M. Near it, content is not read and new "
        "content gets 503; then those clients end that hold most for longest. The application's "
        "own memory is not part of it, as it is of `worker_memory_max`. auto is half of what the "
        "machine, the cgroup or ulimit allows, divided by the workers. 0 = no limit.",
        unit="bytes",
    )
    worker_timeout_ms: int = row(
        30000,
        ZeroOr(1000, WAIT_MS_MAX, "0 = off"),
        PROCESSES,
        "Replace a worker whose event loop has not turned for so long: the stacks of its threads "
        "are logged, then it is ended. The loop is blocked by a handler that is no coroutine, by a "
        "coroutine that does not await, by a WSGI application with `threads` 1, and by code that "
        "does not release the interpreter, in any thread. A worker is also replaced if all its "
        "WSGI threads have run views without a waiting client for so long. 0 = never.",
        unit="milliseconds",
    )
    upgrade_timeout_ms: int = row(
        120_000,
        Number(1000, WAIT_MS_MAX),
        PROCESSES,
        "Time for the new process of an upgrade (USR2) to serve, and for each worker that starts "
        "later than the first ones. One that needs longer is ended. What has served meanwhile "
        "continues: the upgrade or the reload has failed. A worker that replaces one that has "
        "ended is started again.",
        unit="milliseconds",
    )
    pid_file: str = row(
        "",
        Text("PATH", may_be_empty=True),
        PROCESSES,
        "File to which the supervisor's process id is written when it starts; it is removed at the "
        "end. After an upgrade it has that of the new process.",
    )
    server_header: bool = row(
        True, Switch(), RESPONDING, "Send the header field `Server: bolide` with each response."
    )
    websocket_compression: str = row(
        "on",
        Choice(("on", "context", "off")),
        WEBSOCKET,
        "Compression of WebSocket messages, if the client can (permessage-deflate). on compresses "
        "each message for itself, so that connections hold no memory for it. With context, "
        "messages refer to earlier ones: similar messages become shorter, and each connection "
        "holds about 310 KiB. Messages of less than 128 bytes are sent as they are.",
    )
    websocket_compression_level: int = row(
        3,
        Number(1, 9),
        WEBSOCKET,
        "Compression level of WebSocket messages: 1 is fastest, 9 shortest. JSON is hardly shorter "
        "above 3.",
    )
    websocket_origins: tuple[str, ...] = row(
        ("*",),
        Origins(),
        WEBSOCKET,
        "Origins from which browsers may open WebSockets, separated by commas; others get 403. * "
        "is all of them, same the origin that the request is for. With all, any page can open one "
        "with the cookies of its visitor (cross-site WebSocket hijacking), so applications that "
        "use cookies should set this.",
    )
    core: Mapping[str, int] = field(default_factory=dict)
    """The limits and timeouts by name, for the Rust core."""
    channel: Channel = "keyword"
    """How the caller gives options, and how messages spell them."""

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The addresses to listen on."""
        addresses = self.bind or (Address(self.host, self.port),)
        if self.uds:
            addresses = (Address(path=self.uds),)
        return tuple(replace(each, scheme=self.scheme) for each in addresses)

    @property
    def scheme(self) -> str:
        """The scheme of the URLs that are served."""
        return "https" if self.certificate else "http"

    @property
    def pairs(self) -> tuple[tls.Pair, ...]:
        """The certificates with their keys; none if TLS is not used."""
        return tls.pairs(self.certificate, self.key, self.key_password_file)

    @property
    def spool_path(self) -> str | None:
        """The directory of spool files; None for none."""
        if self.spool_directory == "auto":
            return os.environ.get("TMPDIR") or "/var/tmp"  # noqa: S108 - files without names
        return None if self.spool_directory == "off" else self.spool_directory

    def server_options(self, access_log_fd: int | None) -> dict[str, Any]:
        """Return the options of `_core.Server`."""
        return {
            **self.core,
            **self.request_options(),
            "server_header": self.server_header,
            "h2c": self.h2c,
            "access_log": access_log_fd,
            "access_log_format": self.access_log_format,
            "access_log_only": list(self.access_log_only),
            "access_log_slow_ms": self.access_log_slow_ms,
            "access_log_sample": self.access_log_sample,
            "eager_tasks": self.eager_tasks,
            "trusted_proxies": list(self.trusted_proxies),
            "forwarded_fields": list(self.forwarded_fields),
            "untrusted_forwarded": self.untrusted_forwarded,
            "proxy_protocol": self.proxy_protocol,
            "request_id": self.request_ids,
            "websocket_compression": self.websocket_compression,
            "websocket_compression_level": self.websocket_compression_level,
            "websocket_origins": self.websocket_origins,
            "spool_directory": self.spool_path,
            "slow_request_ms": self.slow_request_ms,
            "threads": self.threads,
            "workers": self.workers,
            **({"draining_idle_ms": development.DRAINING_IDLE_MS} if self.reload else {}),
        }


@cache
def table() -> tuple[Option, ...]:
    """Return every option, in the order of the documentation."""
    ours = [
        Option(row.name, row.metadata["kind"], row.default, **_described(row.metadata))
        for row in fields(Settings)
        if row.metadata
    ]
    ours.sort(key=lambda option: GROUPS.index(option.group))  # those of base classes come first
    return (*ours, *(core_option(*setting) for setting in _core.settings()))


def resolve(
    given: Mapping[str, object],
    channel: Channel = "keyword",
    *,
    config: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Determine every option from what was given, the environment, the file and the defaults.

    Raises:
        ConfigError: a value is not valid, or an option does not exist; the text names the option,
            the value, where it comes from and how to fix it.
    """
    environ = os.environ if environ is None else environ
    if channel == "flag" and "" in (config, given.get("uds")):
        flag = "--config" if config == "" else "--uds"
        raise ConfigError(f"{flag}: '' is empty; give a path, or leave it out")
    where, from_file = configfile.read(config or environ.get(PREFIX + "CONFIG"))
    from_environ = {o.name: environ[o.variable] for o in table() if environ.get(o.variable)}
    refuse_mistyped(environ, PREFIX, [option.name for option in table()])
    layers: list[tuple[Channel | Literal["variable", "file"], Mapping[str, object]]] = [
        (channel, tls.flattened(given, _said(tls.TABLE, channel))),
        ("variable", from_environ),
        ("file", tls.flattened(from_file, _said(tls.TABLE, "file", where))),
    ]
    options = {option.name: option for option in table()}
    winning: dict[str, tuple[object, str]] = {}
    for layer, layer_values in reversed(layers):
        for name, value in layer_values.items():
            source = _said(name, layer, where)
            if name not in options:
                if layer == "file" and isinstance(value, Mapping):
                    configfile.refuse_table(name, where)
                raise ConfigError(f"{source}: no such option" + remedy(name, list(options)))
            winning[name] = value, source
    values: dict[str, Any] = {name: option.default for name, option in options.items()}
    values |= {name: _checked(options[name], *given) for name, given in winning.items()}
    values |= places.addresses(layers) | places.port_of_platform(layers, environ)
    values |= places.pairs(layers) | development.implied(values, winning)
    tls.check(values, winning)
    core = {name: values.pop(name) for name, *_ in _core.settings()}
    resolved = Settings(core=core, channel=channel, **values)
    tls.check_redirection(resolved)
    proxies.check(resolved)
    resolved.check_request_ids()
    admission.check(resolved)
    development.check(resolved)
    return resolved


def _checked(option: Option, value: object, source: str) -> object:
    try:
        return option.kind.parse(value)
    except ValueError as error:
        shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
        given = f"{source}{shown!r}" if source.endswith("=") else f"{source}: {shown!r}"
        raise ConfigError(f"{given} {error}") from None


def _said(name: str, layer: str, where: str = "") -> str:
    """Return an option's name as it was given."""
    if layer == "flag":
        return "--" + name.replace("_", "-")
    if layer == "variable":
        return PREFIX + name.upper()
    return f"{name} in {where}" if layer == "file" else f"{name}="


def _described(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: metadata[key] for key in ("group", "help", "unit")}
