"""Error handlers and named retry policies, on a virtual clock; queues and batches too."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from tests.client.app.memory_clients import MemoryClients, raw, raws
from tests.client.app.test_stream_worker import P0, Order, Running, simulated

from qanat.client.app.app import App
from qanat.client.app.context import Context
from qanat.client.app.handlers import HandlerFailedError, Reaction
from qanat.client.app.retry import Retry
from qanat.model.ids import TopicPartition
from qanat.telemetry.events import FIELDS

P1 = TopicPartition("orders", 1)


def test_pause_on_error_stops_at_the_record_until_the_app_is_resumed() -> None:
    async def scene() -> None:
        app, seen = App("x:1"), []
        is_broken = True

        @app.stream("orders", concurrency=4, order="partition", retry="PAUSE_ON_ERROR")
        async def bill(order: Order) -> None:
            seen.append(order.id)
            if order.id == 2 and is_broken:
                raise RuntimeError("no money")

        clients = MemoryClients(*raws(5), raw(0, b'{"id":100}', partition=1))
        async with Running(app, clients) as running:
            assert sorted(seen) == [0, 1, 2, 100]
            assert clients.committed == {P0: 2, P1: 1}
            assert clients.consumers[0].paused == {P0}
            assert app.health().reason == (
                "handler bill of orders is paused at orders-0: offset 2: RuntimeError: no money"
            )
            app.resume("bill")
            await asyncio.sleep(5)
            assert sorted(seen) == [0, 1, 2, 2, 100], "it is tried again, and pauses again"
            is_broken = False
            app.resume()
            await asyncio.sleep(5)
            assert clients.committed == {P0: 5, P1: 1}
            assert app.health()
            assert clients.consumers[0].paused == set()
            running.app.resume()

    simulated(scene())


def test_a_paused_partition_that_another_member_takes_no_longer_makes_the_worker_ill() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", retry="PAUSE_ON_ERROR")
        async def bill(order: Order) -> None:
            raise RuntimeError("no money")

        clients = MemoryClients(*raws(3))
        async with Running(app, clients):
            assert not app.health()
            await clients.consumers[0].owner.on_revoked([P0])
            assert app.health()
            assert clients.committed == {P0: 0}

    simulated(scene())


def test_skip_on_error_tries_once_and_goes_on_also_past_what_cannot_be_decoded() -> None:
    async def scene() -> None:
        app, tries = App("x:1"), []

        @app.stream("orders", retry="SKIP_ON_ERROR")
        async def bill(order: Order, ctx: Context) -> None:
            tries.append((order.id, ctx.attempt))
            raise RuntimeError("no money")

        clients = MemoryClients(*raws(2), raw(2, b"no json"))
        async with Running(app, clients):
            assert tries == [(0, 1), (1, 1)]
            assert clients.committed == {P0: 3}
            assert 'qanat_app_records_skipped_total{handler="bill",group="bill"} 3' in app.metrics()

    simulated(scene())


def test_exponential_then_fixed_tries_without_end_after_pauses_that_double_up_to_a_minute() -> None:
    async def scene() -> None:
        app, times = App("x:1"), []

        @app.stream("orders", retry="EXPONENTIAL_THEN_FIXED")
        async def bill(order: Order) -> None:
            times.append(asyncio.get_running_loop().time())
            raise RuntimeError("no money")

        async with Running(app, MemoryClients(*raws(1)), 3600):
            pauses = [later - earlier for earlier, later in pairwise(times)]
            assert all(2**i / 2 <= pause <= 2**i + 0.01 for i, pause in enumerate(pauses[:6]))
            assert all(30 <= pause <= 60.01 for pause in pauses[6:])
            assert len(pauses) > 60

    simulated(scene())


@pytest.mark.parametrize("is_async", [True, False])
def test_an_error_handler_decides_before_the_policy_does(is_async: bool) -> None:
    async def scene() -> None:
        app, asked = App("x:1"), []
        wishes: dict[int, Reaction | None] = {0: "skip", 1: "dead_letter", 2: "retry", 3: None}

        @app.stream("orders", retry=Retry(1), dead_letter="orders.dlq")
        async def bill(order: Order, ctx: Context) -> None:
            if order.id == 2 and ctx.attempt == 3:
                return
            raise ValueError(f"no {order.id}")

        def failed(fault: Exception, ctx: Context) -> Reaction | None:
            asked.append((str(fault)[:4], ctx.record.offset, ctx.attempt))
            return wishes.get(ctx.record.offset)

        async def failed_later(fault: Exception, ctx: Context) -> Reaction | None:
            await asyncio.sleep(0.1)
            return failed(fault, ctx)

        app.on_error(failed_later if is_async else failed)
        clients = MemoryClients(*raws(4), raw(4, b"no json"))
        async with Running(app, clients):
            assert clients.committed == {P0: 5}
            assert [one.value for one in clients.sent] == [b'{"id":1}', b'{"id":3}', b"no json"]
            assert [one[1:] for one in asked] == [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (2, 2)]

    simulated(scene())


def test_a_handler_has_an_error_handler_of_its_own_that_may_stop_the_app() -> None:
    async def scene() -> None:
        app = App("x:1")
        app.on_error(lambda fault, ctx: "skip")

        @app.stream("orders", on_error=lambda fault, ctx: "stop")
        async def bill(order: Order) -> None:
            raise RuntimeError("no money")

        clients = MemoryClients(*raws(1))
        async with Running(app, clients) as running:
            with pytest.raises(HandlerFailedError, match=r"orders-0 at offset 0 failed after 1 tries: .*no money"):
                await running.task
            running.task = asyncio.create_task(asyncio.sleep(0))
        assert clients.committed == {P0: 0}

    simulated(scene())


async def _hangs(fault: Exception, ctx: Context) -> Reaction:
    await asyncio.sleep(1000)
    return "skip"


def _raises(fault: Exception, ctx: Context) -> Reaction:
    raise KeyError("a bug")


@pytest.mark.parametrize(
    ("error_handler", "reason"),
    [
        (_hangs, "took longer than 10 s"),
        (_raises, "raised KeyError('a bug')"),
        (
            lambda fault, ctx: "give up",
            "answered 'give up', but must answer None, retry, dead_letter, skip, pause, stop",
        ),
        (lambda fault, ctx: ["skip"], "answered ['skip'], but must answer None"),
        (lambda fault, ctx: "dead_letter", "answered 'dead_letter', but bill has no dead_letter= topic"),
    ],
)
def test_a_bad_error_handler_is_reported_and_the_policy_decides(
    error_handler: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", retry=Retry(1), give_up="skip", on_error=error_handler)
        async def bill(order: Order) -> None:
            raise RuntimeError("no money")

        clients = MemoryClients(*raws(1))
        async with Running(app, clients):
            assert clients.committed == {P0: 1}

    simulated(scene())
    (event,) = [one for one in caplog.records if "an error handler failed" in one.getMessage()]
    fields = getattr(event, FIELDS)
    assert reason in fields["reason"]
    assert fields["at"] == "handler bill (group bill), orders-0 at offset 0"


def test_a_record_whose_partition_is_revoked_while_its_error_handler_thinks_frees_its_slot() -> None:
    async def scene() -> None:
        app, seen = App("x:1", grace="1s"), []

        @app.stream("orders", on_error=_hangs)
        async def bill(order: Order) -> None:
            seen.append(order.id)
            if order.id == 0:
                raise RuntimeError("no money")

        clients = MemoryClients(*raws(1), raw(0, b'{"id":7}', partition=1))
        async with Running(app, clients, 5):
            await clients.consumers[0].owner.on_revoked([P0])
            await asyncio.sleep(5)
            assert seen == [0, 7]
            assert clients.committed == {P0: 0, P1: 1}

    simulated(scene())


@pytest.mark.parametrize(("policy", "committed"), [("SKIP_ON_ERROR", {P0: 3}), ("PAUSE_ON_ERROR", {})])
def test_batches_are_skipped_or_pause_their_handler(policy: Any, committed: dict[TopicPartition, int]) -> None:
    async def scene() -> None:
        import pyarrow as pa  # type: ignore[import-untyped]

        app, tries = App("x:1"), []

        @app.table_batch("orders", retry=policy)
        async def load(batch: pa.RecordBatch) -> None:
            tries.append(batch.num_rows)
            if len(tries) == 1:
                raise RuntimeError("the lake is closed")

        clients = MemoryClients(*raws(3))
        async with Running(app, clients):
            assert tries == [3]
            assert clients.committed == committed
            if policy == "PAUSE_ON_ERROR":
                assert "is paused at orders-0 up to offset 2: RuntimeError: the lake is closed" in app.health().reason
                app.resume()
                await asyncio.sleep(1)
                assert tries == [3, 3]
                assert clients.committed == {P0: 3}
                assert app.health()

    simulated(scene())
