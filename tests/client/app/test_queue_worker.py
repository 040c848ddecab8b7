"""The worker of a queue on a virtual clock: a record that comes again while its former delivery still runs."""

from __future__ import annotations

import asyncio

from tests.client.app.memory_clients import MemoryClients
from tests.client.app.test_stream_worker import Running, simulated

from qanat.client.app.app import App
from qanat.client.app.context import Context


def test_a_delivery_that_overtakes_the_end_of_the_former_is_cancelled_when_its_own_lock_is_lost() -> None:
    async def scene() -> None:
        app, seen = App("x:1"), []

        @app.queue("orders", group="g", concurrency=2)
        async def work(order: bytes, ctx: Context) -> None:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                seen.append((ctx.fencing_token, ctx.is_cancelled))
                await asyncio.sleep(1)  # The next delivery begins before this one has ended.
                raise

        async with Running(app, MemoryClients(), for_s=0.1) as running:
            (queue,) = running.clients.queues
            queue.deliver(7, 1)
            await asyncio.sleep(0.1)
            queue.lose_lock(7)
            queue.deliver(7, 2)
            await asyncio.sleep(0.1)
            assert seen == [(1, True)]
            await asyncio.sleep(5)
            assert 'qanat_app_records_held{handler="work",group="g"} 1' in app.metrics(), "the second still runs"
            queue.lose_lock(7)
            await asyncio.sleep(5)
            assert seen == [(1, True), (2, True)]
            assert queue.said == []

    simulated(scene())


def test_a_stop_waits_for_a_delivery_whose_former_one_has_ended() -> None:
    async def scene() -> None:
        app = App("x:1", grace=30)

        @app.queue("orders", group="g", concurrency=2)
        async def work(order: bytes, ctx: Context) -> None:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                await asyncio.sleep(0.5)  # It ends after the next delivery has begun, and must not take that with it.
                raise

        async with Running(app, MemoryClients(), for_s=0.1) as running:
            (queue,) = running.clients.queues
            queue.deliver(7, 1)
            await asyncio.sleep(0.1)
            queue.lose_lock(7)
            queue.deliver(7, 2)
            await asyncio.sleep(1)
        assert queue.said == [(7, 2, "ACCEPT")]
        assert queue.is_closed

    simulated(scene())
