"""What to write instead of an option that another server has and Bolide does not.

docs/guide/migrate.md has all options of the other servers; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

TRUSTED = "use --trusted-proxies, with networks or addresses"
HTTP2 = "leave it out: clients choose HTTP/2 with TLS; --alpn changes that, --h2c is without TLS"
HTTP2_LIMITS = "use --h2-streams-max and the other limits of HTTP/2"
ENVIRONMENT = "set the environment in the shell or the service manager"
SERVICE_MANAGER = "the shell or the service manager does this"
REQUESTS_MAX = "use --requests-max"
REQUESTS_MAX_JITTER = "use --requests-max-jitter"
STANDARD_ERROR = "messages go to standard error"
CERTIFICATE = "use --certificate"
KEY = "use --key"
LOCKED_KEY = "use --key-password-file, with a file that contains the password"
CLIENT_CA = "use --client-ca and --client-certificate"
CLIENT_CERTIFICATE = "use --client-certificate none, optional or required"
CIPHERS = "leave it out: only secure cipher suites are offered; --tls-minimum sets the version"
HOOKS = "leave it out: the supervisor calls no functions; --on-worker-start is for each worker"
LAST_WORDS = "leave it out: use atexit in the application, or its shutdown"
PER_REQUEST = "leave it out: use a middleware, or --access-log"
UMASK = "set the umask in the shell or the service manager"

ADVICE = {
    "-D": SERVICE_MANAGER,
    "-b": "use --bind",
    "-p": "use --port, or --pid-file for a pid file",
    "-w": "use --workers",
    "-k": "leave it out: the interface is detected",
    "-t": "use --handler-timeout-ms, in milliseconds",
    "-c": "use --config, with a TOML file",
    "-e": ENVIRONMENT,
    "-g": SERVICE_MANAGER,
    "-m": UMASK,
    "-n": SERVICE_MANAGER,
    "-u": SERVICE_MANAGER,
    "--access-logfile": "use --access-log",
    "--access-logformat": "use --access-log-format",
    "--access-log-fmt": "use --access-log-format",
    "--app-dir": "give the path of the file: bolide serve DIR/FILE.py",
    "--asgi-lifespan": "use --lifespan",
    "--asgi-loop": "use --loop",
    "--backpressure": "use --concurrency-max with --queue-max, or --threads for WSGI",
    "--blocking-threads": "use --threads",
    "--capture-output": STANDARD_ERROR,
    "--casefold-http-method": "malformed requests are refused",
    "--ca-certs": CLIENT_CA,
    "--cert-reqs": CLIENT_CERTIFICATE,
    "--certfile": CERTIFICATE,
    "--chdir": "change the folder in the shell or the service manager",
    "--ciphers": CIPHERS,
    "--check-config": "use --check",
    "--daemon": SERVICE_MANAGER,
    "--date-header": "Date is always sent (RFC 9110 section 6.6.1)",
    "--do-handshake-on-connect": "leave it out: a handshake delays no other client",
    "--env": ENVIRONMENT,
    "--env-file": "set -a; . ./FILE in the shell, or EnvironmentFile= of systemd",
    "--env-files": "set -a; . ./FILE in the shell, or EnvironmentFile= of systemd",
    "--error-logfile": STANDARD_ERROR,
    "--fd": "use --bind fd:N",
    "--forwarded-allow-ips": TRUSTED,
    "--forwarder-headers": "use --root-path, or --forwarded-fields",
    "--graceful-timeout": "use --graceful-timeout-ms, in milliseconds",
    "--group": SERVICE_MANAGER,
    "--h11-max-incomplete-event-size": "use --header-section-bytes-max",
    "--header": "the application sets header fields",
    "--header-map": "leave it out: names with an underscore are dropped",
    "--http": "leave it out: there is one HTTP/1.1 parser; --alpn and --h2c select HTTP/2",
    "--http1-buffer-size": "use --header-section-bytes-max",
    "--http1-header-read-timeout": "use --header-timeout-ms",
    "--http2": HTTP2,
    "--http-protocols": "use --alpn, in the order of preference",
    "--initgroups": SERVICE_MANAGER,
    "--insecure-bind": "use --redirect-to-https, which sends clients to https",
    "--keep-alive": "use --keep-alive-timeout-ms, in milliseconds",
    "--keyfile": KEY,
    "--keyfile-password": LOCKED_KEY,
    "--limit-concurrency": "use --concurrency-max with --queue-max, and --connections-max",
    "--limit-max-requests": REQUESTS_MAX,
    "--limit-request-field_size": "use --header-section-bytes-max",
    "--limit-request-fields": "use --field-lines-max",
    "--limit-request-line": "use --request-line-bytes-max",
    "--log-config-json": "use --log-config",
    "--logger-class": "use --log-config, with a file",
    "--max-requests": REQUESTS_MAX,
    "--metrics": "use --management ADDRESS",
    "--name": SERVICE_MANAGER,
    "--no-access-log": "leave it out: the access log is off by default",
    "--no-proxy-headers": "use --trusted-proxies none",
    "--no-date-header": "Date is always sent (RFC 9110 section 6.6.1)",
    "--no-sendfile": "leave it out: wsgi.file_wrapper is the application's choice",
    "--paste": "give a module that calls paste.deploy.loadapp",
    "--pid": "use --pid-file",
    "--print-config": "/status of --management has the options in use",
    "--process-name": SERVICE_MANAGER,
    "--proxy-headers": "leave it out: trusted proxies are believed; --trusted-proxies names them",
    "--proxy-allow-from": "use --trusted-proxies",
    "--pythonpath": "set PYTHONPATH in the environment",
    "--read-timeout": "use --header-timeout-ms",
    "--reload-extra-file": "use --reload-include, with a pattern",
    "--reload-delay": "leave it out: changes are looked for all the time",
    "--reset-contextvars": "leave it out: each request has its own context",
    "--respawn-failed-workers": "leave it out: it is always on",
    "--reuse-port": "leave it out: workers share the sockets",
    "--server-name": "the application or a proxy sets it",
    "--ssl-ca": CLIENT_CA,
    "--ssl-ca-certs": CLIENT_CA,
    "--ssl-cert-reqs": CLIENT_CERTIFICATE,
    "--ssl-certfile": CERTIFICATE,
    "--ssl-certificate": CERTIFICATE,
    "--ssl-ciphers": CIPHERS,
    "--ssl-client-verify": CLIENT_CERTIFICATE,
    "--ssl-crl": "use --client-crl PATH",
    "--ssl-keyfile": KEY,
    "--ssl-keyfile-password": LOCKED_KEY,
    "--ssl-protocol-min": "use --tls-minimum 1.2 or 1.3",
    "--ssl-version": "use --tls-minimum 1.2 or 1.3",
    "--strip-header-spaces": "malformed requests are refused",
    "--suppress-ragged-eofs": "leave it out: a truncated connection never ends a response",
    "--timeout": "use --handler-timeout-ms, and --worker-timeout-ms for a worker that hangs",
    "--timeout-graceful-shutdown": "use --graceful-timeout-ms, in milliseconds",
    "--timeout-keep-alive": "use --keep-alive-timeout-ms, in milliseconds",
    "--timeout-worker-healthcheck": "use --worker-timeout-ms, in milliseconds",
    "--uds-permissions": "use --uds-mode",
    "--umask": UMASK,
    "--url-path-prefix": "use --root-path",
    "--use-colors": "leave it out: only a terminal gets colours",
    "--user": SERVICE_MANAGER,
    "--worker-class": "leave it out: the interface is detected",
    "--worker-connections": "use --connections-max",
    "--worker-tmp-dir": "leave it out: workers write no heartbeat files",
    "--workers-lifetime": "use --worker-lifetime-s, in seconds",
    "--workers-max-rss": "use --worker-memory-max, with a unit: 512M",
    "--workers-kill-timeout": "use --graceful-timeout-ms, in milliseconds",
    "--verify-mode": CLIENT_CERTIFICATE,
    "--working-dir": SERVICE_MANAGER,
    "--websocket-max-message-size": "use --websocket-message-bytes-max",
    "--websocket-ping-interval": "use --websocket-ping-interval-ms, in milliseconds",
    "--ws": "leave it out: WebSockets are always served",
    "--ws-max-queue": "leave it out: clients wait for an application that does not receive",
    "--ws-max-size": "use --websocket-message-bytes-max",
    "--ws-per-message-deflate": "use --websocket-compression on, context or off",
    "--ws-ping-interval": "use --websocket-ping-interval-ms, in milliseconds",
    "--ws-ping-timeout": "use --websocket-ping-timeout-ms, in milliseconds",
}
"""By option."""

PREFIXES = {
    "--http2-": HTTP2_LIMITS,
    "--control-socket": "use --management ADDRESS, and `bolide status` and its other commands",
    "--dirty-": "leave it out: let a queue's workers do long tasks",
    "--limit-max-requests-": REQUESTS_MAX_JITTER,
    "--log-syslog": STANDARD_ERROR,
    "--max-requests-": REQUESTS_MAX_JITTER,
    "--metrics-": "use --management ADDRESS",
    "--permit-": "malformed requests are refused",
    "--static-path-": "the application or a proxy serves files",
    "--statsd-": "use --management ADDRESS, from which Prometheus and others read metrics",
}
"""By the start of the option."""

RARE = {
    "--asgi-disconnect-grace-period": "leave it out: an application is not cancelled",
    "--disable-redirect-access-to-syslog": STANDARD_ERROR,
    "--dogstatsd-tags": "use --management ADDRESS, from which Prometheus and others read metrics",
    "--enable-stdio-inheritance": "leave it out: workers write to standard output and error",
    "--gid": SERVICE_MANAGER,
    "--harakiri": "use --handler-timeout-ms, in milliseconds, and --worker-timeout-ms",
    "--http-parser": "leave it out: there is one HTTP/1.1 parser",
    "--log-file": STANDARD_ERROR,
    "--master": "leave it out: there is always a supervisor",
    "--module": "name the application in the command: `bolide serve MODULE:APP`",
    "--no-use-colors": "leave it out: only a terminal gets colours",
    "--paster": "give a module that calls paste.deploy.loadapp",
    "--processes": "use --workers",
    "--protocol": "leave it out: clients choose HTTP/1.1 or HTTP/2; --proxy-protocol is PROXY",
    "--reload-engine": "leave it out: watchfiles looks for changes",
    "--spew": "leave it out: python -m trace shows what is executed",
    "--uid": SERVICE_MANAGER,
}
"""Options that the guide does not have: other names of its own, or too rare for it."""

KEYS = {
    "app": "name the application in the command: `bolide serve MODULE:APP`",
    "child_exit": LAST_WORDS,
    "nworkers_changed": HOOKS,
    "on_exit": HOOKS,
    "on_reload": HOOKS,
    "on_starting": HOOKS,
    "post_fork": "use --on-worker-start MODULE:FUNCTION",
    "post_request": PER_REQUEST,
    "post_worker_init": "use --on-worker-start MODULE:FUNCTION",
    "pre_exec": HOOKS,
    "pre_fork": HOOKS,
    "pre_request": PER_REQUEST,
    "secure_scheme_headers": "leave it out: X-Forwarded-Proto of --trusted-proxies says the scheme",
    "ssl_context": "use --certificate and --key; --tls-minimum sets the version",
    "target": "name the application in the command: `bolide serve MODULE:APP`",
    "tmp_upload_dir": "leave it out: requests need no files; --spool-directory is for responses",
    "web_concurrency": "use --workers",
    "when_ready": HOOKS,
    "worker_abort": LAST_WORDS,
    "worker_exit": LAST_WORDS,
    "worker_int": LAST_WORDS,
    "wsgi_app": "name the application in the command: `bolide serve MODULE:APP`",
}
"""Keys of gunicorn's file that no option has."""

NAMES = {
    "accesslog": "--access-logfile",
    "errorlog": "--error-logfile",
    "keep_alive_timeout": "--keep-alive",
    "keepalive": "--keep-alive",
    "limit_request_field_size": "--limit-request-field_size",
    "pidfile": "--pid",
    "proc_name": "--name",
    "raw_env": "--env",
    "reload_extra_files": "--reload-extra-file",
    "sendfile": "--no-sendfile",
    "syslog": "--log-syslog",
    "syslog_addr": "--log-syslog-to",
    "syslog_facility": "--log-syslog-facility",
    "syslog_prefix": "--log-syslog-prefix",
}
"""Options of other servers whose keyword or key in a file is not named as the flag."""


_FLAG = re.compile(r"--[a-z][a-z-]*")


def advice(option: str) -> str:
    """Return what to write instead of an option of another server; "" if it is not known."""
    if found := ADVICE.get(option) or RARE.get(option):
        return found
    return next((text for start, text in PREFIXES.items() if option.startswith(start)), "")


def advice_for(name: str, named: Callable[[str], str]) -> str:
    """Return `advice` for a keyword, a key of a file or a variable; "" if it is not known.

    `name` is in lower case with underscores. `named` writes an option of ours, given like `name`,
    as the user would write it.
    """
    flag = NAMES.get(name) or "--" + name.replace("_", "-")
    instead = KEYS.get(name) or advice(flag)
    parts = instead.split("`")  # what is quoted is a command, and keeps its flags
    parts[::2] = [_FLAG.sub(lambda found: named(_name(found[0])), part) for part in parts[::2]]
    return "`".join(parts)


VARIABLES = {
    "WEB_CONCURRENCY": ("--workers", "1"),
    "FORWARDED_ALLOW_IPS": ("--trusted-proxies", "127.0.0.1"),
}
"""Variables of other servers, the option that replaces each, and the value that is our default."""
OTHER_VARIABLES = re.compile(r"GUNICORN_CMD_ARGS|UVICORN_(?!.*(SERVICE|TCP))\w+")
"""Those that are flags; Kubernetes sets the others for a service of that name."""


def unread(environ: Mapping[str, str], is_given: Callable[[str], bool]) -> str:
    """Return a line about variables of other servers that have no effect; "" without any.

    `is_given` says whether an option, named like a keyword, was set.
    """
    found = {
        variable: option
        for variable, (option, default) in VARIABLES.items()
        if environ.get(variable, default) not in ("", default) and not is_given(_name(option))
    }
    instead = [f"{option} or BOLIDE_{_name(option).upper()}" for option in found.values()]
    others = [
        name
        for name, value in environ.items()
        if value and OTHER_VARIABLES.fullmatch(name) and not value.startswith("tcp://")
    ]
    lines = [(list(found), ", and ".join(instead)), (others, "the options of `bolide serve`")]
    return "; ".join(
        f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} not read: use {use}"
        for names, use in lines
        if names
    )


def _name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
