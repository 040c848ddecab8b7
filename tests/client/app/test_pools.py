"""Threads and processes of handlers: what dies or takes too long, and what that does to other records."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.client.app import process_handlers
from tests.client.app.memory_clients import MemoryClients, raw, raws
from tests.client.app.test_stream_worker import P0

from qanat.client import App, Context, Retry
from qanat.client.app.daemon_threads import DaemonThreads
from qanat.client.app.handler_processes import HandlerProcessError
from qanat.client.app.health import STALL_TIMEOUT_S, Part
from qanat.client.app.pools import Call, Pools
from qanat.client.app.worker import AppWorker
from qanat.client.io_loop import IoLoop


@contextmanager
def called(function: Callable[..., Any], part: Part | None = None, **options: Any) -> Iterator[Call]:
    """A handler as its worker calls it."""
    app, pools = App("x:1"), Pools()
    app.stream("orders", **options)(function)
    try:
        yield pools.call_of(app.handlers[-1], part)
    finally:
        pools.close()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


async def serve(app: App, clients: MemoryClients, until: Callable[[], bool]) -> None:
    """Run an app in real time until something has happened, and stop it."""
    worker = AppWorker(app, IoLoop.here(), Random(1), clients)
    task = asyncio.create_task(app.serve_worker(worker))
    async with asyncio.timeout(30):
        while not until():
            await asyncio.sleep(0.01)
            assert not task.done(), task
    worker.stop()
    await task


# Processes


def test_a_handler_that_holds_the_interpreter_runs_in_another_process() -> None:
    async def scene(call: Call) -> None:
        with pytest.raises(RuntimeError, match=r"^49 in ") as caught:
            await call(7, None)
        assert str(os.getpid()) not in str(caught.value)
        assert "in squared" in caught.value.__notes__[0]

    with called(process_handlers.squared, run_in="process") as call:
        asyncio.run(scene(call))


def test_a_process_that_is_killed_fails_its_own_record_and_the_next_gets_a_new_one() -> None:
    async def scene(call: Call) -> None:
        first, second = await asyncio.gather(call(b"", None), call(b"", None))
        assert first != second
        running = [asyncio.ensure_future(call(b"", None)) for _ in range(2)]
        await asyncio.sleep(0.1)
        os.kill(first, signal.SIGKILL)
        outcomes = await asyncio.gather(*running, return_exceptions=True)
        assert second in outcomes
        (fault,) = [one for one in outcomes if isinstance(one, Exception)]
        assert isinstance(fault, HandlerProcessError)
        assert str(fault) == f"the process {first} of slow_pid was killed by signal 9"
        assert first not in await asyncio.gather(call(b"", None), call(b"", None))

    with called(process_handlers.slow_pid, run_in="process", concurrency=2) as call:
        asyncio.run(scene(call))


def test_an_idle_process_that_is_killed_fails_no_record() -> None:
    async def scene(call: Call) -> None:
        first = await call(b"", None)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: not is_running(first))
        assert await call(b"", None) != first

    with called(process_handlers.own_pid, run_in="process") as call:
        asyncio.run(scene(call))


def test_a_record_whose_process_dies_is_tried_again_and_others_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    monkeypatch.setenv("SEEN", str(seen))
    app = App("x:1")
    app.stream("orders", run_in="process", concurrency=3, retry=Retry(3, backoff="10ms"))(
        process_handlers.dies_at_first
    )
    clients = MemoryClients(*(raw(at, b"bad" if at == 1 else b"good%d" % at) for at in range(5)))
    asyncio.run(serve(app, clients, lambda: clients.committed == {P0: 5}))
    assert sorted(seen.read_text().splitlines()) == ["bad 2", "good0 1", "good2 1", "good3 1", "good4 1"]


def test_a_process_that_takes_too_long_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))

    async def scene(call: Call) -> None:
        with pytest.raises(TimeoutError, match=r"^sleeps took longer than 0.3 s$"):
            await call(b"", None)
        pid = int((tmp_path / "seen").read_text())
        wait_until(lambda: not is_running(pid))

    with called(process_handlers.sleeps, run_in="process", timeout="300ms") as call:
        asyncio.run(scene(call))


def test_an_exception_that_cannot_be_carried_over_is_described() -> None:
    async def scene(call: Call) -> None:
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"^AwayError: host:9092 is away$"):
                await call(b"", None)

    with called(process_handlers.away, run_in="process") as call:
        asyncio.run(scene(call))


WORKER = """
import asyncio
from qanat.client.app.app import App
from qanat.client.app.pools import Pools
from tests.client.app import process_handlers

if __name__ == "__main__":
    app, pools = App("x:1"), Pools()
    app.stream("orders", run_in="process")(process_handlers.sleeps)
    asyncio.run(pools.call_of(app.handlers[0])(b"", None))
"""


def test_no_process_of_a_handler_outlives_a_worker_that_is_killed(tmp_path: Path) -> None:
    seen, script = tmp_path / "seen", tmp_path / "worker.py"
    script.write_text(WORKER)
    environment = {**os.environ, "SEEN": str(seen), "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    worker = subprocess.Popen([sys.executable, str(script)], env=environment)
    try:
        wait_until(lambda: seen.exists() and seen.read_text().endswith("\n"))
        pid = int(seen.read_text())
        assert is_running(pid)
    finally:
        worker.kill()
        worker.wait()
    wait_until(lambda: not is_running(pid))


# Threads


def test_a_thread_that_takes_too_long_keeps_its_key_until_it_ends() -> None:
    app, running, most, seen = App("x:1"), 0, 0, []
    guard = threading.Lock()

    @app.stream("orders", concurrency=4, timeout="100ms", retry=Retry(2, backoff="10ms"), dead_letter="dlq")
    def bill(order: bytes, ctx: Context) -> None:
        nonlocal running, most
        with guard:
            running += 1
            most = max(most, running)
        if ctx.record.offset == 0:
            time.sleep(0.4)
        with guard:
            seen.append((ctx.record.offset, ctx.attempt, ctx.is_cancelled))
            running -= 1
        if ctx.record.offset == 0:
            raise OSError("away")

    clients = MemoryClients(*raws(3, lambda i: b"k"))
    asyncio.run(serve(app, clients, lambda: clients.committed == {P0: 3}))
    assert most == 1, "one key runs one after another"
    assert seen == [(0, 1, True), (0, 2, True), (1, 1, False), (2, 1, False)]
    assert dict(clients.sent[0].headers)["__dlq.errors.message"] == b"TimeoutError: bill took longer than 0.1 s"


def test_a_thread_that_returns_late_has_handled_its_record() -> None:
    app, seen = App("x:1"), []

    @app.stream("orders", timeout="50ms")
    def bill(order: bytes) -> None:
        time.sleep(0.2)
        seen.append(order)

    clients = MemoryClients(*raws(2))
    asyncio.run(serve(app, clients, lambda: clients.committed == {P0: 2}))
    assert len(seen) == 2


def test_a_thread_whose_partition_is_revoked_keeps_its_slot_and_does_not_hold_up_the_stop() -> None:
    app, began = App("x:1", grace="100ms"), []
    blocking = threading.Event()

    @app.stream("orders", concurrency=1)
    def bill(order: bytes, ctx: Context) -> None:
        began.append((ctx.record.offset, ctx.is_cancelled))
        blocking.wait(20)
        began.append((ctx.record.offset, ctx.is_cancelled))

    async def scene() -> None:
        clients = MemoryClients(*raws(2))
        worker = AppWorker(app, IoLoop.here(), Random(1), clients)
        task = asyncio.create_task(app.serve_worker(worker))
        await asyncio.sleep(0.3)
        owner = clients.consumers[0].owner
        await owner.on_lost([P0])
        await owner.on_assigned([P0])
        clients.records += raws(2)
        await asyncio.sleep(0.5)
        assert began == [(0, False)], "nothing runs beside the thread that cannot be stopped"
        worker.stop()
        async with asyncio.timeout(5):
            await task
        assert began == [(0, False)]

    asyncio.run(scene())
    blocking.set()
    wait_until(lambda: (0, True) in began)
    assert began == [(0, False), (0, True)], "what had not begun at the end never does"


def test_a_call_that_goes_on_after_its_timeout_makes_its_part_ill() -> None:
    blocking = threading.Event()

    def bill(order: bytes, ctx: Context) -> None:
        blocking.wait(20)

    async def scene(call: Call, part: Part) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(call(b"", Context("bill", raw(7), 1, 0)))
        await asyncio.sleep(0.1)
        assert part.reason(loop.time() + 2 * STALL_TIMEOUT_S) == "", "its time is not over"
        await asyncio.sleep(0.3)
        assert part.reason(loop.time()) == "", "it may need a moment"
        assert part.reason(loop.time() + STALL_TIMEOUT_S) == (
            "bill makes no progress: orders-0 at offset 7 goes on after its timeout of 0.2 s"
        )
        blocking.set()
        await task
        assert part.reason(loop.time() + STALL_TIMEOUT_S) == ""

    part = Part("bill")
    with called(bill, part, timeout="200ms") as call:
        asyncio.run(scene(call, part))


def test_no_more_threads_begin_than_are_wanted_and_idle_ones_are_used() -> None:
    threads = DaemonThreads(2, "test")
    for _ in range(5):
        assert threads.submit(lambda: threading.current_thread().name).result(20) == "test_1"
        time.sleep(0.02)  # Its result comes before it is idle.
    gate = threading.Barrier(3)
    both = [threads.submit(gate.wait, 20) for _ in range(2)]
    late = threads.submit(time.monotonic)
    gate.wait(20)
    assert late.result(20) > 0
    assert all(one.result(20) >= 0 for one in both)
    begun = {one.name for one in threading.enumerate() if one.name.startswith("test_")}
    assert begun == {"test_1", "test_2"}
    threads.shutdown()
    with pytest.raises(RuntimeError, match="ended"):
        threads.submit(time.monotonic)
