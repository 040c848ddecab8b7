from __future__ import annotations

import asyncio
import os
import threading

import pytest

from qanat.client import AsyncConsumer, AsyncProducer, AsyncQueueConsumer
from qanat.client.errors import ClosedError, ForkedError
from qanat.client.io_loop import IoLoop
from qanat.testing import EmbeddedBroker


async def where() -> str:
    return threading.current_thread().name


def test_work_runs_in_the_thread_and_its_result_comes_back() -> None:
    io = IoLoop.start("the client")
    assert io.submit(where()).result() == "the client"
    io.close()
    with pytest.raises(ClosedError, match="the client is closed"):
        io.submit(where())


def test_an_async_caller_waits_without_blocking_its_loop() -> None:
    async def main() -> tuple[str, str]:
        io = IoLoop.start("the client")
        here = IoLoop.here()
        try:
            return await io.run(where()), await here.run(where())
        finally:
            io.close()

    assert asyncio.run(main()) == ("the client", threading.current_thread().name)


def test_closing_cancels_what_still_runs() -> None:
    io = IoLoop.start("the client")
    ended = threading.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    work = io.submit(wait_for_ever())
    io.submit(where()).result()
    io.close()
    assert ended.is_set()
    assert work.cancelled()


def test_a_client_from_before_a_fork_says_so_in_the_child() -> None:
    io = IoLoop.start("the client")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            io.check()
        except ForkedError as fault:
            os.write(writing, str(fault).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    said = os.read(reading, 1000).decode()
    os.close(reading)
    os.close(writing)
    io.close()
    assert "make a client after the fork" in said


def test_clients_that_are_open_end_with_their_loop_without_a_word(
    caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    async def scene(address: str) -> None:
        io = IoLoop.start("shared")
        producer = AsyncProducer(address, io=io)
        await (await producer.send("orders", b"1"))
        consumer = AsyncConsumer(address, "orders", group="billing", auto_offset_reset="earliest", io=io)
        await consumer.start()
        assert len(await consumer.poll(timeout_s=10)) == 1
        queue = AsyncQueueConsumer(address, "orders", group="workers", io=io)
        await queue.start()
        await asyncio.to_thread(io.close)
        with pytest.raises(ClosedError, match="shared is closed"):
            await consumer.poll()
        await producer.close()
        await consumer.close()
        await queue.close()

    with EmbeddedBroker() as broker:
        broker.create_topic("orders")
        asyncio.run(scene(broker.bootstrap_servers))
    assert [record.getMessage() for record in caplog.records if "asyncio" in record.name] == []
    assert [str(one.message) for one in recwarn.list] == []
