"""How long locks are renewed, on a virtual clock: each record's time counts from when the user gets it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

import qanat.testing
from qanat.client import App, AsyncQueueConsumer, Context, IoLoop, Record
from qanat.testing.apps import AppRun

JOB_S = 20.0
LIMIT_S = 3 * JOB_S
LOCK_S = 30.0
Lost = list[tuple[float, int]]


class Job(msgspec.Struct):
    id: int


def test_jobs_of_one_fetch_may_take_longer_together_than_each_of_them() -> None:
    app = App("anywhere:9092")
    begun: list[tuple[int, int]] = []
    done: list[int] = []

    @app.queue("jobs", group="workers", concurrency=1, timeout_s=LIMIT_S)
    async def work(job: Job, ctx: Context) -> None:
        begun.append((job.id, ctx.attempt))
        await asyncio.sleep(JOB_S)
        done.append(job.id)

    with qanat.testing.run(app, topics={"jobs": 1}) as t:
        t.advance("5s")
        for number in range(10):
            t.send("jobs", Job(number))
        t.advance(11 * JOB_S)
    assert begun == [(number, 1) for number in range(10)]
    assert done == list(range(10))


def with_consumer(script: Callable[[AppRun, AsyncQueueConsumer, Lost], Coroutine[Any, Any, None]]) -> None:
    """Ten jobs, written at once, for a consumer that may take a minute for each."""
    lost: Lost = []

    async def play(t: AppRun) -> None:
        def note(_: object, offset: int, reason: str) -> None:
            lost.append((asyncio.get_running_loop().time(), offset))

        async with AsyncQueueConsumer(
            t.brokers.addresses, "jobs", group="g", io=IoLoop.here(), timeout_s=LIMIT_S, on_lock_lost=note
        ) as consumer:
            await consumer.poll(timeout_s=5)
            for number in range(10):
                await t._producer.send("jobs", b"%d" % number)
            await t._producer.flush()
            await script(t, consumer, lost)

    with qanat.testing.run(App("anywhere:9092"), topics={"jobs": 1}) as t:
        t._do(lambda: play(t))


def test_an_iterator_hands_out_one_record_after_another() -> None:
    async def script(t: AppRun, consumer: AsyncQueueConsumer, lost: Lost) -> None:
        seen: list[tuple[int, int | None]] = []
        async for job in consumer:
            seen.append((job.offset, job.delivery_count))
            await asyncio.sleep(JOB_S)
            await consumer.acknowledge(job)
            if len(seen) == 10:
                break
        await consumer.flush()
        assert seen == [(number, 1) for number in range(10)]
        assert lost == []

    with_consumer(script)


def test_a_job_that_takes_too_long_is_lost_alone() -> None:
    async def script(t: AppRun, consumer: AsyncQueueConsumer, lost: Lost) -> None:
        began_s = asyncio.get_running_loop().time()
        (stuck,) = await consumer.poll(1, timeout_s=10)
        await asyncio.sleep(2 * JOB_S)
        (young,) = await consumer.poll(1)
        await asyncio.sleep(LIMIT_S - 1)
        assert [offset for _, offset in lost] == [stuck.offset]
        assert LIMIT_S < lost[0][0] - began_s <= LIMIT_S + LOCK_S
        await consumer.acknowledge(young)
        others: list[Record[Any, Any]] = []
        while len(others) < 9:
            others += await consumer.poll(3)
        assert sorted((one.offset, one.delivery_count) for one in others) == [(stuck.offset, 2)] + [
            (offset, 1) for offset in range(2, 10)
        ]

    with_consumer(script)


@pytest.mark.parametrize("asks", [False, True])
def test_what_nobody_asks_for_is_left_to_others(asks: bool) -> None:
    async def script(t: AppRun, consumer: AsyncQueueConsumer, lost: Lost) -> None:
        await consumer.poll(1, timeout_s=10)
        await asyncio.sleep(2 * JOB_S)
        if asks:
            await consumer.poll(1)
        await asyncio.sleep(LIMIT_S)
        async with AsyncQueueConsumer(t.brokers.addresses, "jobs", group="g", io=IoLoop.here()) as other:
            found = await other.poll(timeout_s=LOCK_S / 2)
        assert [one.offset for one in found] == ([] if asks else list(range(10)))

    with_consumer(script)
