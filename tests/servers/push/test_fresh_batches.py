"""Batches that are delivered as they were written, without a read of the log."""

from __future__ import annotations

from tests.servers.push.push_peer import PushPeer

from qanat.model.ids import TopicPartition
from qanat.servers.push.fresh_batches import BYTES_MAX, FreshBatches
from qanat.testing import BrokerHere
from qanat.wire.batch_header import HEADER_SIZE, read_header
from qanat.wire.compression import Codec
from qanat.wire.push.control import Heartbeat, Producer, Subscribe
from qanat.wire.push.data import PushedRecord, encode_record
from qanat.wire.push.frames import FrameType
from qanat.wire.record_writer import encode_records
from qanat.wire.records import BatchFields, decode_records, sealed


def batch(value: bytes) -> bytearray:
    return sealed(encode_records([(0, 0, 0, None, value, ())], HEADER_SIZE), BatchFields(), Codec.NONE, 1, 0, 7, 7)


def record(sequence: int, value: bytes) -> bytes:
    return encode_record(PushedRecord(0, 0, -1, sequence, 1_000, b"k", value))


async def test_a_batch_is_found_where_the_log_has_it_and_nowhere_else() -> None:
    async with BrokerHere() as broker:
        await broker.create_topic("prices", partitions=2)
        here, there = (broker.node.broker.partitions[TopicPartition("prices", number)] for number in range(2))
        fresh = FreshBatches()
        fresh.appended(here, batch(b"v"), 5, 1)

        assert fresh.find(here, 5, 5) is None, "it may not be read yet"
        assert fresh.find(here, 4, 9) is None
        assert fresh.find(there, 5, 9) is None
        found = fresh.find(here, 5, 6)

        assert found is not None
        header = read_header(found.view)
        assert (header.base_offset, header.leader_epoch) == (5, here.leader_epoch)
        assert [one.value for one in decode_records(found.view, 1_000)] == [b"v"]
        fresh.appended(here, batch(bytes(BYTES_MAX)), 6, 1)
        assert fresh.find(here, 6, 7) is None, "too large to keep"


async def test_subscribers_get_the_very_bytes_of_the_log() -> None:
    async with BrokerHere() as broker, PushPeer(broker) as writer, PushPeer(broker) as reader:
        await broker.create_topic("prices", partitions=1)
        await writer.ask(Heartbeat(1, topics=["prices"], producer=Producer()))
        await reader.ask(Subscribe(1, topics=["prices"], forms=[1]))
        pushed = []
        for sequence in range(3):
            writer.send(FrameType.DATA, record(sequence, b"%d" % sequence))
            await writer.expect(FrameType.ACK)
            frame_id, batches = await reader.batches()
            reader.acknowledge(frame_id)
            pushed.append(bytes(batches.batches))
        async with PushPeer(broker) as later:
            await later.ask(Subscribe(1, topics=["prices"], forms=[1]))
            _, stored = await later.batches()

        assert b"".join(pushed) == bytes(stored.batches)


async def test_a_repeated_record_is_delivered_once() -> None:
    async with BrokerHere() as broker, PushPeer(broker) as writer, PushPeer(broker) as reader:
        await broker.create_topic("prices", partitions=1)
        await writer.ask(Heartbeat(1, topics=["prices"], producer=Producer()))
        await reader.ask(Subscribe(1, topics=["prices"]))
        for sequence, value in ((0, b"a"), (0, b"other"), (1, b"b")):
            writer.send(FrameType.DATA, record(sequence, value))
            await writer.expect(FrameType.ACK)

        assert [(await reader.record())[1].value for _ in range(2)] == [b"a", b"b"]
        assert await reader.is_silent()


async def test_with_log_append_time_subscribers_get_the_broker_s_time() -> None:
    async with BrokerHere() as broker, PushPeer(broker) as writer, PushPeer(broker) as reader:
        await broker.create_topic("prices", configs={"message.timestamp.type": "LogAppendTime"})
        await writer.ask(Heartbeat(1, topics=["prices"]))
        await reader.ask(Subscribe(1, topics=["prices"]))
        writer.send(FrameType.DATA, record(-1, b"v"))

        assert (await reader.record())[1].timestamp > 1_000_000_000_000
