"""Other tools' command lines."""

from pathlib import Path
from typing import Any

import pytest

from bolide.errors import ConfigError
from bolide.load import like
from bolide.load.options import Options

URL = "http://127.0.0.1:8000/"
AB = {
    "http_version": "1.0",
    "is_persistent": False,
    "method": "GET",
    "timeout_s": 30.0,
    "requests": 1,
    "connections": 1,
    "headers": ("User-Agent: ApacheBench/2.3", "Accept: */*"),
    "may_vary_in_length": False,
}
WRK = {"connections": 10, "threads": 2, "duration_s": 10.0, "timeout_s": 2.0}
WEBBENCH = {
    "connections": 1,
    "duration_s": 30.0,
    "timeout_s": 30.0,
    "http_version": "1.0",
    "is_persistent": False,
    "method": "GET",
    "headers": ("User-Agent: WebBench 1.5",),
}
LINES: list[tuple[str, dict[str, Any]]] = [
    (f"ab {URL}", AB),
    (
        f"/usr/bin/ab -k -c 100 -n 100000 {URL}",
        AB | {"is_persistent": True, "connections": 100, "requests": 100_000},
    ),
    (
        f"ab -c 100 -t 100 -k {URL}",
        AB | {"is_persistent": True, "connections": 100, "requests": None} | {"duration_s": 100.0},
    ),
    (f"ab -t 100 -n 5 {URL}", AB | {"requests": 5, "stop_after_s": 100.0}),
    (
        f"ab -n 2 -s 7 -B 127.0.0.2 -l -r -q -d -S {URL}",
        AB
        | {"requests": 2, "timeout_s": 7.0}
        | {"source_addresses": ("127.0.0.2",), "may_vary_in_length": True}
        | {"hides_percentiles": True, "hides_deviations": True},
    ),
    (
        f"ab -i -X 10.0.0.1:3128 -e out.csv {URL}",
        AB | {"method": "HEAD", "proxy": "10.0.0.1:3128"} | {"percentiles_file": Path("out.csv")},
    ),
    (
        f"ab -m OPTIONS -C a=1 -C b=2 -A u:p -P x:y -H 'Accept: text/html' -H 'A: b' {URL}",
        AB
        | {
            "method": "OPTIONS",
            "headers": (
                "User-Agent: ApacheBench/2.3",
                "Cookie: a=1; b=2",
                "Authorization: Basic dTpw",
                "Proxy-Authorization: Basic eDp5",
                "Accept: text/html",
                "A: b",
            ),
        },
    ),
    ("ab 127.0.0.1:8000/", AB),
    (f"ab -k -H 'Connection: close' {URL}", AB),
    (f"wrk {URL}", WRK),
    (
        f"wrk -t1 -c100 -d3s --latency --timeout=5 {URL}",
        {"connections": 100, "threads": 1, "duration_s": 3.0, "timeout_s": 5.0}
        | {"shows_percentiles": True},
    ),
    (
        f"wrk -t3 -c1k -d2m -H 'A: b' -H 'Host: c' {URL}",
        {"connections": 999, "threads": 3}
        | {"duration_s": 120.0, "timeout_s": 2.0, "headers": ("A: b", "Host: c")},
    ),
    (f"wrk --header 'Connection: close' {URL}", WRK | {"is_persistent": False}),
    (f"webbench {URL}", WEBBENCH),
    (f"webbench -c 100 -t 100 {URL}", WEBBENCH | {"connections": 100, "duration_s": 100.0}),
    (
        f"webbench -2 --head -r -p 10.0.0.1:80 {URL}",
        WEBBENCH
        | {"http_version": "1.1"}
        | {"method": "HEAD", "proxy": "10.0.0.1:80"}
        | {"headers": ("User-Agent: WebBench 1.5", "Pragma: no-cache")},
    ),
    (
        f"webbench --http10 --get --clients=3 --time 5 {URL}",
        WEBBENCH | {"connections": 3, "duration_s": 5.0},
    ),
]


@pytest.mark.parametrize(("line", "wanted"), LINES, ids=[line for line, _ in LINES])
def test_line(line: str, wanted: dict[str, Any]) -> None:
    name, found = like.read(line)
    assert name == line.split()[0].rpartition("/")[2]
    assert found == Options(urls=(URL,), **wanted)


def test_ab_sends_files(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"a=1")
    _, posted = like.read(f"ab -p {tmp_path}/data -T application/x {URL}")
    assert (posted.method, posted.body) == ("POST", b"a=1")
    assert posted.headers[-1] == "Content-Type: application/x"
    _, put = like.read(f"ab -u {tmp_path}/data {URL}")
    assert (put.method, put.headers[-1]) == ("PUT", "Content-Type: text/plain")


MISTAKES = [
    ("", "--like: '' does not start with ab or wrk or webbench"),
    ("siege http://h/", "--like: 'siege http://h/' does not start with ab"),
    ("ab 'x", '--like: "ab \'x" cannot be split into words: No closing quotation'),
    ("ab -n 5", "--like: ab takes one URL, not none"),
    ("ab http://a/ http://b/", "--like: ab takes one URL, not http://a/ http://b/"),
    ("ab -J http://h/", "--like: ab: option -J not recognized"),
    ("ab -n", "--like: ab: option -n requires argument"),
    ("ab -n x http://h/", "--like: ab -n: 'x' is not a whole number"),
    ("ab -n 0 http://h/", "--like: ab -n: 0 is below 1"),
    ("ab -n 5 -c 6 http://h/", "--like: ab -c 6 is more than -n 5"),
    ("ab -i -u f http://h/", "--like: ab -i, -p and -u each imply another method"),
    ("ab -p /none/x http://h/", "cannot read /none/x: No such file or directory"),
    ("ab -w http://h/", "--like: ab -w: HTML tables are not written; give --json or --csv"),
    ("ab -g f http://h/", "--like: ab -g: single requests are not stored"),
    ("ab -b 9 http://h/", "--like: ab -b: the kernel chooses the sizes of socket buffers"),
    ("ab -v 4 http://h/", "--like: ab -v: single responses are not printed"),
    ("ab -f TLS1.2 http://h/", "--like: ab -f: options of TLS are not supported"),
    ("ab -V", "--like: ab -V: asks for a version, not for a run"),
    ("wrk -s x.lua http://h/", "--like: wrk -s: Lua scripts are not supported; give --pipeline N"),
    ("wrk --script=x http://h/", "--like: wrk --script: Lua scripts are not supported"),
    ("wrk -c 1 http://h/", "--like: wrk -c 1 is less than -t 2"),
    ("wrk -d x http://h/", "--like: wrk -d: 'x' is not a duration"),
    ("wrk -d 0 http://h/", "--like: wrk -d: '0' is not a time"),
    ("wrk --rate 5 http://h/", "--like: wrk: option --rate not recognized"),
    ("webbench -f http://h/", "--like: webbench -f: every response is read and verified"),
    ("webbench --force http://h/", "--like: webbench --force: every response is read"),
    ("webbench -9 http://h/", "--like: webbench -9: HTTP/0.9 is not supported; give -1 or -2"),
    ("webbench http://h", "--like: webbench: 'http://h' has no slash after its host"),
]


@pytest.mark.parametrize(("line", "says"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_mistake_is_one_sentence(line: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        like.read(line)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_every_option_of_the_tools_is_known() -> None:
    """What each tool's own help lists is read or refused by name, never unknown."""
    from bolide.load.like import ab, webbench, wrk

    assert set("nctsbBpuTvwixyzCHAPXVkdSqlgermhIZfE") <= set(ab.SYNTAX.short)
    assert {"connections=", "duration=", "threads=", "script=", "header="} <= set(wrk.SYNTAX.long)
    assert {"force", "reload", "time=", "proxy=", "clients="} <= set(webbench.SYNTAX.long)
