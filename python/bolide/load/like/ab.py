"""The command line of ab (ApacheBench) 2.3.

It uses HTTP/1.0, with a connection per request unless `-k` is given. Without `-l`, a response whose
length differs from the first one's counts as failed. `-r` always applies: no error ends a run. `-t`
alone runs for its whole time; ab stops at 50,000 requests because it has no room for more.
"""

from __future__ import annotations

import base64
from pathlib import Path

from bolide.errors import ConfigError
from bolide.load.like.commandline import Given, Syntax, closes
from bolide.load.options import Options
from bolide.load.requestfile import content_of

_HTML = "HTML tables are not written; give --json or --csv"
_TLS = "options of TLS are not supported; leave it out"
REFUSED = {
    "-b": "the kernel chooses the sizes of socket buffers; leave it out",
    "-v": "single responses are not printed; give --expect-body to check them",
    "-w": _HTML,
    "-x": _HTML,
    "-y": _HTML,
    "-z": _HTML,
    "-g": "single requests are not stored; give --json for the histogram, or -e",
    "-V": "asks for a version, not for a run; see bolide --version",
    "-h": "asks for help, not for a run; see docs/load.md",
    "-I": _TLS,
    "-Z": _TLS,
    "-f": _TLS,
    "-E": _TLS,
}
SYNTAX = Syntax(
    "ab", "n:c:t:s:b:B:p:u:T:v:wix:y:z:C:H:A:P:X:VkdSqlg:e:rm:hIZ:f:E:", refused=REFUSED
)


def read(words: list[str]) -> Options:
    """Convert options to ours.

    Raises:
        ConfigError: an option is unknown or not supported, or a file cannot be read.
    """
    given = SYNTAX.read(words)
    requests, connections = given.count("-n", 1), given.count("-c", 1)
    time_s = given.seconds("-t")
    is_timed = time_s is not None and not given.has("-n")
    if not is_timed and connections > requests:
        raise ConfigError(
            f"--like: ab -c {connections} is more than -n {requests}; give at most -n"
        )
    headers, is_closing = closes(_headers(given))
    file = given.text("-p") or given.text("-u")
    return Options(
        is_insecure=given.url.startswith("https:"),
        urls=(given.url if "://" in given.url else f"http://{given.url}",),
        proxy=given.text("-X"),
        source_addresses=tuple(given.all("-B")[-1:]),
        connections=connections,
        requests=None if is_timed else requests,
        duration_s=time_s if is_timed else None,
        stop_after_s=None if is_timed else time_s,
        timeout_s=given.seconds("-s") or 30.0,
        http_version="1.0",
        is_persistent=given.has("-k") and not is_closing,
        method=_method(given),
        headers=tuple(headers),
        body=content_of(Path(file)) if file else None,
        may_vary_in_length=given.has("-l"),
        hides_percentiles=given.has("-d"),
        hides_deviations=given.has("-S"),
        percentiles_file=Path(given.text("-e")) if given.has("-e") else None,
    )


def _method(given: Given) -> str:
    """Return the method that the options name or imply.

    Raises:
        ConfigError: they imply several.
    """
    meant = {"-i": "HEAD", "-p": "POST", "-u": "PUT"}
    found = [meant[name] for name in meant if given.has(name)]
    if len(found) > 1:
        raise ConfigError("--like: ab -i, -p and -u each imply another method; give one of them")
    return given.text("-m") or (found or ["GET"])[0]


def _headers(given: Given) -> list[str]:
    """Return the field lines that ab sends, its own first."""
    own = {"User-Agent": "ApacheBench/2.3", "Accept": "*/*"}
    named = {line.partition(":")[0].strip().lower() for line in given.all("-H")}
    lines = [f"{name}: {value}" for name, value in own.items() if name.lower() not in named]
    if given.has("-p") or given.has("-u"):
        lines.append(f"Content-Type: {given.text('-T', 'text/plain')}")
    if given.has("-C"):
        lines.append(f"Cookie: {'; '.join(given.all('-C'))}")
    for option, name in (("-A", "Authorization"), ("-P", "Proxy-Authorization")):
        if given.has(option):
            secret = base64.b64encode(given.text(option).encode()).decode()
            lines.append(f"{name}: Basic {secret}")
    return [*lines, *given.all("-H")]
