"""Bad input: the client learns why and is closed; the broker and its other clients go on."""

from __future__ import annotations

import asyncio
import random
import struct

import pytest
from tests.servers.push.push_peer import WAIT_S, PushPeer, control

from qanat.testing import BrokerHere
from qanat.wire.push.control import Ack, Credit, Heartbeat, Subscribe, encode_control
from qanat.wire.push.data import PushedRecord, encode_record
from qanat.wire.push.frames import FrameType, encode_frame

SUBSCRIBE = encode_frame(FrameType.SUBSCRIBE, 1, encode_control(Subscribe(1, topics=["prices"])))
GREETING = encode_frame(FrameType.HEARTBEAT, 1, encode_control(Heartbeat(1, topics=["prices"])))

BAD = {
    "an unknown type": (SUBSCRIBE + b"\x63" + bytes(12), "malformed"),
    "a length that lies": (struct.pack(">BQI", FrameType.SUBSCRIBE, 1, 2**32 - 1), "malformed"),
    "DATA first": (encode_frame(FrameType.DATA, 1, b"x"), "wrong-order"),
    "ACK first": (encode_frame(FrameType.ACK, 1), "wrong-order"),
    "a second subscription": (SUBSCRIBE + encode_frame(FrameType.SUBSCRIBE, 2, b"{}"), "wrong-order"),
    "DATA of a subscriber": (SUBSCRIBE + encode_frame(FrameType.DATA, 2), "wrong-order"),
    "an ACK of nothing": (SUBSCRIBE + encode_frame(FrameType.ACK, 99), "unknown-id"),
    "an id that falls": (SUBSCRIBE + encode_frame(FrameType.COMMIT_OFFSET, 1, b"{}"), "wrong-order"),
    "no JSON": (encode_frame(FrameType.SUBSCRIBE, 1, b"\xff{"), "malformed"),
    "no topic": (encode_frame(FrameType.SUBSCRIBE, 1, b'{"v":1}'), "malformed"),
    "a name that no topic has": (encode_frame(FrameType.SUBSCRIBE, 1, b'{"topic":"?"}'), "invalid-topic-exception"),
    "a mode without a group": (encode_frame(FrameType.SUBSCRIBE, 1, b'{"topic":"a","mode":"log"}'), "malformed"),
    "an unknown form": (GREETING + encode_frame(FrameType.DATA, 2, b"\x09"), "malformed"),
    "a topic that was not named": (
        GREETING + encode_frame(FrameType.DATA, 2, encode_record(PushedRecord(7, 0, -1, -1, 0, None, b""))),
        "unknown-topic",
    ),
    "RESET of a client": (SUBSCRIBE + encode_frame(FrameType.RESET, 2, b"{}"), "wrong-order"),
    "a token where none is asked for": (
        encode_frame(FrameType.HEARTBEAT, 1, b'{"mechanism":"PLAIN","token":""}'),
        "no-authentication",
    ),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_client_learns_why_it_is_disconnected(name: str) -> None:
    data, reason = BAD[name]
    async with BrokerHere() as broker:
        await broker.create_topic("prices")
        async with PushPeer(broker) as bad:
            bad.write(data)
            while (frame := await bad.frame()).type != FrameType.DISCONNECT:
                assert frame.type in (FrameType.ACK, FrameType.HEARTBEAT)
            assert f'"reason":"{reason}"'.encode() in bytes(frame.payload)
            with pytest.raises(EOFError):
                await bad.frame()


async def test_a_refused_commit_leaves_the_subscription_as_it_is() -> None:
    async with BrokerHere() as broker, PushPeer(broker) as consumer:
        await broker.create_topic("prices")
        await consumer.ask(Subscribe(1, topics=["prices"], group="g"))
        sent = consumer.send(FrameType.COMMIT_OFFSET, b'{"topic":"prices","partition":5,"offset":0}')
        frame = await consumer.expect(FrameType.ACK)

        assert frame.id == sent
        assert b"not-assigned" in bytes(frame.payload)
        assert (await consumer.ask(Heartbeat(1))).v == 1


@pytest.mark.parametrize("seed", range(20))
async def test_damaged_conversations_disturb_no_other_client(seed: int) -> None:
    draw = random.Random(seed)
    record = encode_record(PushedRecord(0, 0, -1, -1, 0, b"k", b"v"))
    whole = [
        SUBSCRIBE + encode_frame(FrameType.ACK, 1) + encode_frame(FrameType.HEARTBEAT, 2),
        GREETING + encode_frame(FrameType.DATA, 2, record) + encode_frame(FrameType.DATA, 3, record),
    ]
    async with BrokerHere() as broker:
        await broker.create_topic("prices")
        async with PushPeer(broker) as healthy:
            await healthy.ask(Subscribe(1, topics=["prices"]))
            for _ in range(30):
                damaged = bytearray(draw.choice(whole))
                for _ in range(draw.randint(1, 4)):
                    damaged[draw.randrange(len(damaged))] = draw.randrange(256)
                async with PushPeer(broker) as bad:
                    bad.write(bytes(damaged[: draw.randint(1, len(damaged))]))
                    if draw.random() < 0.5:
                        bad.kill()
            async with PushPeer(broker) as producer:
                await producer.ask(Heartbeat(1, topics=["prices"]))
                producer.send(FrameType.DATA, encode_record(PushedRecord(0, 0, -1, -1, 0, b"k", b"the last")))
                await producer.expect(FrameType.ACK)
            while (await healthy.record())[1].value != b"the last":
                pass


async def test_a_newer_client_is_served_in_the_version_of_the_broker() -> None:
    async with BrokerHere() as broker, PushPeer(broker) as consumer:
        await broker.create_topic("prices")
        sent = consumer.send(
            FrameType.SUBSCRIBE, b'{"v":7,"features":["time-travel"],"topics":["prices"],"tide":"high"}'
        )
        frame = await consumer.expect(FrameType.ACK)

        assert frame.id == sent
        assert b'"v":1' in bytes(frame.payload)


async def test_what_a_newer_client_adds_to_any_frame_is_ignored() -> None:
    newer = b'"tide":"high","deep":{"v":[1,2,{"x":null}]}'
    async with BrokerHere() as broker, PushPeer(broker) as consumer, PushPeer(broker) as producer:
        await broker.create_topic("prices")
        producer.send(
            FrameType.HEARTBEAT, b'{"v":7,"features":["fly"],"topics":["prices"],"producer":{"name":"x"},%s}' % newer
        )
        await producer.expect(FrameType.ACK)
        producer.send(FrameType.DATA, encode_record(PushedRecord(0, 0, -1, 0, 0, b"k", b"v")))
        await producer.expect(FrameType.ACK)
        credit = b'{"records":5,"bytes":500,"frames":1}'
        consumer.send(
            FrameType.SUBSCRIBE,
            b'{"v":7,"topics":["prices"],"group":"g","credit":%s,"forms":[0,1,9],%s}' % (credit, newer),
        )
        await consumer.expect(FrameType.ACK)
        frame_id, batches = await consumer.batches()
        assert batches.end_offset == 1
        consumer.send(FrameType.ACK, b'{"credit":%s,%s}' % (credit, newer), frame_id)
        position = b'{"topic":"prices","partition":0,"offset":1,"epoch":0,"segment":4}'
        sent = consumer.send(FrameType.COMMIT_OFFSET, b'{"positions":[%s],%s}' % (position, newer))
        answer = await consumer.expect(FrameType.ACK)
        assert (answer.id, control(Ack, answer).error) == (sent, "")
        consumer.send(FrameType.DISCONNECT, b'{"reason":"moved","to":"elsewhere",%s}' % newer)
        with pytest.raises(EOFError):
            await consumer.frame()


async def test_an_older_client_without_a_version_is_served_in_the_plain_dialect() -> None:
    async with BrokerHere() as broker, PushPeer(broker) as consumer, PushPeer(broker) as producer:
        await broker.create_topic("prices")
        producer.send(FrameType.HEARTBEAT, b"{}")
        await producer.expect(FrameType.ACK)
        producer.send(FrameType.DATA, b'{"topic":"prices","value":"1"}')
        await producer.expect(FrameType.ACK)
        consumer.send(FrameType.SUBSCRIBE, b'{"topic":"prices","group":"g"}')
        assert not (await consumer.expect(FrameType.ACK)).payload
        assert b'"value":"1"' in bytes((await consumer.expect(FrameType.DATA)).payload)


async def test_a_topic_that_nobody_may_create_is_refused_at_once() -> None:
    async with BrokerHere(settings={"auto.create.topics.enable": False}) as broker, PushPeer(broker) as consumer:
        consumer.say(Subscribe(1, topics=["nowhere"]))
        async with asyncio.timeout(8):  # Sooner than the next heartbeat.
            assert await consumer.reason() == "unknown-topic-or-partition"


async def test_kafka_clients_and_push_clients_share_the_port() -> None:
    async with BrokerHere() as broker, PushPeer(broker) as kafka, PushPeer(broker) as push:
        kafka.write(struct.pack(">ihhih", 10, 18, 0, 7, -1))
        answer = await kafka._reader.readexactly(8)
        assert answer[4:] == struct.pack(">i", 7), "ApiVersions is answered with its correlation id"
        assert (await push.ask(Heartbeat(1))).v == 1


async def test_a_client_that_reads_nothing_is_gone_soon_after_its_end() -> None:
    async with BrokerHere() as broker:
        await broker.create_topic("prices")
        async with PushPeer(broker) as producer, PushPeer(broker) as stuck:
            await stuck.ask(Subscribe(1, topics=["prices"], credit=Credit(10**6, 10**9)))
            stuck._writer.transport.pause_reading()  # type: ignore[attr-defined]
            await producer.ask(Heartbeat(1, topics=["prices"]))
            record = encode_record(PushedRecord(0, 0, -1, -1, 0, None, bytes(500_000)))
            server = broker.node.push.server
            assert server is not None
            (connection,) = [one for one in server._connections if one.subscription is not None]
            while connection.can_write:
                producer.send(FrameType.DATA, record)
                await producer.expect(FrameType.ACK)
            connection.end("test", "the client is stuck")

            async with asyncio.timeout(WAIT_S):
                while connection.is_open:  # noqa: ASYNC110 - the server has no event for that
                    await asyncio.sleep(0.01)


async def test_push_has_a_port_of_its_own_where_that_is_set() -> None:
    async with BrokerHere(settings={"push.port": 0}) as broker:
        port = broker.node.push.own_port
        assert port is not None
        async with PushPeer(f"127.0.0.1:{port}") as own:
            assert (await own.ask(Heartbeat(1))).v == 1
        async with PushPeer(f"127.0.0.1:{port}") as kafka:
            kafka.write(struct.pack(">ihhih", 10, 18, 0, 7, -1))
            assert await kafka.reason() == "malformed"
