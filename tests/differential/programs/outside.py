"""What runs beside the loop: threads, processes, signals; and loops within loops."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import warnings
from typing import Any

from differential.programs.table import Receive, Scope, Send, outcome, program, shown


def is_main() -> bool:
    """Return whether this is the main thread."""
    return threading.current_thread() is threading.main_thread()


def raises(error: BaseException) -> None:
    """Raise."""
    raise error


@program()
async def to_thread(scope: Scope, receive: Receive, send: Send) -> Any:
    return [
        await asyncio.to_thread(is_main),
        await outcome(asyncio.to_thread(raises, ValueError("in a thread"))),
        await asyncio.gather(*(asyncio.to_thread(pow, n, 2) for n in range(8))),
    ]


@program()
async def executor_of_the_program(scope: Scope, receive: Receive, send: Send) -> Any:
    loop = asyncio.get_running_loop()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = loop.run_in_executor(pool, is_main)
        seen = [asyncio.isfuture(first), first.done(), await first]
        wrapped = asyncio.wrap_future(pool.submit(pow, 2, 5))
        return [seen, await wrapped, is_main()]


@program()
async def thread_is_abandoned(scope: Scope, receive: Receive, send: Send) -> Any:
    gate = threading.Event()
    try:
        return await outcome(asyncio.wait_for(asyncio.to_thread(gate.wait, 10), 0.001))
    finally:
        gate.set()


@program(rounds=1)
async def process_pool(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, context = asyncio.get_running_loop(), multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        given = await loop.run_in_executor(pool, pow, 2, 10)
        return [given, await outcome(loop.run_in_executor(pool, int, "no number"))]


@program(rounds=1)
async def forked_process(scope: Scope, receive: Receive, send: Send) -> Any:
    """Fork without more: the child leaves at once, and the server goes on."""
    ends = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of threads, which the child ignores
        child = os.fork()
    if child == 0:
        os.write(ends[1], b"child")
        os._exit(7)
    seen = await asyncio.to_thread(os.read, ends[0], 10)
    for each in ends:
        os.close(each)
    return [seen.decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]


@program()
async def subprocess_with_pipes(scope: Scope, receive: Receive, send: Send) -> Any:
    child = await asyncio.create_subprocess_exec(
        "cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, errors = await child.communicate(b"through a pipe")
    return [out.decode(), errors.decode(), child.returncode]


@program()
async def subprocess_line_by_line(scope: Scope, receive: Receive, send: Send) -> Any:
    child = await asyncio.create_subprocess_shell(
        "echo one; read word; echo $word; exit 3", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None and child.stdout is not None
    lines = [(await child.stdout.readline()).decode()]
    child.stdin.write(b"two\n")
    await child.stdin.drain()
    lines.append((await child.stdout.readline()).decode())
    return [lines, await child.wait()]


@program()
async def subprocess_is_killed(scope: Scope, receive: Receive, send: Send) -> Any:
    child = await asyncio.create_subprocess_exec("sleep", "10")
    seen = await outcome(asyncio.wait_for(child.wait(), 0.001))
    child.kill()
    return [seen, await child.wait()]


@program()
async def subprocess_that_is_missing(scope: Scope, receive: Receive, send: Send) -> Any:
    return (await outcome(asyncio.create_subprocess_exec("./no-such-program")))[0]


@program()
async def child_process_is_awaited_by_hand(scope: Scope, receive: Receive, send: Send) -> Any:
    """Wait as the standard library does, which no watcher may disturb."""
    done = await asyncio.to_thread(subprocess.run, ["true"], check=False)
    return [done.returncode, subprocess.run(["sh", "-c", "exit 4"], check=False).returncode]


@program()
async def signal_handler_of_the_loop(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, seen = asyncio.get_running_loop(), []
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
        heard = asyncio.Event()
        loop.add_signal_handler(number, heard.set)
        try:
            os.kill(os.getpid(), number)
            await asyncio.wait_for(heard.wait(), 5)
            seen.append(heard.is_set())
        finally:
            seen.append(loop.remove_signal_handler(number))
    return [seen, loop.remove_signal_handler(signal.SIGUSR1)]


@program()
async def signal_handler_of_python(scope: Scope, receive: Receive, send: Send) -> Any:
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: seen.append(number))
    try:
        signal.raise_signal(signal.SIGALRM)
        at_once = list(seen)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        while len(seen) < 2:
            await asyncio.sleep(0.001)
    finally:
        signal.signal(signal.SIGALRM, before)
    return [at_once, seen]


@program()
async def signal_interrupts_a_waiting_loop(scope: Scope, receive: Receive, send: Send) -> Any:
    loop = asyncio.get_running_loop()
    heard, start = loop.create_future(), loop.time()
    before = signal.signal(signal.SIGALRM, lambda number, _: heard.set_result(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        return [await outcome(asyncio.wait_for(heard, 3)), loop.time() - start < 2]
    finally:
        signal.signal(signal.SIGALRM, before)


@program()
async def coroutine_from_a_thread(scope: Scope, receive: Receive, send: Send) -> Any:
    loop = asyncio.get_running_loop()

    async def work() -> list[Any]:
        await asyncio.sleep(0)
        return [is_main(), asyncio.get_running_loop() is loop]

    async def fails() -> None:
        raise LookupError("asked")

    def thread() -> list[Any]:
        seen = asyncio.run_coroutine_threadsafe(work(), loop).result(5)
        try:
            asyncio.run_coroutine_threadsafe(fails(), loop).result(5)
        except LookupError as error:
            return [seen, shown(error)]
        return seen

    return await asyncio.to_thread(thread)


@program()
async def callback_from_a_thread_wakes_the_loop(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
    gate = threading.Event()

    def thread() -> None:
        gate.wait(5)
        loop.call_soon_threadsafe(future.set_result, is_main())

    worker = threading.Thread(target=thread)
    worker.start()
    loop.call_later(0.001, gate.set)
    try:
        return await asyncio.wait_for(future, 5)
    finally:
        worker.join()


@program()
async def loop_of_a_thread(scope: Scope, receive: Receive, send: Send) -> Any:
    async def work() -> str:
        await asyncio.sleep(0.001)
        return "ran"

    return await asyncio.to_thread(asyncio.run, work())


@program()
async def loop_within_the_loop(scope: Scope, receive: Receive, send: Send) -> Any:
    loop, seen = asyncio.get_running_loop(), []
    for run in (asyncio.run, loop.run_until_complete, asyncio.new_event_loop().run_until_complete):
        work = asyncio.sleep(0)
        try:
            run(work)
        except RuntimeError as error:
            seen.append(str(error))
        work.close()
        owner = getattr(run, "__self__", loop)
        if owner is not loop:
            owner.close()
    await asyncio.sleep(0)
    return [seen, asyncio.get_running_loop() is loop]


@program()
async def loop_says_that_it_runs(scope: Scope, receive: Receive, send: Send) -> Any:
    loop = asyncio.get_running_loop()
    return [loop.is_running(), loop.is_closed(), asyncio.get_event_loop() is loop]


@program(is_alone=True, rounds=2)
async def default_executor_is_shut_down(scope: Scope, receive: Receive, send: Send) -> Any:
    await asyncio.get_running_loop().shutdown_default_executor()
    return await outcome(asyncio.to_thread(is_main))


@program()
async def standard_streams(scope: Scope, receive: Receive, send: Send) -> Any:
    return [sys.stdin.read(), sys.stdout.writable(), sys.stderr.writable()]
