"""The rows of the fault matrix: what goes wrong, how it is produced, what the server promises.

`python -m faults.rows` lists the tests of other folders that prove rows, for the command line.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One fault."""

    number: int
    fault: str
    made: str
    promise: str
    proofs: tuple[str, ...] = ()
    """Tests of other folders; those of this folder name their row."""
    why: str = ""
    """Why requests are lost, or the row has no test."""


ROWS = (
    Row(
        1,
        "A worker is killed under load",
        "4 workers, 16 clients; KILL to one of the workers every 2 s",
        "Only requests that this worker had begun end without a response. The socket that all "
        "workers share keeps new connections. The next worker responds within 1 s.",
        why="A killed process cannot respond. What it had begun is lost.",
    ),
    Row(
        2,
        "Reload and upgrade under load",
        "at least 20 HUP, and 10 USR2, under load of HTTP/1.1 (kept, pipelined, closed), HTTP/2, "
        "uploads, streams and WebSockets; processes of an upgrade that end, hang and are stopped",
        "No request is lost. A broken application leaves the workers that serve, and a new process "
        "that fails leaves the old one.",
        (
            "tests/server/test_reload_ledger.py",
            "tests/server/test_reload.py::test_a_broken_application_leaves_the_workers_before",
            "tests/server/process/test_upgrade.py::test_10_upgrades_lose_nothing",
            "tests/server/process/test_upgrade.py::test_a_new_process_that_hangs_is_ended",
            "tests/server/process/test_handover.py",
        ),
    ),
    Row(
        3,
        "Stop under load",
        "TERM with long requests, streams, pipelines, HTTP/2 and a WebSocket in flight",
        "What was begun is finished. WebSockets are closed with 1012. Exit code 0. A second TERM "
        "stops at once.",
        (
            "tests/protocol/test_stopping.py",
            "tests/server/test_supervisor.py::test_second_signal_stops_now",
            "tests/server/test_supervisor.py::test_graceful_time_is_a_bound",
            "tests/http2/test_leaving.py",
        ),
    ),
    Row(
        4,
        "A client uses a connection when its keep-alive time ends",
        "the next request is sent within 5 ms of the end of the time",
        "A response, or an orderly close before the request was begun. No reset.",
    ),
    Row(
        5,
        "The application raises",
        "6 exceptions, SystemExit and KeyboardInterrupt among them, before the response, within "
        "it, and when it is closed",
        "500, or a response that is visibly cut. One traceback. Other requests go on.",
        ("tests/native/test_asyncio.py", "tests/asgi/test_failure.py"),
    ),
    Row(
        6,
        "The application does not come back",
        "an endless loop, a GIL that is not released, a sleep, a deadlock, a crash (SIGSEGV)",
        "The other worker serves. The stacks are logged, and the worker is replaced.",
        ("tests/server/process/test_heartbeat.py",),
        why="The request that hangs ends without a response: the one that is lost in each line.",
    ),
    Row(
        7,
        "Workers fail to start",
        "the import raises, once the server runs; at its start",
        "Starts follow with growing delays, and the other worker serves. At the start: exit "
        "code 2 or 3.",
        (
            "tests/server/test_supervisor.py::test_replacements_come_ever_later",
            "tests/server/test_supervisor.py::test_startup_that_fails_stops_the_server",
        ),
    ),
    Row(
        8,
        "The supervisor is killed",
        "KILL and SEGV to the supervisor under load",
        "Its workers notice, finish what they have begun, and end. The port is free.",
        ("tests/server/test_supervisor.py::test_worker_that_hangs_ends_with_a_killed_supervisor",),
    ),
    Row(
        9,
        "No descriptors are left",
        "64 descriptors, 200 clients that hold connections, 8 that send requests",
        "Clients that are served stay so. The worker does not turn, and recovers by itself.",
        ("tests/behaviour/test_descriptors.py",),
    ),
    Row(
        10,
        "No memory is left",
        "RLIMIT_AS, responses of 100 MB; a cgroup of 256 MiB, a response of 400 MB",
        "500 for the request without memory. A worker that the kernel ends is replaced.",
        ("tests/protocol/test_no_memory.py",),
        why="The request of the worker that the kernel ended.",
    ),
    Row(
        11,
        "Clients leave",
        "a reset or a close within a handshake, a head, content, before and within a response; "
        "plain and TLS",
        "Nobody else notices. Descriptors are then as before, and nothing is logged as an error.",
    ),
    Row(
        12,
        "Clients close their side after the request",
        "shutdown(SHUT_WR), the response takes 100 ms",
        "They get the response, and nothing turns meanwhile.",
    ),
    Row(
        13,
        "Clients leave while their requests wait",
        "a reset while requests wait for the one before; for a thread",
        "What nobody waits for is not begun.",
        ("tests/wsgi/test_threads.py::test_60_a_request_whose_client_has_gone_is_not_begun",),
    ),
    Row(
        14,
        "The address cannot be used",
        "a port that is used, one that is lost, IPv6, files in the place of sockets",
        "One line that names the address and the remedy. Exit code 2.",
        (
            "tests/server/test_supervisor.py::test_port_in_use",
            "tests/server/test_listener.py",
            "tests/server/test_start_mistakes.py",
        ),
    ),
    Row(
        15,
        "A log cannot be written",
        "a file system of 1 MiB that is full for a while; /dev/full; a pipe whose reader has left; "
        "standard error that nobody reads",
        "Serving goes on. One warning; each line is in the log or counted.",
        ("tests/server/test_stderr.py", "tests/server/test_streams.py"),
    ),
    Row(
        16,
        "Logs are rotated under load",
        "the file is renamed, then USR1",
        "No line is lost or split.",
        ("tests/server/process/test_access_log.py",),
    ),
    Row(
        17,
        "The clock jumps",
        "one hour forward and back, by libfaketime, "
        "for Python; the core reads its clocks without libc, which libfaketime does not reach",
        "Timeouts, lifetimes and the watchdog go by the monotonic clock.",
        ("tests/protocol/test_clock.py",),
    ),
    Row(
        18,
        "Many idle connections",
        "they are opened, send one request, and stay; as many as there may be, and new clients; "
        "the same with uploads of a few octets per second",
        "Memory per connection is below 4 KiB, the processor is idle, new clients do not wait. "
        "The oldest idle connections are closed for new ones, then the slowest uploads end.",
        ("tests/server/test_idle.py",),
    ),
    Row(
        19,
        "Many idle WebSockets",
        "a ping interval of 5 s",
        "Each gets its pings; they are spread over time.",
    ),
    Row(
        20,
        "A slow request among pipelined ones",
        "1 that takes 1 s and 100 fast ones at once, on several connections",
        "Responses keep their order. Other connections do not wait.",
    ),
    Row(
        21,
        "Long uploads",
        "counted and hashed by the application; length announced, chunked, HTTP/2",
        "Every octet arrives. Memory grows by 16 MiB at most.",
        (
            "tests/native/test_asyncio_stream.py",
            "tests/protocol/test_unread_content.py",
            "tests/http2/test_windows.py",
        ),
        why="WSGI has no content of unknown length, so a chunked one is held as a whole, up to "
        "`body_bytes_max`, and not measured here.",
    ),
    Row(
        22,
        "Long downloads",
        "from generators, beside 10 clients that read slowly",
        "Generators wait for their readers, so memory stays flat.",
        ("tests/protocol/test_memory.py", "tests/native/test_asyncio_stream.py"),
    ),
    Row(
        23,
        "Slow readers beside fast clients",
        "clients that read nothing of 8 MB; 99 % of the requests of a fast one",
        "Fast clients do not wait for slow ones.",
        ("tests/protocol/test_slow_readers.py",),
    ),
    Row(
        24,
        "The network fails",
        "a proxy that delays by 20 ms, passes 7 bytes at a time, then resets; one that is silent "
        "without FIN or RST",
        "Requests are served. Each state of a connection has a deadline.",
    ),
    Row(
        25,
        "Certificates change under load",
        "a broken key and HUP, then a valid pair and HUP, with TLS clients",
        "The pair of before stays while the new one is not valid. No connection fails.",
        ("tests/tls/test_reload.py", "tests/tls/test_selection.py"),
    ),
    Row(
        26,
        "Forks",
        "`--preload` with 3 workers; threads and processes of the application",
        "Workers have random numbers of their own; no lock is copied while it is held.",
        (
            "tests/server/test_forks.py",
            "tests/behaviour/test_forked.py",
            "tests/server/process/test_preload.py",
        ),
    ),
    Row(
        27,
        "An ASGI application blocks its loop",
        "1.5 s, with timeouts of connections of 0.5 s; 40 requests arrive meanwhile",
        "They are served afterwards. The time does not count against their clients.",
        ("tests/protocol/test_clock.py",),
    ),
    Row(
        28,
        "Many signals at once",
        "HUP, TTIN, CHLD, TTOU, USR1 in every order, then TERM among them",
        "They are handled one after the other. A worker serves all the time; exit code 0.",
        ("tests/server/test_supervisor.py::test_signals_that_come_together_are_one",),
    ),
    Row(
        29,
        "The first process of a container",
        "unshare --pid --fork; orphans of the application",
        "Orphans are reaped and not judged as workers. TERM drains.",
        ("tests/server/process/test_first_process.py",),
    ),
    Row(
        30,
        "Weeks of traffic",
        "`make soak`: servers of every interface, plain and with TLS; HTTP/1.1 (kept, pipelined, "
        "closed), HTTP/2, uploads, streams, WebSockets, exceptions, clients that leave",
        "Nothing is lost, and counts of clients and applications agree. Memory, descriptors, "
        "threads and tasks of each process have no trend, and nothing is left afterwards.",
        ("tests/protocol/test_endurance.py",),
        why="Weeks were not measured.",
    ),
    Row(
        31,
        "Free-threaded builds, subinterpreters",
        "-",
        "Neither is supported, and `pip` finds no wheel for free-threaded builds.",
        why="Not claimed.",
    ),
)


def proofs() -> list[str]:
    """Return the tests of other folders, each once."""
    return sorted({proof for row in ROWS for proof in row.proofs})


if __name__ == "__main__":
    print("\n".join(proofs()))
