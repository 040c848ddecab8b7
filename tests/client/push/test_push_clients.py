"""The push clients of `qanat.client` against a real broker: groups, queues, resume, repetition."""

from __future__ import annotations

import asyncio

import pytest
from tests.servers.push.test_push_subscriptions import configure

from qanat.client.errors import DeliveryError
from qanat.client.push.consumers import AsyncPushConsumer, PushConsumer
from qanat.client.push.producers import AsyncPushProducer, PushProducer
from qanat.connection.push.link import DisconnectedError
from qanat.connection.sasl import NotAuthenticatedError
from qanat.model.error_codes import ErrorCode
from qanat.testing import BrokerHere, EmbeddedBroker
from qanat.wire.push.control import Subscribe, encode_control
from qanat.wire.push.frames import FrameType, encode_frame

WAIT_S = 30.0


async def write(broker: BrokerHere, *values: bytes, topic: str = "prices") -> list[int]:
    async with AsyncPushProducer(broker.bootstrap_servers) as producer:
        sent = [await producer.send(topic, value, key=value, partition=0, headers=(("h", b"1"),)) for value in values]
        return [(await one).offset for one in sent]


async def take(consumer: AsyncPushConsumer, count: int) -> list[bytes | None]:
    async with asyncio.timeout(WAIT_S):
        return [(await consumer.next()).value for _ in range(count)]


async def test_what_is_sent_is_received_with_key_headers_and_place() -> None:
    async with BrokerHere() as broker:
        assert await write(broker, b"one", b"two") == [0, 1]
        async with AsyncPushConsumer(broker.bootstrap_servers, "prices") as consumer, asyncio.timeout(WAIT_S):
            record = await consumer.next()

        assert (record.topic, record.partition, record.offset) == ("prices", 0, 0)
        assert (record.key, record.value, record.headers) == (b"one", b"one", (("h", b"1"),))


async def test_a_consumer_of_a_group_goes_on_after_what_was_processed() -> None:
    async with BrokerHere() as broker:
        await write(broker, b"one")
        async with AsyncPushConsumer(broker.bootstrap_servers, "prices", group_id="g") as first:
            assert await take(first, 1) == [b"one"]
            await write(broker, b"two")
            assert await take(first, 1) == [b"two"], "asking for it acknowledged the one before"
        async with AsyncPushConsumer(broker.bootstrap_servers, "prices", group_id="g") as second:
            assert await take(second, 1) == [b"two"], "it was not processed"


async def test_a_batch_is_acknowledged_as_a_whole_and_comes_again_where_it_was_not() -> None:
    async with BrokerHere() as broker:
        await write(broker, b"one", b"two", b"three")
        async with AsyncPushConsumer(broker.bootstrap_servers, "prices", group_id="g") as first:
            async with asyncio.timeout(WAIT_S):
                batch = await first.next_batch()
            assert [record.value for record in batch] == [b"one", b"two", b"three"]
        async with AsyncPushConsumer(broker.bootstrap_servers, "prices", group_id="g") as second:
            async with asyncio.timeout(WAIT_S):
                batch = await second.next_batch()
            assert [record.value for record in batch] == [b"one", b"two", b"three"], "they were not processed"
            second.done()
            await write(broker, b"four")
            assert await take(second, 1) == [b"four"]
        async with AsyncPushConsumer(broker.bootstrap_servers, "prices", group_id="g") as third:
            assert await take(third, 1) == [b"four"]


async def test_a_batch_has_at_most_so_many_records() -> None:
    async with BrokerHere() as broker:
        await write(broker, b"one", b"two", b"three")
        async with AsyncPushConsumer(broker.bootstrap_servers, "prices") as consumer, asyncio.timeout(WAIT_S):
            first, second = await consumer.next_batch(2), await consumer.next_batch(2)
        assert [record.value for record in (*first, *second)] == [b"one", b"two", b"three"]


async def test_a_consumer_of_all_resumes_where_it_was_after_the_broker_restarted() -> None:
    async with BrokerHere() as broker:
        await write(broker, b"one", b"two", b"three")
        async with AsyncPushConsumer(broker.bootstrap_servers, "prices") as consumer:
            assert await take(consumer, 2) == [b"one", b"two"]
            await broker.restart()
            await write(broker, b"four")

            assert await take(consumer, 2) == [b"three", b"four"]
            kept = consumer.positions
        async with AsyncPushConsumer(broker.bootstrap_servers, "prices", positions=kept) as next_process:
            await write(broker, b"five")
            assert await take(next_process, 1) == [b"five"]


async def test_a_worker_of_a_queue_gives_a_record_back() -> None:
    async with BrokerHere() as broker:
        await broker.create_topic("jobs")
        await configure(broker, "workers")
        await write(broker, b"one", b"two", topic="jobs")
        consumer = AsyncPushConsumer(broker.bootstrap_servers, "jobs", group_id="workers", mode="queue")
        async with consumer as worker, asyncio.timeout(WAIT_S):
            seen: list[bytes | None] = []
            while seen.count(b"one") < 2 or b"two" not in seen:
                record = await worker.next()
                seen.append(record.value)
                if record.value == b"one" and seen.count(b"one") == 1:
                    worker.release()
                else:
                    worker.done()
        assert sorted(str(one) for one in seen) == ["b'one'", "b'one'", "b'two'"]


async def test_records_without_an_answer_are_written_once_over_a_restart() -> None:
    async with BrokerHere() as broker:
        async with AsyncPushProducer(broker.bootstrap_servers) as producer:
            sent = []
            for number in range(60):
                if number == 30:
                    await broker.restart()
                sent.append(await producer.send("prices", b"%d" % number, partition=0))
            places = [(await one).offset for one in sent]

        assert places == list(range(60))
        assert [one.value for one in await broker.records("prices")] == [b"%d" % number for number in range(60)]


async def test_a_producer_writes_to_topics_that_it_learns_of_on_its_way() -> None:
    async with BrokerHere() as broker, AsyncPushProducer(broker.bootstrap_servers) as producer:
        first = await producer.send("a", b"1")
        second = await producer.send("b", b"2")

        assert ((await first).topic, (await second).topic) == ("a", "b")
        assert [one.value for one in await broker.records("b")] == [b"2"]


async def test_a_refused_record_says_why() -> None:
    async with BrokerHere() as broker, AsyncPushProducer(broker.bootstrap_servers) as producer:
        await broker.create_topic("latest", configs={"cleanup.policy": "compact"})
        refused = await producer.send("latest", b"no key")

        with pytest.raises(DeliveryError) as fault:
            await refused
        assert fault.value.code is ErrorCode.INVALID_RECORD
        assert not fault.value.may_be_written


async def test_users_log_in_and_what_they_may_not_do_is_final() -> None:
    async with BrokerHere(users={"alice": "secret"}) as broker:
        await broker.create_topic("prices")
        settings = broker.client_settings("alice")
        async with AsyncPushConsumer(settings, "prices") as consumer, asyncio.timeout(WAIT_S):
            with pytest.raises(DisconnectedError, match="not-authorized"):
                await consumer.next()
        wrong = {**settings, "sasl.password": "wrong"}
        async with AsyncPushConsumer(wrong, "prices") as consumer, asyncio.timeout(WAIT_S):
            with pytest.raises(NotAuthenticatedError):
                await consumer.next()


def test_threads_use_the_same_clients() -> None:
    with EmbeddedBroker() as broker:
        with PushProducer(broker.bootstrap_servers) as producer:
            sent = [producer.send("prices", b"%d" % number, partition=0) for number in range(3)]
            assert [one.result(WAIT_S).offset for one in sent] == [0, 1, 2]
        with PushConsumer(broker.bootstrap_servers, "prices") as consumer:
            assert [consumer.next(WAIT_S).value for _ in range(3)] == [b"0", b"1", b"2"]
            with pytest.raises(TimeoutError):
                consumer.next(0.05)


@pytest.mark.parametrize("pause_s", [0.0, 0.001, 0.02])
async def test_a_subscriber_that_is_gone_before_it_has_joined_leaves_no_member_behind(pause_s: float) -> None:
    async with BrokerHere() as broker:
        await write(broker, b"one")
        host, port = broker.bootstrap_servers.rsplit(":", 1)
        payload = encode_control(Subscribe(1, topics=["prices"], group="g"))
        for _ in range(4):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(encode_frame(FrameType.SUBSCRIBE, 1, payload))
            await writer.drain()
            await asyncio.sleep(pause_s)
            writer.transport.abort()
        async with AsyncPushConsumer(broker.bootstrap_servers, "prices", group_id="g") as consumer:
            assert await take(consumer, 1) == [b"one"], "the partition is not held by one that is gone"


async def test_records_that_are_sent_while_the_connection_opens_stay_in_order() -> None:
    async with BrokerHere() as broker:
        await broker.create_topic("ordered", 1)
        async with AsyncPushProducer(broker.bootstrap_servers) as producer, asyncio.timeout(WAIT_S):
            sends = []
            for number in range(500):  # One a turn of the loop, before and after the connection is there.
                sends.append(asyncio.create_task(producer.send("ordered", b"%d" % number)))
                await asyncio.sleep(0)
            places = [await (await one) for one in sends]
    assert [one.offset for one in places] == list(range(500))
