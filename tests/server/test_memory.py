"""What clients may make a worker hold: `memory_max`, its default, and what happens near it."""

from __future__ import annotations

import contextlib
import re
import resource
from pathlib import Path

import pytest

from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.server import memory
from support.management import Managed
from support.server import Start
from support.waiting import wait_until

pytestmark = pytest.mark.slow

MIB, GIB = 2**20, 2**30
UNLIMITED = resource.RLIM_INFINITY


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the machine have 8 GiB, and no other limit."""
    written(tmp_path, "proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (UNLIMITED, UNLIMITED))
    return tmp_path


def written(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def found(root: Path, **options: object) -> tuple[int, str]:
    budget = memory.budget(resolve(options, environ={}), root)
    return budget.size, budget.origin


def test_half_of_the_machine_is_for_clients(machine: Path) -> None:
    assert found(machine) == (4 * GIB, "half of this machine's 8 GiB")
    assert found(machine, workers=4) == (GIB, "half of this machine's 8 GiB, for 4 workers")


@pytest.mark.parametrize(
    ("held_max", "redirects", "served_max", "redirected_max"),
    [
        ("1G", True, GIB - 16 * MIB, 16 * MIB),
        ("64M", True, 56 * MIB, 8 * MIB),
        ("64M", False, 64 * MIB, 8 * MIB),
        ("0", True, 0, 16 * MIB),
        ("8M", True, 7 * MIB, MIB),
    ],
)
def test_clients_that_are_sent_to_https_have_a_part(
    held_max: str, redirects: bool, served_max: int, redirected_max: int
) -> None:
    options = {"certificate": "self-signed", "memory_max": held_max}
    redirect = {"redirect_to_https": "127.0.0.1:80"} if redirects else {}
    settings = resolve({**options, **redirect}, environ={})
    assert memory.served_max(settings) == served_max
    assert memory.redirected_max(settings) == redirected_max


def test_the_least_cgroup_counts(machine: Path) -> None:
    written(machine, "proc/self/cgroup", "0::/system.slice/shop.service\n")
    group = "sys/fs/cgroup/system.slice"
    written(machine, f"{group}/shop.service/memory.max", "max\n")
    assert found(machine)[0] == 4 * GIB
    written(machine, f"{group}/memory.max", f"{2 * GIB}\n")
    assert found(machine) == (GIB, "half of the cgroup's 2 GiB")
    written(machine, f"{group}/shop.service/memory.high", f"{GIB}\n")
    assert found(machine, workers=2)[0] == GIB // 4


def test_a_container_sees_its_group_as_the_root(machine: Path) -> None:
    written(machine, "proc/self/cgroup", "0::/docker/0123456789\n")
    written(machine, "sys/fs/cgroup/memory.max", f"{512 * MIB}\n")
    assert found(machine)[0] == 256 * MIB


def test_cgroups_of_version_1(machine: Path) -> None:
    lines = "5:cpu,cpuacct:/shop\n4:memory:/shop\n0::/\n"
    written(machine, "proc/self/cgroup", lines)
    written(machine, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert found(machine)[0] == 4 * GIB
    written(machine, "sys/fs/cgroup/memory/shop/memory.limit_in_bytes", f"{GIB}\n")
    assert found(machine) == (GIB // 2, "half of the cgroup's 1 GiB")


def test_limits_of_a_process_are_not_shared(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    each = {resource.RLIMIT_AS: GIB, resource.RLIMIT_DATA: UNLIMITED}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (each[kind], UNLIMITED))
    assert found(machine, workers=2) == (GIB // 2, "half of the process's RLIMIT_AS 1 GiB")
    assert found(machine, workers=16)[0] == GIB // 4


def test_a_machine_that_says_nothing_has_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (UNLIMITED, UNLIMITED))
    assert found(tmp_path)[0] == 0


@pytest.mark.parametrize(
    ("given", "size"), [("64M", 64 * MIB), (0, 0), ("8M", 8 * MIB), (2**30, GIB)]
)
def test_a_number_is_used_as_it_is(machine: Path, given: object, size: int) -> None:
    assert found(machine, memory_max=given) == (size, "memory_max")


def test_values_that_are_not_valid_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^memory_max='7M' is too little; give at least 8M"):
        resolve({"memory_max": "7M"}, environ={})
    with pytest.raises(ConfigError, match=r"^memory_max='9999T' is too much; give at most 1024T"):
        resolve({"memory_max": "9999T"}, environ={})
    with pytest.raises(ConfigError, match=r"^memory_max='much' is not a size; give bytes, or"):
        resolve({"memory_max": "much"}, environ={})


def test_what_fits_into_it_is_said() -> None:
    settings = resolve({"memory_max": "64M"}, environ={})
    assert memory.described(settings, 10 * MIB) == (
        "memory limit: 64 MiB per worker (memory_max), at most 10 MiB per connection"
    )
    settings = resolve({"memory_max": 0}, environ={})
    assert memory.described(settings, 10 * MIB) == (
        "memory limit: none (memory_max), at most 10 MiB per connection"
    )
    assert re.fullmatch(
        r"memory limit: .* per worker \(half of .*iB; memory_max\), at most 10 MiB per connection",
        memory.described(resolve({}, environ={}), 10 * MIB),
    )


def test_a_budget_that_does_not_fit_is_said() -> None:
    settings = resolve({"memory_max": "31M"}, environ={})
    assert memory.shortfall(settings) == (
        "memory_max is 31 MiB, which is little for content of --body-bytes-max 16777216: such "
        "requests get 503; raise it or lower that"
    )
    assert memory.shortfall(resolve({"memory_max": "32M"}, environ={})) == ""
    settings = resolve({"memory_max": "512G", "workers": 4}, environ={})
    assert re.fullmatch(
        r"--memory-max 512 GiB for each of 4 workers is more than .*'s .* [GM]iB; lower it",
        memory.shortfall(settings),
    )


@pytest.fixture(params=["echo.py", "memory/whole.py"])
def small(start: Start, request: pytest.FixtureRequest) -> Managed:
    """Start a server whose clients may make it hold 32 MiB."""
    return Managed(start, request.param, "--memory-max", "32M", "--body-bytes-max", str(4 * MIB))


def test_what_a_coroutine_reads_as_a_whole_counts_until_its_response(start: Start) -> None:
    managed = Managed(start, "memory/whole.py", "--memory-max", "32M")
    content = b"x" * (4 * MIB)
    with managed.server.connect() as client, managed.server.connect() as other:
        client.send(
            b"POST /kept HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % len(content)
        )
        client.send(content)
        assert other.get("/kept").content == str(len(content)).encode()  # once it was read
        [worker] = managed.status()["workers"]
        assert 4 * MIB <= worker["held_bytes"] < 5 * MIB
        assert other.post("/release", b"").status == 200
        assert client.read("POST").content == content
        wait_until(lambda: managed.status()["workers"][0]["held_bytes"] < MIB)


def test_near_the_budget_others_are_served(small: Managed) -> None:
    length = 4 * MIB
    head = f"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n".encode()
    held = []
    with contextlib.ExitStack() as stack:
        victim = stack.enter_context(small.server.connect())
        for _ in range(20):
            slow = stack.enter_context(small.server.connect())
            slow.socket.settimeout(0.2)
            with contextlib.suppress(TimeoutError, ConnectionError):
                slow.socket.sendall(head + b"x" * (length // 2))
            assert victim.get("/").status == 200
            [worker] = small.status()["workers"]
            assert worker["held_bytes_max"] == 32 * MIB
            held.append(worker["held_bytes"])
        late = stack.enter_context(small.server.connect())
        late.send(head)
        reply = late.read("POST")
        assert (reply.status, reply.get("retry-after")) == (503, "1")
        small.server.wait_line(r"refused \d+ requests? with 503: clients hold near.*")
        assert small.metrics()['bolide_memory_reliefs_total{action="refused"}'] >= 1
    assert 16 * MIB < max(held) <= 32 * MIB
    wait_until(lambda: small.status()["workers"][0]["held_bytes"] == 0)
    with small.server.connect() as client:
        assert client.post("/", b"x" * length).json()["content"] == "x" * length
