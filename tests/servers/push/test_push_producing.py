"""Producing over push: durable acknowledgements, order, idempotence, closed batches."""

from __future__ import annotations

import json

from tests.servers.push.push_peer import PushPeer, control

from qanat.log.runtime.waiting_appends import OPENED_ON_LOOP_BYTES
from qanat.testing import BrokerHere
from qanat.wire.batch_header import HEADER_SIZE
from qanat.wire.push.control import Ack, Heartbeat, Producer
from qanat.wire.push.data import ANY_PARTITION, PushedRecord, batches_front, encode_record
from qanat.wire.push.frames import FrameType, encode_frame
from qanat.wire.records import Record, encode_batch


def data(value: bytes, partition: int = ANY_PARTITION, sequence: int = -1, key: bytes | None = None) -> bytes:
    return encode_record(PushedRecord(0, partition, -1, sequence, 1_000, key, value, ((b"h", b"1"),)))


async def test_each_frame_is_answered_with_partition_and_offset_once_it_is_durable() -> None:
    async with BrokerHere() as broker, PushPeer(broker) as producer:
        await broker.create_topic("prices", partitions=2)
        answer = await producer.ask(Heartbeat(1, topics=["prices"]))
        assert answer.partitions == {"prices": 2}
        sent = {producer.send(FrameType.DATA, data(b"v%d" % number, 1)): number for number in range(50)}

        for _ in range(50):
            frame = await producer.expect(FrameType.ACK)
            ack = control(Ack, frame)
            assert (ack.error, ack.partition, ack.offset) == ("", 1, sent[frame.id])

        records = await broker.records("prices")
        assert [(one.partition, one.value) for one in records] == [(1, b"v%d" % number) for number in range(50)]
        assert records[0].headers == (("h", b"1"),)
        assert records[0].timestamp == 1_000


async def test_records_of_one_key_go_to_one_partition() -> None:
    async with BrokerHere() as broker, PushPeer(broker) as producer:
        await broker.create_topic("prices", partitions=4)
        await producer.ask(Heartbeat(1, topics=["prices"]))
        for _ in range(8):
            producer.send(FrameType.DATA, data(b"v", key=b"AAPL"))

        answers = [control(Ack, await producer.expect(FrameType.ACK)) for _ in range(8)]

        assert len({ack.partition for ack in answers}) == 1
        assert sorted(ack.offset for ack in answers) == list(range(8))


async def test_a_repeated_frame_of_an_idempotent_producer_is_written_once() -> None:
    async with BrokerHere() as broker:
        await broker.create_topic("prices", partitions=1)
        async with PushPeer(broker) as producer:
            identity = (await producer.ask(Heartbeat(1, topics=["prices"], producer=Producer()))).producer
            assert identity is not None
            assert identity.id >= 0
            for sequence in range(3):
                producer.send(FrameType.DATA, data(b"v%d" % sequence, 0, sequence))
                await producer.expect(FrameType.ACK)
            producer.kill()

        async with PushPeer(broker) as again:
            await again.ask(Heartbeat(1, topics=["prices"], producer=identity))
            offsets = []
            for sequence in (1, 2, 3):
                again.send(FrameType.DATA, data(b"v%d" % sequence, 0, sequence))
                offsets.append(control(Ack, await again.expect(FrameType.ACK)).offset)
            again.send(FrameType.DATA, data(b"gap", 0, 9))
            gap = control(Ack, await again.expect(FrameType.ACK))

        assert offsets == [1, 2, 3]
        assert gap.error == "out-of-order-sequence-number"
        assert [one.value for one in await broker.records("prices")] == [b"v0", b"v1", b"v2", b"v3"]


async def test_a_closed_batch_is_appended_as_it_is() -> None:
    async with BrokerHere() as broker, PushPeer(broker) as producer:
        await broker.create_topic("prices", partitions=1)
        await producer.ask(Heartbeat(1, topics=["prices"]))
        batch = bytes(encode_batch([Record(0, 1, None, b"a"), Record(1, 1, None, b"b")]))
        producer.send(FrameType.DATA, batches_front(0, 0, -1, -1, -1) + batch)
        assert control(Ack, await producer.expect(FrameType.ACK)).offset == 0
        for length in (0, HEADER_SIZE - 1, HEADER_SIZE, len(batch) - 1):
            producer.send(FrameType.DATA, batches_front(0, 0, -1, -1, -1) + batch[:length])
            assert control(Ack, await producer.expect(FrameType.ACK)).error == "corrupt-message"
        for partition in (-1, 1):
            producer.send(FrameType.DATA, batches_front(0, partition, -1, -1, -1) + batch)
            assert control(Ack, await producer.expect(FrameType.ACK)).error == "unknown-topic-or-partition"

        assert [one.value for one in await broker.records("prices")] == [b"a", b"b"]


async def test_one_bad_record_does_not_cost_the_others() -> None:
    async with BrokerHere() as broker, PushPeer(broker) as producer:
        await broker.create_topic("latest", configs={"cleanup.policy": "compact"})
        await producer.ask(Heartbeat(1, topics=["latest"]))
        frames = data(b"1", 0, key=b"a"), data(b"2", 0), data(b"3", 0, key=b"b"), data(b"4", 7, key=b"b")
        for frame in frames:
            producer.send(FrameType.DATA, frame)

        answers = {}
        for _ in frames:
            frame_back = await producer.expect(FrameType.ACK)
            answers[frame_back.id] = control(Ack, frame_back).error

        assert sorted(answers.values()) == ["", "", "invalid-record", "unknown-topic-or-partition"]
        assert [one.value for one in await broker.records("latest")] == [b"1", b"3"]


async def test_records_that_are_written_one_by_one_after_a_bad_one_keep_their_order() -> None:
    long = bytes(OPENED_ON_LOOP_BYTES)  # A record of this size waits for a worker, those around it do not.
    async with BrokerHere() as broker, PushPeer(broker) as producer:
        await broker.create_topic("latest", configs={"cleanup.policy": "compact"})
        await producer.ask(Heartbeat(1, topics=["latest"]))
        rows = ((b"1", b"a"), (b"refused", None), (long, b"b"), (b"3", b"c"), (long, b"d"), (b"5", b"e"))
        frames = [
            encode_frame(FrameType.DATA, number, data(value, 0, key=key)) for number, (value, key) in enumerate(rows, 2)
        ]

        producer.write(b"".join(frames))
        producer.write(encode_frame(FrameType.DATA, 10, data(b"6", 0, key=b"f")))

        answers = {}
        for _ in range(7):
            frame = await producer.expect(FrameType.ACK)
            answers[frame.id] = control(Ack, frame)
        assert {number: ack.error for number, ack in answers.items() if ack.error} == {3: "invalid-record"}
        found = await broker.records("latest")
        assert [one.key for one in found] == [b"a", b"b", b"c", b"d", b"e", b"f"]
        assert [answers[number].offset for number in (2, 4, 5, 6, 7, 10)] == [one.offset for one in found]


async def test_a_closed_batch_is_written_after_the_records_in_front_of_it() -> None:
    async with BrokerHere() as broker, PushPeer(broker) as producer:
        await broker.create_topic("latest", configs={"cleanup.policy": "compact"})
        await producer.ask(Heartbeat(1, topics=["latest"]))
        batch = bytes(encode_batch([Record(0, 1, b"z", b"the batch")]))
        frames = (data(bytes(OPENED_ON_LOOP_BYTES), 0, key=b"a"), batches_front(0, 0, -1, -1, -1) + batch)

        producer.write(b"".join(encode_frame(FrameType.DATA, number, one) for number, one in enumerate(frames, 2)))

        offsets = {}
        for _ in frames:
            frame = await producer.expect(FrameType.ACK)
            offsets[frame.id] = control(Ack, frame).offset
        assert offsets == {2: 0, 3: 1}


async def test_a_plain_producer_may_delete_by_a_tombstone() -> None:
    async with BrokerHere() as broker, PushPeer(broker) as producer:
        producer.send(FrameType.HEARTBEAT, b"{}")
        await producer.expect(FrameType.ACK)
        for fields in ({"key": "k", "value": "v"}, {"key": "k", "type": "D"}):
            producer.send(FrameType.DATA, json.dumps({"topic": "prices", **fields}).encode())
            await producer.expect(FrameType.ACK)

        assert [(one.key, one.value) for one in await broker.records("prices")] == [(b"k", b"v"), (b"k", None)]
