"""Producers on a real broker; confluent-kafka reads what they wrote."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.client.judge import read_all

from qanat.client import AsyncProducer, IoLoop, MessageTooLargeError, Metadata, Producer, Receipt, TransactionError
from qanat.client.errors import ClientError
from qanat.client.producer.partitioners import consistent
from qanat.testing import EmbeddedBroker, ErrorCode
from qanat.wire.key_hash import partition_of

TOPIC = "orders"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        broker.create_topic(TOPIC, partitions=4)
        yield broker


async def test_a_receipt_says_where_the_record_was_written(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers) as producer:
        receipt = await producer.send(
            TOPIC, "hello", key="k", headers={"trace": "1", "none": None}, partition=2, timestamp_ms=1_700_000_000_000
        )
        assert await receipt == Metadata(TOPIC, 2, 0, 1_700_000_000_000)
        assert receipt.done
    (record,) = read_all(broker.bootstrap_servers, TOPIC, 1)
    assert (record.key(), record.value(), record.partition()) == (b"k", b"hello", 2)
    assert record.headers() == [("trace", b"1"), ("none", None)]
    assert record.timestamp()[1] == 1_700_000_000_000


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_another_client_reads_every_compression_in_order(broker: EmbeddedBroker, compression: str) -> None:
    async with AsyncProducer(broker.bootstrap_servers, compression_type=compression, batch_size=100_000) as producer:
        for number in range(3000):
            await producer.send(TOPIC, b"%07d" % number * 20, partition=number % 2)
    found = read_all(broker.bootstrap_servers, TOPIC, 3000)
    for partition in (0, 1):
        values = [int((one.value() or b"")[:7]) for one in found if one.partition() == partition]
        assert values == list(range(partition, 3000, 2))


async def test_receipts_of_all_records_have_their_own_offsets(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers) as producer:
        receipts = [await producer.send(TOPIC, b"%d" % number, partition=0) for number in range(5000)]
        found = await asyncio.gather(*receipts)
    assert [one.offset for one in found] == list(range(5000))


async def test_a_client_on_the_callers_loop_starts_no_thread(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers, io=IoLoop.here()) as producer:
        receipts = [await producer.send(TOPIC, b"%d" % number, partition=1) for number in range(100)]
        assert [(await one).offset for one in receipts] == list(range(100))


def test_threads_share_a_producer(broker: EmbeddedBroker) -> None:
    with Producer(broker.bootstrap_servers) as producer:

        def send(first: int) -> list[Receipt]:
            return [producer.send(TOPIC, b"%d" % number, key=b"%d" % number) for number in range(first, first + 500)]

        with ThreadPoolExecutor(4) as threads:
            receipts = [one for some in threads.map(send, range(0, 2000, 500)) for one in some]
        places = {(one.result(30).partition, one.result(30).offset) for one in receipts}
    assert len(places) == 2000
    assert {int(one.value() or b"") for one in read_all(broker.bootstrap_servers, TOPIC, 2000)} == set(range(2000))


async def test_keys_go_where_java_puts_them(broker: EmbeddedBroker) -> None:
    keys = [b"key-%d" % number for number in range(50)]
    async with AsyncProducer(broker.bootstrap_servers) as producer:
        found = [await (await producer.send(TOPIC, b"", key=key)) for key in keys]
    assert [one.partition for one in found] == [partition_of(key, 4) for key in keys]


async def test_other_partitioners_place_by_their_own_rules(broker: EmbeddedBroker) -> None:
    keys = [b"a", b"b", None, b"d", b"e", b"f", b"g", b"h"]

    async def places(partitioner: object) -> list[int]:
        async with AsyncProducer(broker.bootstrap_servers, partitioner=partitioner) as producer:
            return [(await (await producer.send(TOPIC, b"", key=key))).partition for key in keys]

    assert await places(lambda topic, key, count: count - 1) == [3] * 8
    assert await places("consistent") == [consistent(TOPIC, key, 4) for key in keys]
    turns = await places("org.apache.kafka.clients.producer.RoundRobinPartitioner")
    assert [(one - turns[0]) % 4 for one in turns] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert set(await places("sticky")) <= {0, 1, 2, 3}


async def test_records_without_a_key_share_a_batch_and_reach_every_partition(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers) as producer:
        found = []
        for _ in range(40):
            receipts = [await producer.send(TOPIC, b"x") for _ in range(5)]
            some = await asyncio.gather(*receipts)
            assert len({one.partition for one in some[1:]}) <= 2
            found += some
    assert {one.partition for one in found} == {0, 1, 2, 3}


async def test_a_burst_without_keys_moves_on_to_another_partition_with_every_full_batch(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers, batch_size=10_000, compression_type="none") as producer:
        receipts = [await producer.send(TOPIC, bytes(100)) for _ in range(4000)]
        found = [(await one).partition for one in receipts]
    assert min(found.count(partition) for partition in range(4)) > 100
    assert sum(one != other for one, other in itertools.pairwise(found)) < 400


async def test_acks_leader_and_none_are_sent_as_such(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers, acks="leader") as producer:
        assert (await (await producer.send(TOPIC, b"1", partition=0))).offset == 0
    async with AsyncProducer(broker.bootstrap_servers, acks="none") as producer:
        assert (await (await producer.send(TOPIC, b"2", partition=0))).offset == -1
    assert [one.value() for one in read_all(broker.bootstrap_servers, TOPIC, 2)] == [b"1", b"2"]


async def test_a_topic_that_is_new_is_made_by_the_first_send(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers) as producer:
        assert (await (await producer.send("fresh", b"1"))).offset == 0


async def test_a_lost_answer_doubles_nothing_and_keeps_the_order(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(
        broker.bootstrap_servers, request_timeout_ms=500, batch_size=2000, linger_ms=0, retries=20
    ) as producer:
        for number in range(2000):
            if number in (300, 900, 1500):
                broker.lose_answer("Produce", times=2)
            await producer.send(TOPIC, b"%d" % number, partition=0)
            if number % 50 == 0:
                await asyncio.sleep(0)
        await producer.flush()
    assert [int(one.value) for one in broker.records(TOPIC) if one.value] == list(range(2000))


async def test_refusals_that_pass_are_retried_in_order(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers, batch_size=2000, linger_ms=0) as producer:
        for number in range(1000):
            if number == 200:
                broker.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=3)
            await producer.send(TOPIC, b"%d" % number, partition=0)
    assert [int(one.value) for one in broker.records(TOPIC) if one.value] == list(range(1000))


async def test_a_batch_that_the_topic_finds_too_large_is_sent_in_parts(broker: EmbeddedBroker) -> None:
    broker.create_topic("small", partitions=1, configs={"max.message.bytes": 2000})
    async with AsyncProducer(broker.bootstrap_servers, compression_type="none", linger_ms=50) as producer:
        receipts = [await producer.send("small", b"%03d" % number * 30) for number in range(100)]
        found = await asyncio.gather(*receipts)
        assert [one.offset for one in found] == list(range(100))
        with pytest.raises(MessageTooLargeError, match=r"raise the topic's max.message.bytes"):
            await (await producer.send("small", b"x" * 3000))
        producer._core.fault = None
    assert [one.value for one in broker.records("small")] == [b"%03d" % number * 30 for number in range(100)]


async def test_a_producer_faster_than_its_broker_waits_in_bounded_memory(broker: EmbeddedBroker) -> None:
    broker.delay("Produce", 0.05, times=1000)
    limit = 200_000
    async with AsyncProducer(broker.bootstrap_servers, buffer_memory=limit, compression_type="none") as producer:
        accumulator = producer._core._accumulator
        held = []
        for number in range(10_000):
            await producer.send(TOPIC, b"%06d" % number * 20)
            held.append(accumulator.held_bytes)
        broker.heal()
        await producer.flush()
        assert accumulator.held_bytes == 0
    assert limit <= max(held) < 2 * limit
    assert len(broker.records(TOPIC)) == 10_000


async def test_a_transaction_is_visible_as_a_whole_or_not_at_all(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers, transactional_id="t") as producer:
        async with producer.transaction():
            for number in range(100):
                await producer.send(TOPIC, b"%d" % number)
        receipts: list[Receipt] = []

        async def fail() -> None:
            async with producer.transaction():
                receipts.append(await producer.send(TOPIC, b"never"))
                raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await fail()
        with pytest.raises(TransactionError, match="aborted"):
            await receipts[0]
        async with producer.transaction():
            await producer.send(TOPIC, b"100")
    found = read_all(broker.bootstrap_servers, TOPIC, 101)
    assert sorted(int(one.value() or b"") for one in found) == list(range(101))


async def test_a_transaction_whose_records_are_refused_is_aborted_and_the_next_one_works(
    broker: EmbeddedBroker,
) -> None:
    broker.create_topic("small", partitions=1, configs={"max.message.bytes": 500})
    async with AsyncProducer(broker.bootstrap_servers, transactional_id="t") as producer:

        async def fail() -> None:
            async with producer.transaction():
                await producer.send(TOPIC, b"with it")
                await producer.send("small", random.Random(7).randbytes(2000))

        with pytest.raises(TransactionError, match=r"the transaction was aborted: .*max.message.bytes"):
            await fail()
        async with producer.transaction():
            await producer.send(TOPIC, b"kept")
    assert [one.value() for one in read_all(broker.bootstrap_servers, TOPIC, 1)] == [b"kept"]


async def test_transactions_survive_lost_answers(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers, transactional_id="t", request_timeout_ms=500) as producer:
        for round_ in range(4):
            async with producer.transaction():
                broker.lose_answer(["Produce", "EndTxn", "AddPartitionsToTxn", "Produce"][round_])
                for number in range(10):
                    await producer.send(TOPIC, b"%d" % (round_ * 10 + number), partition=0)
    found = read_all(broker.bootstrap_servers, TOPIC, 40)
    assert [int(one.value() or b"") for one in found] == list(range(40))


async def test_a_transaction_whose_end_has_no_answer_is_not_called_aborted(broker: EmbeddedBroker) -> None:
    settings: dict[str, Any] = {"request_timeout_ms": 200, "max_block_ms": 700}
    async with AsyncProducer(broker.bootstrap_servers, transactional_id="t", **settings) as producer:

        async def write_without_answer() -> None:
            async with producer.transaction():
                await (await producer.send(TOPIC, b"0", partition=0))
                broker.lose_answer("EndTxn", times=1000)

        with pytest.raises(TransactionError, match="may be committed, or not") as unknown:
            await write_without_answer()
        assert unknown.value.may_be_committed
        broker.heal()
        async with producer.transaction():
            await producer.send(TOPIC, b"1", partition=0)
    found = read_all(broker.bootstrap_servers, TOPIC, 2)
    assert [one.value() for one in found] == [b"0", b"1"]


async def test_only_one_transaction_is_open_and_it_needs_a_name(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers, transactional_id="t") as producer:
        async with producer.transaction():
            with pytest.raises(TransactionError, match="one at a time"):
                async with producer.transaction():
                    pass
        with pytest.raises(TransactionError, match="within a transaction"):
            await producer.send(TOPIC, b"1")
    async with AsyncProducer(broker.bootstrap_servers) as producer:
        with pytest.raises(TransactionError, match="give the producer a transactional_id"):
            async with producer.transaction():
                pass


async def test_a_partition_that_is_not_there_is_named(broker: EmbeddedBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers) as producer:
        with pytest.raises(ClientError, match="has no partition 9: it has 4, from 0 to 3"):
            await producer.send(TOPIC, b"1", partition=9)


async def test_a_time_that_has_come_is_no_trouble_for_timers(broker: EmbeddedBroker) -> None:
    """uvloop's handle of such a time has no `when`; the thread of a client runs on uvloop where that is installed."""
    async with AsyncProducer(broker.bootstrap_servers) as producer:
        await (await producer.send(TOPIC, b"1"))
        core = producer._core
        now_s = core.io.loop.time()

        async def look_twice() -> None:
            for when in (now_s - 1, now_s - 2):
                core._look_at(when)
                core.pipeline._wake_at(when)

        await core.io.run(look_twice())
        assert (await (await producer.send(TOPIC, b"2"))).offset >= 0
