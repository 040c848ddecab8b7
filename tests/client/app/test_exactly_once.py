"""Exactly once when partitions come and go during a commit, and where other producers abort."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, cast
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from tests.client.app.app_threads import Seen, committed, produce, running
from tests.client.app.memory_clients import MemoryClients, MemoryConsumer, raws
from tests.client.app.test_stream_worker import P0, Order, Running, simulated
from tests.client.consumer.topics import wait_until

from qanat.client import App, Consumer, Context, Retry, Send
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.testing import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as found:
        yield found


def enriching() -> App:
    app = App("x:1")

    @app.stream("orders", exactly_once=True)
    async def enrich(order: Order) -> Send:
        return Send("enriched", order.id)

    return app


def test_a_partition_that_is_lost_while_an_outcome_is_looked_up_is_handled_and_written_again() -> None:
    class Losing(MemoryConsumer):
        """Loses its partition once, and has it again, while it is asked for committed offsets."""

        async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
            found = await super().committed(*partitions)
            await self.owner.on_lost([P0])
            await self.owner.on_assigned([P0])
            clients.records += raws(3)
            self.committed = super().committed  # type: ignore[method-assign]
            return found

    class LosingClients(MemoryClients):
        def stream_consumer(self, handler: Any, owner: Any) -> MemoryConsumer:
            return Losing(self, owner)

    clients = LosingClients(*raws(3))
    clients.end_faults = [(QanatError("the answer was lost"), False)]

    async def scene() -> None:
        async with Running(enriching(), clients):
            assert [one.value for one in clients.sent] == [0, 1, 2]
            assert clients.committed == {P0: 3}

    simulated(scene())


def test_a_commit_that_a_stop_cancels_is_looked_up_and_not_repeated() -> None:
    async def scene() -> None:
        clients = MemoryClients(*raws(3))
        clients.end_waits = [asyncio.Event()]  # Never set: the commit is durable, and its answer does not come.
        async with Running(enriching(), clients, for_s=5):
            assert [one.value for one in clients.sent] == [0, 1, 2]
            clients.records += raws(6)[3:]
            await asyncio.sleep(5)
        assert [one.value for one in clients.sent] == [0, 1, 2, 3, 4, 5]
        assert clients.committed == {P0: 6}

    simulated(scene())


def test_a_commit_that_ends_by_a_bug_stops_the_app() -> None:
    async def scene() -> None:
        app = App("x:1")

        @app.stream("orders")
        async def bill(order: Order) -> None: ...

        clients = MemoryClients(*raws(3))
        clients.commit_faults = [RuntimeError("a bug")]  # type: ignore[list-item]
        run = Running(app, clients)
        async with run:
            assert run.task.done(), "an app must not go on without its commits"
            with pytest.raises(RuntimeError, match="a bug"):
                await run.task
            run.task = asyncio.create_task(asyncio.sleep(0))

    simulated(scene())


def test_a_transaction_that_fails_again_and_again_is_tried_less_often() -> None:
    clients = MemoryClients(*raws(3))
    clients.end_faults = [(QanatError("not authorized"), False)] * 100

    async def scene() -> None:
        run = Running(enriching(), clients)
        async with run:
            tried = 100 - len(clients.end_faults)
            assert 10 < tried < 20, f"{tried} in a minute: five a second at first, then one in five seconds"
            clients.end_faults.clear()
            await asyncio.sleep(6)
            assert [one.value for one in clients.sent] == [0, 1, 2]

    simulated(scene())


def test_what_an_aborted_transaction_wrote_is_not_handled() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", 1)
        broker.create_topic("enriched", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
        producer.init_transactions(30)
        for number in range(10):
            producer.begin_transaction()
            producer.produce("orders", b'{"id":%d}' % number)
            producer.flush(30)
            if number % 2:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
        app, seen = App(broker.bootstrap_servers), Seen()

        @app.stream("orders", exactly_once=True)
        async def enrich(order: Order) -> Send:
            seen.add(order.id)
            return Send("enriched", order.id)

        with running(app):
            broker.wait_for("enriched", 5, 30)
        assert seen == [1, 3, 5, 7, 9]


def test_a_rebalance_that_leaves_the_app_its_partition_costs_no_transaction() -> None:
    with EmbeddedBroker(settings={"group.consumer.heartbeat.interval.ms": 100}) as broker:
        produce(broker, "orders", b'{"id":0}', partitions=1)
        broker.create_topic("enriched", 1)
        app = App(broker.bootstrap_servers)

        @app.stream("orders", group="enrich", exactly_once=True)
        async def enrich(order: Order) -> Send:
            return Send("enriched", order.id)

        identities = broker.delay("InitProducerId", 0, times=10)
        with running(app):
            broker.wait_for("enriched", 1, 30)
            asked = identities.struck
            refusal = broker.fail("TxnOffsetCommit", ErrorCode.ILLEGAL_GENERATION)
            produce(broker, "orders", b'{"id":1}')
            wait_until(lambda: refusal.is_over)
            with Consumer(broker.bootstrap_servers, "orders", group="enrich"):
                found = broker.wait_for("enriched", 2, 30)
            assert app.health()
            assert identities.struck == asked, "the transaction goes on, with the new epoch"
        assert [one.value for one in found] == [b"0", b"1"]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda: Send("copies", object()), b"SerializationError: copies: "),
        (lambda: Send("copies", b"x" * 2000), b"MessageTooLargeError: a record of 21"),
        (lambda: Send("copies", b"x", partition=7), b"ClientError: topic copies has no partition 7: it has 1"),
        (lambda: Send("copies", b"x", timestamp_ms=-1), b"SerializationError: timestamp_ms is -1"),
        (lambda: Send("copies", b"x", headers=(("a", cast(bytes, 1)),)), b"SerializationError: copies: headers are"),
        (lambda: Send("no/topic", b"x"), b"there can be no topic"),
    ],
)
def test_a_result_that_cannot_be_written_is_a_failed_attempt(
    broker: EmbeddedBroker, wrong: Callable[[], Send], reason: bytes
) -> None:
    source = f"bad-{uuid4()}"
    produce(broker, source, *(b'{"id":%d}' % number for number in range(3)), partitions=1)
    for topic in ("copies", f"{source}.dlq"):
        if topic not in broker.topics():
            broker.create_topic(topic, 1)
    app, tries = App(broker.bootstrap_servers, max_request_size=2000), Seen()

    @app.stream(source, exactly_once=True, retry=Retry(2, backoff="10ms"), dead_letter=f"{source}.dlq")
    async def copy(order: Order, ctx: Context) -> Send:
        tries.add((order.id, ctx.attempt))
        return wrong() if order.id == 1 else Send("copies", order)

    with running(app):
        (letter,) = broker.wait_for(f"{source}.dlq", 1, 30)
        wait_until(lambda: committed(broker, "copy", source, 1) == [3])
        assert app.health()
    assert letter.value == b'{"id":1}'
    assert reason in (dict(letter.headers)["__dlq.errors.message"] or b"")
    assert sorted(tries) == [(0, 1), (1, 1), (1, 2), (2, 1)]
