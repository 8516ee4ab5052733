"""What a server costs while nobody asks it anything."""

from pathlib import Path

from conftest import Start

WINDOW_S = 1.5
RSS_KIB_MAX = 30 * 1024


def ticks(pid: int) -> int:
    """Return the processor time that a process has used, in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def status(pid: int, name: str) -> int:
    """Return a number from a process's status file."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0])
    raise KeyError(name)


def test_idle_server_uses_no_processor_time(start: Start) -> None:
    server = start("basic.py", "--workers", "2")
    with server.connect() as client:
        assert client.get("/").status == 200
        processes = [server.pid, *server.workers()]
        used = [ticks(pid) for pid in processes]
        woken = [status(pid, "voluntary_ctxt_switches") for pid in processes]
        assert server.is_silent(WINDOW_S)
        assert [ticks(pid) for pid in processes] == used
        wakes = [status(pid, "voluntary_ctxt_switches") for pid in processes]
        assert all(now - then <= 2 for now, then in zip(wakes, woken, strict=True))


def test_worker_is_small(start: Start) -> None:
    server = start()
    with server.connect() as client:
        assert client.get("/").status == 200
    (worker,) = server.workers()
    assert status(worker, "VmRSS") <= RSS_KIB_MAX
