"""One trial: the generator against a running server, with the processor time of both."""

import json
import os
import resource
import select
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from contestants import Server, pinned, programs
from environments import UnavailableError
from verify import request_bytes
from workloads import DEF_1, IDLE_CONNECTIONS, Workload

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def trial(
    server: Server, workload: Workload, core: int, target: Path, seconds: float
) -> dict[str, Any]:
    """Run the generator once and give its report with CPU shares added.

    Raises: UnavailableError: the generator itself failed.
    """
    _, generator = programs(target)
    command = [str(generator), "-c", str(workload.connections)]
    command += ["-p", str(workload.depth), "-d", str(seconds), "--warm-up", "0.2"]
    command += ["--length", str(len(server.body)), "--status", "200"]
    for name, value in workload.fields:
        command += ["-H", f"{name}: {value}"]
    if not workload.persistent:
        command.append("--close")
    if workload.timed_application is not None:
        command.append("--sleepless")
    if workload.upload_bytes is not None:
        command += ["-X", "POST", "--content", str(workload.upload_bytes)]
    command.append(f"http://127.0.0.1:{server.port}{workload.target}")

    cores = {server.core, core}
    before = (time.monotonic(), session_cpu_s(server.process.pid), *cores_s(cores))
    done = subprocess.run(
        pinned(core, command), capture_output=True, text=True, check=False, timeout=seconds + 30
    )
    after = (time.monotonic(), session_cpu_s(server.process.pid), *cores_s(cores))
    if done.returncode != 0:
        raise UnavailableError(f"the generator failed: {done.stderr.strip()}")
    report: dict[str, Any] = json.loads(done.stdout)
    wall, server_s, busy_s, stolen_s = (
        late - early for early, late in zip(before, after, strict=True)
    )
    if report["ok"]:
        report["bytes_per_answer"] = report["bytes_per_s"] / report["requests_per_s"]
    report["server_cpu"] = server_s / wall
    report["steal"] = stolen_s / wall
    others = busy_s / wall - report["server_cpu"] - report["generator_cpu"]
    report["others_cpu"] = max(0.0, others)
    report["load_average"] = os.getloadavg()[0]
    return report


def timed_trial(
    server: Server, workload: Workload, core: int, target: Path, seconds: float
) -> dict[str, Any]:
    """Run the generator once and part the processor time per request in application and server.

    What reading the clock costs is taken off both: each span holds one reading, and one lies
    outside of it. Raises: UnavailableError.
    """
    before, cpu_before_s = _application_time(server), session_cpu_s(server.process.pid)
    report = trial(server, workload, core, target, seconds)
    cpu_s = session_cpu_s(server.process.pid) - cpu_before_s
    after = _application_time(server)
    requests = after["requests"] - before["requests"]
    if requests < report["ok"]:
        raise UnavailableError(f"{report['ok']} responses, but the application counts {requests}")
    readings_ns = (after["spans"] - before["spans"]) * after["reading_ns"]
    application_ns = after["application_ns"] - before["application_ns"]
    report["application_us"] = (application_ns - readings_ns) / requests / 1e3
    outside_ns = (cpu_s * 1e9 - application_ns - readings_ns) / requests
    report["server_us"] = (outside_ns - after["device_ns"]) / 1e3
    return report


def _application_time(server: Server) -> dict[str, float]:
    """Ask the application what it has counted. Raises: UnavailableError."""
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{server.port}/application-time", timeout=5.0
        ) as response:
            figures: dict[str, float] = json.load(response)
    except OSError as error:
        raise UnavailableError(f"the application reports no time: {error}") from error
    return figures


def session_processes(leader: int) -> list[int]:
    """Give the processes of a session, its leader first."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields and int(fields[3]) == leader:
                found.append(int(entry.name))
    return sorted(found, key=lambda pid: (pid != leader, pid))


def session_cpu_s(leader: int) -> float:
    """Give the processor seconds that a session's processes have used so far."""
    return sum(process_cpu_s(pid) for pid in session_processes(leader))


def process_cpu_s(pid: int) -> float:
    """Give the processor seconds that a process has used so far; 0 if it is gone."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND if fields else 0.0


def _stat(pid: int) -> list[str]:
    """Give the fields of /proc/PID/stat after the name: state, parent, group, session, ..."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def cores_s(cores: set[int]) -> tuple[float, float]:
    """Give the seconds that these cores were busy, and were stolen, so far."""
    busy = stolen = 0
    names = {f"cpu{core}" for core in cores}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *words = line.split()
        if name in names:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, words[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
    return busy / TICKS_PER_SECOND, stolen / TICKS_PER_SECOND


def is_noisy(trial: dict[str, Any]) -> bool:
    """Report whether something else took so much of the cores that the figure is in doubt."""
    return bool(trial.get("others_cpu", 0) > 0.1 or trial.get("steal", 0) > 0.02)


def resident_bytes(pid: int) -> int:
    """Give the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def memory(server: Server) -> dict[str, Any]:
    """Measure the worker's memory at start and with 10,000 idle connections.

    Each connection made one request, and got its response. The worker is the process that this kept
    busy. Raises: UnavailableError.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    processes = session_processes(server.process.pid)
    start_bytes = {pid: resident_bytes(pid) for pid in processes}
    start_cpu_s = {pid: process_cpu_s(pid) for pid in processes}
    request = request_bytes(server.port, DEF_1)
    held: list[socket.socket] = []
    poll = select.poll()
    try:
        for _ in range(IDLE_CONNECTIONS):
            stream = socket.create_connection(("127.0.0.1", server.port), timeout=5.0)
            held.append(stream)
            stream.sendall(request)
            if not stream.recv(4096).endswith(server.body):
                raise UnavailableError(f"connection {len(held)} got no response")
            poll.register(stream, select.POLLIN)
        ended = len(poll.poll(200))
        worker = max(processes, key=lambda pid: process_cpu_s(pid) - start_cpu_s[pid])
        growth = resident_bytes(worker) - start_bytes[worker]
    except OSError as error:
        raise UnavailableError(f"connection {len(held) + 1}: {error}") from error
    finally:
        for stream in held:
            stream.close()
    if ended:
        raise UnavailableError(f"{ended} of {IDLE_CONNECTIONS} idle connections were ended")
    return {
        "start_bytes": start_bytes[worker],
        "idle_bytes_each": growth / IDLE_CONNECTIONS,
        "all_processes_start_bytes": list(start_bytes.values()),
    }
