"""Push clients when what they stand on goes away: topics, brokers that do not answer, damage, refused records."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.client.push.test_push_clients import WAIT_S, take, write
from tests.servers.push.test_push_lost_ground import damage, delete

from qanat.client.errors import DeliveryError
from qanat.client.push.consumers import AsyncPushConsumer, PushConsumer
from qanat.client.push.producers import AsyncPushProducer, PushProducer
from qanat.connection.push.link import DisconnectedError
from qanat.model.errors import CorruptBatchError
from qanat.testing import BrokerHere, EmbeddedBroker
from qanat.wire.push.control import Reset
from qanat.wire.push.frames import FrameType, encode_frame


async def make_again(broker: BrokerHere, *values: bytes) -> None:
    await delete(broker)
    await broker.create_topic("prices", partitions=1)
    await write(broker, *values)


@pytest.mark.parametrize("group", ["", "g"])
async def test_a_consumer_has_every_record_of_a_topic_that_was_made_again(group: str) -> None:
    voided: list[Reset] = []
    async with BrokerHere() as broker:
        await broker.create_topic("prices", partitions=1)
        await write(broker, b"1", b"2", b"3")
        given: dict[str, Any] = {"group_id": group, "on_void": voided.append}
        async with AsyncPushConsumer(broker.bootstrap_servers, "prices", **given) as consumer:
            assert await take(consumer, 3) == [b"1", b"2", b"3"]
            consumer.done()
            await make_again(broker, b"4", b"5")
            assert await take(consumer, 2) == [b"4", b"5"]
            consumer.done()
            kept = consumer.positions if not group else {}
            ids = consumer.topic_ids
        assert [one.why for one in voided] == ["recreated"]

        await make_again(broker, b"6", b"7", b"8")
        if group:
            kept = {at: consumer._subscriber.positions.known[at]._replace(topic_id=ids[at]) for at in ids}
        async with AsyncPushConsumer(broker.bootstrap_servers, "prices", positions=kept, **given) as consumer:
            assert await take(consumer, 3) == [b"6", b"7", b"8"]
        assert [one.why for one in voided] == ["recreated", "recreated"]


async def test_a_topic_that_is_not_there_is_an_error_and_no_silence() -> None:
    async with BrokerHere(settings={"auto.create.topics.enable": "false"}) as broker, asyncio.timeout(WAIT_S):
        consumer = AsyncPushConsumer(broker.bootstrap_servers, "prices")
        with pytest.raises(DisconnectedError, match="there is no topic prices"):
            await consumer.next()


async def test_a_damaged_batch_is_an_error_each_time_and_never_passed_over(tmp_path: Path) -> None:
    async with BrokerHere(data_dir=tmp_path) as broker:
        await broker.create_topic("prices", partitions=1)
        for value in (b"good", b"damaged", b"behind"):
            await write(broker, value)
    damage(tmp_path, b"damaged")
    async with BrokerHere(data_dir=tmp_path) as broker, asyncio.timeout(WAIT_S):
        async with AsyncPushConsumer(broker.bootstrap_servers, "prices", group_id="g") as consumer:
            seen: list[bytes] = []
            for _ in range(4):
                try:
                    seen.append((await consumer.next()).value or b"")
                    consumer.done()
                except (CorruptBatchError, DisconnectedError) as fault:
                    seen.append(type(fault).__name__.encode())
        assert b"behind" not in seen
        assert seen[-1].endswith(b"Error")


async def test_an_address_that_accepts_and_never_answers_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        await pass_over(f"127.0.0.1:{silent.getsockname()[1]}")


async def pass_over(address: str) -> None:
    async with BrokerHere() as broker, asyncio.timeout(WAIT_S):
        servers = f"{address},{broker.bootstrap_servers}"
        async with AsyncPushProducer(servers, request_timeout_ms=500) as producer:
            with pytest.raises(Exception, match="in time"):
                await producer.send("prices", b"one")
            await (await producer.send("prices", b"one"))
        async with AsyncPushConsumer(servers, "prices", request_timeout_ms=500) as consumer:
            assert await take(consumer, 1) == [b"one"]


async def test_a_refused_record_does_not_cost_those_behind_it() -> None:
    async with BrokerHere() as broker:
        await broker.create_topic("prices", partitions=1, configs={"max.message.bytes": "2000"})
        async with AsyncPushProducer(broker.bootstrap_servers) as producer:
            values = [b"1", b"x" * 5000, b"2", b"y" * 5000, b"3"]
            sent = [await producer.send("prices", value, partition=0) for value in values]
            outcomes = await asyncio.gather(*sent, return_exceptions=True)
            last = await (await producer.send("prices", b"4", partition=0))

        assert [isinstance(one, DeliveryError) for one in outcomes] == [False, True, False, True, False]
        assert last.offset == 3
        assert [one.value for one in await broker.records("prices")] == [b"1", b"2", b"3", b"4"]


async def test_a_topic_that_cannot_be_written_to_hinders_no_other() -> None:
    async with BrokerHere() as broker, AsyncPushProducer(broker.bootstrap_servers) as producer:
        first = await producer.send("prices", b"1")
        with pytest.raises(DisconnectedError, match="there can be no topic"):
            await producer.send("no such!", b"2")
        third = await producer.send("prices", b"3")
        assert {(await one).topic for one in (first, third)} == {"prices"}


@pytest.mark.parametrize("answer", [encode_frame(FrameType.ACK, 2, b"{"), b"\xff" * 40, encode_frame(7, 0, b"[")])
async def test_what_a_broken_broker_answers_leaves_no_record_without_an_outcome(answer: bytes) -> None:
    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(encode_frame(FrameType.ACK, 1, b'{"v":1,"partitions":{"prices":1}}'))
        await reader.read(1000)
        writer.write(answer)
        await reader.read(1000)
        writer.close()
        server.close()

    server = await asyncio.start_server(broken, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with asyncio.timeout(WAIT_S):
        producer = AsyncPushProducer(address, enable_idempotence=False)
        with pytest.raises(DeliveryError, match="it is unknown whether it was written"):
            await (await producer.send("prices", b"one"))
        await producer.close()
        await server.wait_closed()


def test_a_wait_that_ends_hands_out_no_record_that_is_lost_then() -> None:
    seen: list[bytes | None] = []
    with (
        EmbeddedBroker() as broker,
        PushProducer(broker.bootstrap_servers) as producer,
        PushConsumer(broker.bootstrap_servers, "prices", group_id="g") as consumer,
    ):
        for number in range(300):
            if number % 10 == 0:
                producer.send("prices", b"%d" % (number // 10), partition=0)
            with suppress(TimeoutError):
                seen.append(consumer.next(0.002).value)
        while len(seen) < 30:
            seen.append(consumer.next(WAIT_S).value)
    assert seen == [b"%d" % number for number in range(30)]
