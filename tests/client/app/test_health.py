"""Health on a virtual clock: what gets no further makes an app ill, and what merely takes long does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from tests.client.app.memory_clients import MemoryClients, raw, raws
from tests.client.app.test_stream_worker import P0, Order, Running, simulated

from qanat.client.app.app import App
from qanat.client.app.context import Context
from qanat.client.app.retry import Retry
from qanat.model.errors import QanatError


def test_a_record_that_fails_for_a_minute_makes_the_app_ill_until_it_succeeds() -> None:
    async def scene() -> None:
        app, seen, is_away = App("x:1"), [], True

        @app.stream("orders", group="billing", retry=Retry(backoff="5s"))
        async def bill(order: Order) -> None:
            if order.id == 1 and is_away:
                raise OSError("away")
            seen.append(order.id)

        clients = MemoryClients(*raws(3, lambda i: b"%d" % i))
        async with Running(app, clients, 50):
            assert seen == [0, 2]
            assert app.health()
            await asyncio.sleep(20)
            reason = app.health().reason
            assert (
                "handler bill of orders makes no progress: handler bill (group billing), orders-0 at offset 1 "
                in reason
            )
            assert reason.endswith("times: OSError('away')")
            is_away = False
            await asyncio.sleep(10)
            assert app.health()
            assert clients.committed == {P0: 3}

    simulated(scene())


def test_a_failing_record_of_a_partition_that_has_gone_is_somebody_elses() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", retry=Retry(backoff="5s"))
        async def bill(order: Order) -> None:
            raise OSError("away")

        clients = MemoryClients(*raws(1))
        async with Running(app, clients, 100):
            assert not app.health()
            await clients.consumers[0].owner.on_lost([P0])
            assert app.health()

    simulated(scene())


def test_a_single_failure_with_a_long_pause_is_no_illness() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", retry=Retry(backoff="10m"))
        async def bill(order: Order, ctx: Context) -> None:
            if ctx.attempt == 1:
                raise OSError("away")

        async with Running(app, MemoryClients(*raws(1)), 200):
            assert app.health()

    simulated(scene())


@pytest.mark.parametrize("timeout", [None, "2h"])
def test_a_handler_that_runs_for_an_hour_is_well(timeout: str | None) -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", timeout=timeout)
        async def bill(order: Order) -> None:
            await asyncio.sleep(3600)

        async with Running(app, MemoryClients(*raws(2)), 3000):
            assert app.health()

    simulated(scene())


def test_a_coroutine_that_ignores_its_timeout_makes_the_app_ill() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", timeout="30s")
        async def bill(order: Order) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(60)

        async with Running(app, MemoryClients(*raws(1)), 35):
            assert app.health()
            await asyncio.sleep(10)
            assert app.health().reason == "handler bill of orders makes no progress: goes on after its timeout of 30 s"
            await asyncio.sleep(60)
            assert app.health()

    simulated(scene())


def test_commits_that_fail_make_the_app_ill_though_polls_succeed() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders")
        async def bill(order: Order) -> None: ...

        clients = MemoryClients(*raws(3))
        clients.commit_faults = [QanatError("not authorized")] * 1000
        async with Running(app, clients, 5):
            assert app.health()
            await asyncio.sleep(20)
            assert "s: offsets cannot be committed: not authorized" in app.health().reason
            clients.commit_faults.clear()
            await asyncio.sleep(6)
            assert app.health()

    simulated(scene())


def test_a_dead_letter_that_cannot_be_written_makes_the_app_ill() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", retry=Retry(1), dead_letter="dlq")
        async def bill(order: Order) -> None:
            raise RuntimeError("no")

        clients = MemoryClients(*raws(1))
        clients.send_faults = [QanatError("no such topic")] * 1000
        async with Running(app, clients, 5):
            assert app.health()
            await asyncio.sleep(10)
            assert "offset 0 cannot be written: no such topic" in app.health().reason
            clients.send_faults.clear()
            await asyncio.sleep(3)
            assert app.health()

    simulated(scene())


def test_a_queue_with_which_nothing_succeeds_makes_the_app_ill() -> None:
    async def scene() -> None:
        app, failing = App("x:1"), {1, 2}

        @app.queue("orders", group="g", retry=Retry(backoff="1s"))
        async def work(order: bytes, ctx: Context) -> None:
            if ctx.record.offset in failing:
                raise OSError("away")

        async with Running(app, MemoryClients(), 1) as running:
            (queue,) = running.clients.queues
            for count in range(1, 7):
                queue.deliver(1, count)
                assert app.health()
                await asyncio.sleep(10)
            queue.deliver(1, 7)
            await asyncio.sleep(1)
            assert "orders-0 at offset 1 has failed, as all since the last success: OSError" in app.health().reason
            queue.deliver(3, 1)
            await asyncio.sleep(2)
            assert app.health(), "another record is handled"
            queue.deliver(2, 1)
            await asyncio.sleep(3600)
            queue.deliver(1, 9)
            await asyncio.sleep(2)
            assert app.health(), "two failures in an hour are no row of failures"

    simulated(scene())


def test_a_batch_that_fails_for_a_minute_makes_the_app_ill() -> None:
    async def scene() -> None:
        app, is_away = App("x:1"), True

        @app.table_batch("orders", retry=Retry(backoff="5s"))
        async def load(batch: pa.RecordBatch) -> None:
            if is_away:
                raise OSError("away")

        clients: Any = MemoryClients(raw(0), raw(1))
        async with Running(app, clients, 50):
            assert app.health()
            await asyncio.sleep(20)
            assert "a batch of orders-0 up to offset 1 has failed " in app.health().reason
            is_away = False
            await asyncio.sleep(10)
            assert app.health()

    simulated(scene())
