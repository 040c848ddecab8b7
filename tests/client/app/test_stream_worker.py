"""Workers of streams on a virtual clock: handlers, retries, dead letters, commits, transactions, stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from tests.client.app.memory_clients import MemoryClients, raw, raws

from qanat.client.app.app import App
from qanat.client.app.context import Context
from qanat.client.app.handlers import HandlerFailedError
from qanat.client.app.retry import Retry
from qanat.client.app.sending import Send
from qanat.client.app.worker import AppWorker
from qanat.client.io_loop import IoLoop
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.testing.simulation.loop import SimLoop

P0 = TopicPartition("orders", 0)


class Order(msgspec.Struct):
    id: int


def simulated(work: Coroutine[Any, Any, None]) -> None:
    """Run on a virtual clock."""
    loop = SimLoop(seed=1)
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(work)
    finally:
        asyncio.set_event_loop(None)
        loop.abandon()


class Running:
    """An app with clients in memory, run until its records are handled: `async with`."""

    def __init__(self, app: App, clients: MemoryClients, for_s: float = 60.0) -> None:
        self.app, self.clients, self._for_s = app, clients, for_s
        self.worker = AppWorker(app, IoLoop.here(), Random(1), clients)

    async def __aenter__(self) -> Running:
        self.task = asyncio.create_task(self.app.serve_worker(self.worker))
        await asyncio.sleep(self._for_s)
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.app.stop()
            await self.task


def test_every_record_is_handled_in_its_type_and_committed() -> None:
    async def scene() -> None:
        app, seen = App("x:1"), []

        @app.stream("orders")
        async def bill(order: Order) -> None:
            seen.append(order.id)

        async with Running(app, MemoryClients(*raws(1200))) as running:
            assert seen == list(range(1200))
            assert running.clients.committed == {P0: 1200}
            assert app.health()
            assert 'qanat_app_records_handled_total{handler="bill",group="bill"} 1200' in app.metrics()
        assert running.clients.consumers[0].is_closed
        assert not app.health()
        assert app.health().reason == "the app does not run"

    simulated(scene())


def test_at_most_concurrency_handlers_run_at_once_and_keys_keep_their_order() -> None:
    async def scene() -> None:
        app, running_now, most = App("x:1"), 0, 0
        seen: dict[bytes | None, list[int]] = {}

        @app.stream("orders", concurrency=8)
        async def bill(order: Order, ctx: Context) -> None:
            nonlocal running_now, most
            running_now += 1
            most = max(most, running_now)
            await asyncio.sleep(1 + order.id % 3)
            seen.setdefault(ctx.key, []).append(order.id)
            running_now -= 1

        clients = MemoryClients(*raws(100, lambda i: b"k%d" % (i % 10)))
        async with Running(app, clients, 1000):
            assert most == 8
            assert all(ids == sorted(ids) for ids in seen.values())
            assert sum(map(len, seen.values())) == 100
            assert clients.committed == {P0: 100}

    simulated(scene())


def test_a_failed_record_is_tried_again_while_other_keys_go_on() -> None:
    async def scene() -> None:
        app, tries = App("x:1"), []
        loop = asyncio.get_running_loop()

        @app.stream("orders", retry=Retry(backoff="10s..40s"))
        async def bill(order: Order, ctx: Context) -> None:
            tries.append((order.id, ctx.attempt, round(loop.time())))
            if order.id == 0 and ctx.attempt < 4:
                raise OSError("away")

        clients = MemoryClients(raw(0, b'{"id":0}', b"a"), raw(1, b'{"id":1}', b"a"), raw(2, b'{"id":2}', b"b"))
        async with Running(app, clients, 3):
            assert [one[:2] for one in tries] == [(0, 1), (2, 1)]
            assert clients.committed == {P0: 0}
            await asyncio.sleep(200)
            assert [one[:2] for one in tries] == [(0, 1), (2, 1), (0, 2), (0, 3), (0, 4), (1, 1)]
            assert clients.committed == {P0: 3}

    simulated(scene())


def test_a_record_that_is_given_up_is_a_dead_letter_with_the_whole_record() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", group="billing", retry=Retry(3, backoff="1s"), dead_letter="orders.dlq")
        async def bill(order: Order) -> None:
            raise RuntimeError("no money")

        clients = MemoryClients(raw(7, b'{"id":7}', b"k"))
        async with Running(app, clients):
            assert [(one.topic, one.key, one.value) for one in clients.sent] == [("orders.dlq", b"k", b'{"id":7}')]
            headers = dict(clients.sent[0].headers)
            assert headers["__dlq.errors.topic"] == b"orders"
            assert headers["__dlq.errors.offset"] == b"7"
            assert headers["__dlq.errors.group"] == b"billing"
            assert headers["__dlq.errors.delivery.count"] == b"3"
            assert headers["__dlq.errors.message"] == b"RuntimeError: no money"
            assert clients.committed == {P0: 8}

    simulated(scene())


def test_a_bad_payload_is_a_dead_letter_with_raw_bytes_and_the_fields_path() -> None:
    async def scene() -> None:
        app, seen = App("x:1"), []

        @app.stream("orders", dead_letter="orders.dlq")
        async def bill(order: Order) -> None:
            seen.append(order.id)

        clients = MemoryClients(raw(0, b'{"id":"x"}'), raw(1, b'{"id":1}'), raw(2, None))
        async with Running(app, clients):
            assert seen == [1]
            assert [one.value for one in clients.sent] == [b'{"id":"x"}', None]
            assert b"Expected `int`, got `str` - at `$.id`" in (
                dict(clients.sent[0].headers)["__dlq.errors.message"] or b""
            )
            assert clients.committed == {P0: 3}

    simulated(scene())


def test_a_dead_letter_that_cannot_be_written_is_tried_again_and_nothing_is_committed_before() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", retry=Retry(1), dead_letter="orders.dlq")
        async def bill(order: Order) -> None:
            raise RuntimeError("no money")

        clients = MemoryClients(raw(0, b'{"id":0}'))
        clients.send_faults = [QanatError("the broker is away")]
        async with Running(app, clients, 0.7):
            assert clients.sent == []
            assert clients.committed == {P0: 0}
            await asyncio.sleep(10)
            assert len(clients.sent) == 1
            assert clients.committed == {P0: 1}

    simulated(scene())


def test_without_a_dead_letter_topic_the_app_stops_and_names_handler_topic_partition_and_offset() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", group="billing", retry=Retry(2, backoff="1s"))
        async def bill(order: Order) -> None:
            if order.id == 1:
                raise RuntimeError("no money")

        clients = MemoryClients(*raws(3))
        async with Running(app, clients) as running:
            with pytest.raises(
                HandlerFailedError, match=r"handler bill \(group billing\), orders-0 at offset 1.*no money"
            ):
                await running.task
            running.task = asyncio.create_task(asyncio.sleep(0))
        assert clients.committed == {P0: 1}
        assert clients.consumers[0].is_closed

    simulated(scene())


def test_a_handler_may_skip_what_it_gives_up() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", retry=Retry(1), give_up="skip")
        async def bill(order: Order) -> None:
            raise RuntimeError("no money")

        clients = MemoryClients(*raws(3))
        async with Running(app, clients):
            assert clients.committed == {P0: 3}

    simulated(scene())


def test_what_a_handler_returns_is_sent_before_its_record_is_committed() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders")
        async def enrich(order: Order) -> list[Send]:
            return [Send("enriched", order, key=str(order.id)), Send("audit", b"x")]

        clients = MemoryClients(*raws(2))
        async with Running(app, clients):
            assert [(one.topic, one.key) for one in clients.sent] == [
                ("enriched", "0"), ("audit", None), ("enriched", "1"), ("audit", None),
            ]  # fmt: skip
            assert clients.committed == {P0: 2}

    simulated(scene())


def test_a_handler_that_returns_something_else_fails() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", retry=Retry(1))
        async def enrich(order: Order) -> Any:
            return 5

        async with Running(app, MemoryClients(*raws(1))) as running:
            with pytest.raises(HandlerFailedError, match="returned 5"):
                await running.task
            running.task = asyncio.create_task(asyncio.sleep(0))

    simulated(scene())


def test_faults_of_the_consumer_turn_health_red_with_a_reason_after_ten_seconds_and_green_again() -> None:
    async def scene() -> None:
        app, seen = App("x:1"), []

        @app.stream("orders")
        async def bill(order: Order) -> None:
            seen.append(order.id)

        clients = MemoryClients()
        async with Running(app, clients, 5):
            clients.faults = [QanatError("no broker answers")] * 60
            await asyncio.sleep(8)
            assert app.health()
            await asyncio.sleep(7)
            health = app.health()
            assert not health
            assert "handler bill of orders makes no progress for" in health.reason
            assert "no broker answers" in health.reason
            await asyncio.sleep(30)
            assert app.health()

    simulated(scene())


def test_a_commit_that_fails_is_tried_again() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders")
        async def bill(order: Order) -> None: ...

        clients = MemoryClients(*raws(3))
        clients.commit_faults = [QanatError("away"), QanatError("away")]
        async with Running(app, clients):
            assert clients.committed == {P0: 3}

    simulated(scene())


# Revocation


def test_a_revoked_partition_finishes_what_runs_commits_it_and_begins_nothing_more() -> None:
    async def scene() -> None:
        app, seen = App("x:1"), []

        @app.stream("orders", order="partition")
        async def bill(order: Order) -> None:
            await asyncio.sleep(5)
            seen.append(order.id)

        clients = MemoryClients(*raws(10))
        async with Running(app, clients, 7):
            await clients.consumers[0].owner.on_revoked([P0])
            assert seen == [0, 1]
            assert clients.committed == {P0: 2}
            await asyncio.sleep(20)
            assert seen == [0, 1]

    simulated(scene())


def test_a_handler_that_outlasts_the_grace_of_a_revocation_is_cancelled_and_not_committed() -> None:
    async def scene() -> None:
        app = App("x:1", grace="3s")
        seen: list[object] = []

        @app.stream("orders", "others")
        async def bill(order: Order, ctx: Context) -> None:
            try:
                await asyncio.sleep(3600 if ctx.record.partition == 0 else 0)
                seen.append(ctx.record.partition)
            except asyncio.CancelledError:
                seen.append("cancelled")
                assert ctx.is_cancelled
                raise

        clients = MemoryClients(raw(0, b'{"id":0}'), raw(0, b'{"id":0}', partition=1))
        async with Running(app, clients, 2):
            await clients.consumers[0].owner.on_revoked([P0])
            assert clients.committed[P0] == 0
            await asyncio.sleep(5)
            assert seen == ["cancelled", 1], "its slot goes on with other partitions"
            assert clients.committed[TopicPartition("orders", 1)] == 1

    simulated(scene())


def test_lost_partitions_are_not_committed() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", commit_every="1h")
        async def bill(order: Order) -> None: ...

        clients = MemoryClients(*raws(3))
        async with Running(app, clients, 2):
            await clients.consumers[0].owner.on_lost([P0])
        assert clients.committed == {}

    simulated(scene())


# Stops


def test_a_stop_finishes_what_runs_commits_and_leaves() -> None:
    async def scene() -> None:
        app, seen = App("x:1", grace="30s"), []

        @app.stream("orders", concurrency=2)
        async def bill(order: Order) -> None:
            await asyncio.sleep(10)
            seen.append(order.id)

        clients = MemoryClients(*raws(10))
        async with Running(app, clients, 1) as running:
            app.stop()
            await running.task
        assert seen == [0, 1]
        assert clients.committed == {P0: 2}
        assert clients.consumers[0].is_closed

    simulated(scene())


def test_a_second_stop_does_not_wait_and_commits_nothing_unfinished() -> None:
    async def scene() -> None:
        app = App("x:1", grace="1h")
        loop = asyncio.get_running_loop()

        @app.stream("orders")
        async def bill(order: Order) -> None:
            await asyncio.sleep(7200)

        clients = MemoryClients(*raws(2))
        async with Running(app, clients, 1) as running:
            app.stop()
            await asyncio.sleep(5)
            assert not running.task.done()
            app.stop()
            begin_s = loop.time()
            await running.task
            assert loop.time() - begin_s < 1
        assert clients.committed == {P0: 0}
        assert clients.consumers[0].is_closed

    simulated(scene())


def test_a_stop_takes_no_longer_than_the_grace() -> None:
    async def scene() -> None:
        app = App("x:1", grace="20s")
        loop = asyncio.get_running_loop()

        @app.stream("orders")
        async def bill(order: Order) -> None:
            await asyncio.sleep(7200)

        async with Running(app, MemoryClients(*raws(2)), 1) as running:
            begin_s = loop.time()
            app.stop()
            await running.task
            assert 19 < loop.time() - begin_s < 22

    simulated(scene())


def test_hooks_and_lifespan_run_around_the_handlers() -> None:
    async def scene() -> None:
        from collections.abc import AsyncIterator
        from contextlib import asynccontextmanager

        said: list[str] = []

        @asynccontextmanager
        async def lifespan() -> AsyncIterator[None]:
            said.append("lifespan begins")
            yield
            said.append("lifespan ends")

        app = App("x:1", lifespan=lifespan)

        @app.on_start
        async def connect() -> None:
            said.append("start")

        @app.on_stop
        def disconnect() -> None:
            said.append("stop")

        @app.stream("orders")
        async def bill(order: Order) -> None:
            said.append("handled")

        async with Running(app, MemoryClients(*raws(1))):
            pass
        assert said == ["lifespan begins", "start", "handled", "stop", "lifespan ends"]

    simulated(scene())


# Sync handlers, timeouts


def test_a_sync_handler_runs_in_a_thread_with_its_context() -> None:
    async def scene() -> None:
        app, seen = App("x:1"), []

        @app.stream("orders")
        def bill(order: Order, ctx: Context) -> Send:
            seen.append((order.id, ctx.at))
            return Send("done", order)

        clients = MemoryClients(*raws(2))
        async with Running(app, clients):
            assert seen == [(0, "orders-0 at offset 0"), (1, "orders-0 at offset 1")]
            assert len(clients.sent) == 2

    simulated(scene())


def test_a_handler_that_takes_too_long_fails_with_its_limit() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", timeout="5s", retry=Retry(1), dead_letter="dlq")
        async def bill(order: Order) -> None:
            await asyncio.sleep(10)

        clients = MemoryClients(*raws(1))
        async with Running(app, clients):
            assert dict(clients.sent[0].headers)["__dlq.errors.message"] == b"TimeoutError: bill took longer than 5 s"

    simulated(scene())


# Exactly once


def test_results_are_written_in_the_transaction_that_commits_their_records() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", exactly_once=True, concurrency=4)
        async def enrich(order: Order) -> Send:
            await asyncio.sleep(3 - order.id % 3)
            return Send("enriched", order.id)

        clients = MemoryClients(*raws(9))
        async with Running(app, clients):
            assert [one.value for one in clients.sent] == list(range(9)), "in the order of offsets"
            assert clients.committed == {P0: 9}
            assert clients.transactions >= 1

    simulated(scene())


def test_a_retry_and_a_dead_letter_combine_with_transactions() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", exactly_once=True, retry=Retry(2, backoff="10s"), dead_letter="dlq")
        async def enrich(order: Order) -> Send:
            if order.id == 1:
                raise RuntimeError("no")
            return Send("enriched", order.id)

        clients = MemoryClients(*raws(4))
        async with Running(app, clients, 3):
            assert [one.topic for one in clients.sent] == ["enriched"], "nothing past the record that waits"
            assert clients.committed == {P0: 1}
            await asyncio.sleep(60)
            assert [one.topic for one in clients.sent] == ["enriched", "dlq", "enriched", "enriched"]
            assert clients.committed == {P0: 4}

    simulated(scene())


@pytest.mark.parametrize("is_written", [True, False])
def test_a_transaction_of_unknown_outcome_is_written_once(is_written: bool) -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders", exactly_once=True)
        async def enrich(order: Order) -> Send:
            return Send("enriched", order.id)

        clients = MemoryClients(*raws(3))
        clients.end_faults = [(QanatError("the answer was lost"), is_written)]
        async with Running(app, clients):
            assert [one.value for one in clients.sent] == [0, 1, 2]
            assert clients.committed == {P0: 3}

    simulated(scene())


# Arrow batches


def test_a_batch_is_committed_when_it_is_handled_and_a_failed_one_is_tried_again() -> None:
    async def scene() -> None:
        app, seen = App("x:1"), []

        @app.table_batch("orders", rows=4, every="1s", retry=Retry(3, backoff="5s"))
        async def load(batch: pa.RecordBatch) -> None:
            seen.append(batch.column("offset").to_pylist())
            if len(seen) == 2:
                raise OSError("away")

        clients = MemoryClients(*raws(6))
        async with Running(app, clients):
            assert seen == [[0, 1, 2, 3], [4, 5], [4, 5]]
            assert clients.committed == {P0: 6}

    simulated(scene())
