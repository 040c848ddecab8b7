"""Parked tasks end with the broker."""

from __future__ import annotations

import asyncio

from qanat.broker.runtime.parked_tasks import ParkedTasks


async def test_what_still_waits_is_cancelled_and_what_is_done_is_forgotten() -> None:
    parked = ParkedTasks()
    done, waiting = parked.park(asyncio.sleep(0, "done")), parked.park(asyncio.sleep(60))
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    other: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    parked.add(answer)
    parked.add(other)
    parked.discard(other)
    assert await done == "done"

    await parked.cancel()

    assert waiting.cancelled()
    assert answer.cancelled()
    assert not other.done()
    assert not done.cancelled()


async def test_cancelling_returns_when_everything_has_ended_and_raises_nothing() -> None:
    parked, ended = ParkedTasks(), []

    async def clean_up() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append(True)
            raise ValueError("in the end")

    parked.park(clean_up())
    await asyncio.sleep(0)

    await parked.cancel()

    assert ended == [True]
