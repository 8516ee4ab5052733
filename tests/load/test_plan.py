"""The plan that the engine is given."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bolide.errors import ConfigError
from bolide.load import plan
from bolide.load.destination import Destination
from bolide.load.options import Options
from load.samples import WHERE

SIX = Destination("[::1]:80", "[::1]", "::1", 80, (("/", 1),), "http://[::1]/")
LOCAL = Destination("unix:/s", "localhost", "/s", 0, (("/", 1),), "unix:/s")


def build(where: Destination = WHERE, **given: Any) -> dict[str, Any]:
    return plan.build(Options(urls=(where.url,), **given), where)


def request(**given: Any) -> dict[str, Any]:
    (found,) = build(**given)["requests"]
    return found


def test_defaults() -> None:
    assert build() == {
        "address": "127.0.0.1:8000",
        "tls": None,
        "threads": 1,
        "connections": 100,
        "pipeline_depth": 1,
        "streams": 1,
        "is_persistent": True,
        "http_version": "1.1",
        "websocket": None,
        "source_addresses": [],
        "cpus": [],
        "is_sleepless": False,
        "requests": [
            {
                "method": "GET",
                "target": "/page?a=b",
                "host": "127.0.0.1:8000",
                "field_lines": [],
                "content": None,
                "weight": 1,
                "expected_status": None,
                "expected_length": None,
                "expected_content": None,
                "is_any_length": True,
                "is_template": False,
            }
        ],
        "ramp_up_s": 0.0,
        "warm_up_s": 0.0,
        "timeout_s": 5.0,
        "deadline_s": None,
        "rate_per_s": None,
        "duration_s": 10.0,
    }


def test_the_end_is_a_time_or_a_count() -> None:
    assert build(duration_s=3.0)["duration_s"] == 3.0
    counted = build(requests=70)
    assert counted["requests_total"] == 70 and "duration_s" not in counted
    assert plan.length_s(build(duration_s=3.0)) == 3.0
    assert plan.length_s(counted) is None


def test_stages_of_rates_and_of_connections() -> None:
    rates = build(stages="10s:1000, 500ms:5000")
    assert rates["stages"] == [
        {"duration_s": 10.0, "rate_per_s": 1000.0},
        {"duration_s": 0.5, "rate_per_s": 5000.0},
    ]
    assert not {"duration_s", "rate_per_s", "requests_total"} & rates.keys()
    assert plan.length_s(rates) == 10.5
    numbers = build(stages="1:50c,1:200c", connections=7)
    assert numbers["stages"][1] == {"duration_s": 1.0, "connections": 200}
    assert numbers["connections"] == 200
    given = Options(urls=(WHERE.url,), stages="1:50c,1:200c", connections=7)
    assert plan.connections(given) == 200
    assert plan.connections(replace(given, stages="1:50")) == 7
    assert plan.connections(replace(given, stages="")) == 7


def test_ramp_up_is_before_what_is_measured() -> None:
    made = build(ramp_up_s=2.0, warm_up_s=1.0, rate=500, duration_s=8.0)
    assert (made["ramp_up_s"], made["warm_up_s"], made["duration_s"]) == (2.0, 1.0, 8.0)
    assert made["rate_per_s"] == 500 and "stages" not in made
    assert plan.length_s(made) == 8.0


def test_request_flags() -> None:
    made = request(
        method="PUT",
        headers=("Accept: text/html", "HOST: other", "X-Empty:"),
        body=b"abc",
        expect_status=201,
        expect_length=5,
        expect_body=b"hello",
    )
    assert (made["method"], made["host"], made["content"]) == ("PUT", "other", b"abc")
    assert made["field_lines"] == [("Accept", "text/html"), ("X-Empty", "")]
    assert made["expected_status"] == 201
    assert (made["expected_length"], made["expected_content"]) == (5, b"hello")
    assert request(body=b"")["method"] == "POST"
    assert request(expect_same=True)["is_template"]


def test_request_file_says_the_requests(tmp_path: Path) -> None:
    (tmp_path / "anvil.bin").write_bytes(b"\xff\x00")
    path = tmp_path / "mix.toml"
    path.write_text(
        """
        [[request]]
        [[request]]
        method = "PUT"
        path = "/items"
        headers = { Host = "h", Accept = ["a", "b"] }
        body_file = "anvil.bin"
        weight = 3
        expect_status = 204
        expect_body = "\u00e9"
        """,
        encoding="utf-8",
    )
    first, second = build(request_file=path, headers=("X: 1",), expect_status=200)["requests"]
    assert (first["method"], first["target"], first["weight"]) == ("GET", "/page?a=b", 1)
    assert (first["expected_status"], first["field_lines"]) == (200, [("X", "1")])
    assert (second["method"], second["target"], second["weight"]) == ("PUT", "/items", 3)
    assert (second["host"], second["content"]) == ("h", b"\xff\x00")
    assert second["field_lines"] == [("X", "1"), ("Accept", "a"), ("Accept", "b")]
    assert (second["expected_status"], second["expected_content"]) == (204, b"\xc3\xa9")


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"duration_s": 1.0, "requests": 1}, "--duration and --requests both set the end"),
    ({"stages": "1:1", "rate": 5}, "--stages sets rates and times itself"),
    ({"stages": "1:1", "ramp_up_s": 1.0}, "--stages sets the start itself"),
    ({"ramp_up_s": 1.0, "requests": 1}, "--ramp-up needs a duration"),
    ({"warm_up_s": 1.0, "requests": 1}, "--warm-up needs a duration"),
    ({"deadline_s": 5.0}, "--deadline has no effect: a request fails after the --timeout of 5 s"),
    ({"resumes": False}, "--no-resumption is for https; http://127.0.0.1:8000/page?a=b is not"),
    ({"tls_min": "1.3"}, "--tls-min is for https"),
    ({"tls_max": "1.2"}, "--tls-max is for https"),
    ({"pipeline": 2, "is_persistent": False}, "--pipeline needs persistent connections"),
    ({"pipeline": 2, "http_version": "1.0"}, "--pipeline needs HTTP/1.1"),
    ({"pipeline": 2, "http_version": "2"}, "--pipeline is for HTTP/1.1; over HTTP/2 give"),
    ({"streams": 2}, "--streams needs HTTP/2; give --http2"),
    (
        {"streams": 2, "http_version": "2", "is_persistent": False},
        "--streams needs persistent connections",
    ),
    ({"expect_same": True, "expect_body": b""}, "--expect-same and --expect-body both"),
    ({"threads": 3, "connections": 2}, "--threads: 3 are more than the 2 connections"),
    ({"stages": "10s"}, "--stages: '10s' in '10s' is not a stage; give DURATION:RATE"),
    ({"stages": "1:0,2:0"}, "--stages: '1:0,2:0' generates no load"),
    ({"stages": "1:0c"}, "--stages: '1:0c' generates no load"),
    ({"stages": "0:1"}, "--stages: '0:1' in '0:1' is not a stage"),
    ({"stages": "1:1,,"}, "--stages: '' in '1:1,,' is not a stage"),
    ({"stages": "1:1,1:1c"}, "--stages: '1:1,1:1c' mixes rates and connections"),
    ({"stages": "1:1.5c"}, "--stages: '1:1.5c' has a fraction of a connection"),
    ({"cpus": "a"}, "--cpus: 'a' is not a list of processors; give one like 0,2-3"),
    ({"cpus": "3-1"}, "--cpus: '3-1' is not a list"),
    ({"source_addresses": ("here",)}, "--source: 'here' is not an IP address"),
    ({"source_addresses": ("::1",)}, "--source: ::1 is not of the same family as 127.0.0.1:8000"),
    ({"source_addresses": ("192.0.2.1",)}, "--source: 192.0.2.1 is not an address of this machine"),
    ({"headers": ("no colon",)}, "--header: 'no colon' is not a header; give 'Name: value'"),
    ({"headers": ("a b: c",)}, "--header: 'a b: c' is not a header"),
    ({"headers": ("a: b\r\nc: d",)}, "--header: 'a: b\\r\\nc: d' is not a header"),
    ({"headers": ("Content-Length: 3",)}, "--header: the generator writes Content-Length itself"),
    ({"method": "GE T"}, "--method: 'GE T' is not a method"),
    ({"headers": ("Host: a b",)}, "Host: 'a b' is not a host"),
    ({"expect_status": 100}, "--expect-status: 100 is not a final status"),
    ({"expect_length": -1}, "--expect-length: -1 is below 0"),
    (
        {"request_file": Path("x"), "method": "GET"},
        "--method and --body cannot be combined with --r",
    ),
    ({"request_file": Path("none.toml")}, "cannot read the request file none.toml: No such file"),
]


@pytest.mark.parametrize(
    ("given", "says"), CONTRADICTIONS, ids=[says for _, says in CONTRADICTIONS]
)
def test_contradiction_is_one_sentence(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(**given)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


FILES = [
    ("[[request", "is not valid TOML: "),
    ("", "contains no request; give [[request]] tables with method, path"),
    ("request = 3", "contains no request"),
    ("other = 3", "has the key 'other'"),
    ("request = [3]", ": request 1 is not a table"),
    ("[[request]]\nverb = 'GET'", ": request 1 has the key 'verb'; give method, path"),
    ("[[request]]\nweight = '3'", ": request 1: weight = '3' has the wrong type"),
    ("[[request]]\nweight = true", ": request 1: weight = True has the wrong type"),
    ("[[request]]\n[[request]]\nweight = 0", ": request 2: weight 0 is below 1"),
    ("[[request]]\nheaders = { A = 3 }", ": request 1: header A = 3 is not text"),
    ("[[request]]\nheaders = { 'A b' = '3' }", ": request 1: 'A b: 3' is not a header"),
    ("[[request]]\nbody = ''\nbody_file = 'x'", ": request 1 has body and body_file"),
]


@pytest.mark.parametrize(("text", "says"), FILES, ids=[says for _, says in FILES])
def test_mistake_in_a_request_file(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        build(request_file=path)
    assert str(caught.value).removeprefix(str(path)).lstrip().startswith(says)
    assert "\n" not in str(caught.value)


def test_mistakes_beside_a_request_file(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text("[[request]]\npath = 'x'")
    with pytest.raises(ConfigError, match="path 'x' does not start with a slash"):
        build(request_file=path)
    several = Destination("1.2.3.4:80", "h", "h", 80, (("/", 1), ("/a", 1)), "http://h/")
    with pytest.raises(ConfigError, match="--request-file needs one URL"):
        build(several, request_file=path)
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="it is not UTF-8"):
        build(request_file=path)
    path.write_text("[[request]]\nbody_file = 'none'")
    with pytest.raises(ConfigError, match="cannot read .*none: No such file"):
        build(request_file=path)


def test_sources_fit_the_destination() -> None:
    sources = ("127.0.0.1", "127.0.0.2")
    assert build(source_addresses=sources)["source_addresses"] == [*sources]
    with pytest.raises(ConfigError, match="--source needs TCP"):
        build(LOCAL, source_addresses=("127.0.0.2",))
    with pytest.raises(ConfigError, match="--source: 127.0.0.1 is not of the same family as"):
        build(SIX, source_addresses=("127.0.0.1",))


def test_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 2, 3, 4})
    assert build(cpus="0,2-4")["cpus"] == [0, 2, 3, 4]
    assert build()["cpus"] == []
    with pytest.raises(ConfigError, match="--cpus: 1 is not available; give some of 0,2,3,4"):
        build(cpus="0-2")
