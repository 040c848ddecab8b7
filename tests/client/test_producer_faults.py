"""What producers say where something is wrong, and what they keep where a broker fails."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.judge import read_all
from tools.servers import free_port

from qanat.client import (
    AsyncProducer,
    ClosedError,
    DeliveryError,
    FencedError,
    MessageTooLargeError,
    Producer,
    ProducerMetrics,
)
from qanat.client.errors import ForkedError, SerializationError
from qanat.connection.cluster import TopicLeaders
from qanat.connection.faults import RefusedError, UnreachableError
from qanat.connection.sasl import NotAuthenticatedError
from qanat.testing import EmbeddedBroker, ErrorCode

TOPIC = "orders"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        broker.create_topic(TOPIC, partitions=2)
        yield broker


async def test_a_broker_that_is_not_there_is_named_in_bounded_time() -> None:
    address = f"127.0.0.1:{free_port()}"
    began = time.monotonic()
    async with AsyncProducer(address, bootstrap_timeout_ms=300) as producer:
        with pytest.raises(UnreachableError, match=f"no broker can be reached: cannot connect to {address}"):
            await producer.send(TOPIC, b"1")
    assert time.monotonic() - began < 30


async def test_a_wrong_password_is_named() -> None:
    with EmbeddedBroker(users={"alice": "right"}) as broker:
        wrong = {**broker.client_settings("alice"), "sasl.password": "wrong"}
        async with AsyncProducer(wrong) as producer:
            with pytest.raises(NotAuthenticatedError, match=r"check sasl.username, sasl.password"):
                await producer.send(TOPIC, b"1")


async def test_a_topic_that_cannot_be_is_named() -> None:
    with EmbeddedBroker(settings={"auto.create.topics.enable": "false"}) as broker:
        async with AsyncProducer(broker.bootstrap_servers, max_block_ms=500) as producer:
            with pytest.raises(RefusedError, match=r"topic orders is not there yet: .*auto.create.topics.enable"):
                await producer.send(TOPIC, b"1")
            with pytest.raises(RefusedError, match="a name consists of letters"):
                await producer.send("or ders", b"1")


async def test_a_record_over_the_limit_is_refused_before_it_is_sent(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers) as producer:
        with pytest.raises(MessageTooLargeError, match=r"larger than max_request_size=1048576: raise it"):
            await producer.send(TOPIC, bytes(2_000_000))


async def test_headers_that_cannot_be_written_are_named(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers) as producer:
        with pytest.raises(SerializationError, match="orders: headers are pairs of a text and bytes"):
            await producer.send(TOPIC, b"1", headers=[b"x"])  # type: ignore[list-item]


async def test_a_closed_producer_says_so(broker: EmbeddedBroker) -> None:
    producer = AsyncProducer(broker.bootstrap_servers)
    await (await producer.send(TOPIC, b"1"))
    await producer.close()
    await producer.close()
    with pytest.raises(ClosedError, match="is closed: make another one"):
        await producer.send(TOPIC, b"2")


def test_a_producer_from_before_a_fork_says_so_in_the_child(broker: EmbeddedBroker) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(TOPIC, b"1").result(30)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                producer.send(TOPIC, b"2")
            except ForkedError as fault:
                os.write(writing, str(fault).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writing)
        with os.fdopen(reading) as said:
            assert "make a client after the fork" in said.read()


async def test_a_final_refusal_is_raised_by_the_receipt_and_by_flush(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers) as producer:
        await (await producer.send(TOPIC, b"0", partition=0))
        broker.fail("Produce", ErrorCode.INVALID_RECORD, times=1)
        receipt = await producer.send(TOPIC, b"1", partition=0)
        with pytest.raises(DeliveryError) as refusal:
            await receipt
        assert refusal.value.code is ErrorCode.INVALID_RECORD
        assert not refusal.value.may_be_written
        with pytest.raises(DeliveryError):
            await producer.flush()
        assert (await (await producer.send(TOPIC, b"2", partition=0))).offset == 1


async def test_a_record_without_an_answer_fails_at_its_time_and_may_be_written(broker: EmbeddedBroker) -> None:
    producer = AsyncProducer(broker.bootstrap_servers, request_timeout_ms=200, delivery_timeout_ms=500)
    await (await producer.send(TOPIC, b"0", partition=0))
    broker.lose_answer("Produce", times=1000)
    with pytest.raises(DeliveryError, match="may be written all the same") as late:
        await (await producer.send(TOPIC, b"1", partition=0))
    assert late.value.may_be_written
    broker.heal()
    assert (await (await producer.send(TOPIC, b"2", partition=0))).offset == 2
    with pytest.raises(DeliveryError):
        await producer.close()


async def test_retries_are_counted_and_no_more_than_were_asked_for(broker: EmbeddedBroker) -> None:
    producer = AsyncProducer(broker.bootstrap_servers, retries=2, retry_backoff_ms=10)
    await (await producer.send(TOPIC, b"0", partition=0))
    lost = broker.lose_answer("Produce", times=2)
    assert (await (await producer.send(TOPIC, b"1", partition=0))).offset == 1
    assert (lost.struck, producer.metrics.retries) == (2, 2)
    refused = broker.fail("Produce", ErrorCode.NOT_ENOUGH_REPLICAS, times=5)
    with pytest.raises(DeliveryError, match="NOT_ENOUGH_REPLICAS"):
        await (await producer.send(TOPIC, b"2", partition=0))
    assert refused.struck == 3, "the first attempt, and two retries"
    broker.heal()
    assert (await (await producer.send(TOPIC, b"3", partition=0))).offset == 2
    with pytest.raises(DeliveryError):
        await producer.close()
    assert producer.metrics == ProducerMetrics(
        records=3, failed_records=1, batches=3, batch_bytes=producer.metrics.batch_bytes, requests=8, retries=4
    )
    assert producer.metrics.batch_bytes > 3 * 61


async def test_the_search_for_a_leader_is_no_retry(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers, retries=0, retry_backoff_ms=10) as producer:
        await (await producer.send(TOPIC, b"0", partition=0))
        moved = broker.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=4)
        assert (await (await producer.send(TOPIC, b"1", partition=0))).offset == 1
        assert (moved.struck, producer.metrics.retries) == (4, 0)


async def test_without_retries_a_lost_answer_is_an_error_and_what_follows_is_written(broker: EmbeddedBroker) -> None:
    producer = AsyncProducer(broker.bootstrap_servers, retries=0)
    await (await producer.send(TOPIC, b"0", partition=0))
    broker.lose_answer("Produce")
    with pytest.raises(DeliveryError, match="may be written all the same"):
        await (await producer.send(TOPIC, b"1", partition=0))
    assert (await (await producer.send(TOPIC, b"2", partition=0))).offset == 2
    with pytest.raises(DeliveryError):
        await producer.close()


async def test_a_leader_that_is_no_longer_among_the_brokers_is_looked_up_again(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers) as producer:
        await (await producer.send(TOPIC, b"0", partition=0))
        leaders = producer._core._leaders
        assert leaders is not None
        # As after the death of broker 77: metadata does not list it, and another one leads.
        leaders._views[TOPIC] = TopicLeaders(TOPIC, {0: 77, 1: 77}), leaders._views[TOPIC][1]
        assert (await (await producer.send(TOPIC, b"1", partition=0))).offset == 1


async def test_the_older_of_two_producers_with_one_transactional_id_is_fenced(broker: EmbeddedBroker) -> None:
    async def use(producer: AsyncProducer) -> None:
        async with producer.transaction():
            await producer.send(TOPIC, b"1")

    async with AsyncProducer(broker.bootstrap_servers, transactional_id="t") as older:
        await use(older)
        async with AsyncProducer(broker.bootstrap_servers, transactional_id="t") as newer:
            await use(newer)
            for _ in range(2):
                with pytest.raises(FencedError, match="another producer has the transactional id t: end this one"):
                    await use(older)
            await use(newer)


async def test_a_transaction_whose_end_is_cancelled_leaves_the_producer_usable(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers, transactional_id="cancelled") as producer:

        async def use(value: bytes) -> None:
            async with producer.transaction():
                await producer.send(TOPIC, value)

        await use(b"0")
        broker.delay("EndTxn", 1.0, times=1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await use(b"1")
        await use(b"2")
    found = sorted(record.value or b"" for record in broker.records(TOPIC))
    assert found in ([b"0", b"1", b"2"], [b"0", b"2"]), "nobody knows whether the cancelled one was committed"


async def test_a_broker_that_restarts_under_load_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        broker.create_topic(TOPIC, partitions=2)
        async with AsyncProducer(broker.bootstrap_servers, batch_size=4000, request_timeout_ms=2000) as producer:
            receipts = []
            for number in range(20_000):
                receipts.append(await producer.send(TOPIC, b"%d" % number, partition=number % 2))
                if number in (5_000, 12_000):
                    await receipts[number - 2_000]
                    await asyncio.to_thread(broker.restart)
            places = [await one for one in receipts]
        found = read_all(broker.bootstrap_servers, TOPIC, 20_000)
    for partition in (0, 1):
        values = [int(one.value() or b"") for one in found if one.partition() == partition]
        assert values == list(range(partition, 20_000, 2))
        assert [one.offset for one in places[partition::2]] == list(range(10_000))
