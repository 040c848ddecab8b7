"""What a subscriber is told when its ground goes away: topics deleted and made again, damage; partitions added, lag."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.servers.push.push_peer import PushPeer, control
from tests.servers.push.test_push_subscriptions import SYMBOLS, committed_offset, configure, feed, serving

from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.servers.push import subscription
from qanat.servers.push.connection import PushConnection
from qanat.servers.push.partition_readers import PartitionReaders
from qanat.testing import BrokerHere
from qanat.wire.kafka.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from qanat.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.push.control import Ack, Credit, Disconnect, Heartbeat, Mode, Position, Reset, Start, Subscribe
from qanat.wire.push.frames import FrameType

NEW = ["NVDA", "META"]


async def delete(broker: BrokerHere, topic: str = "prices") -> None:
    async with Cluster(parse_bootstrap(broker.bootstrap_servers)) as cluster:
        request = DeleteTopicsRequest([topic], [DeleteTopicState(topic)], 10_000)
        answer = await cluster.call_controller(ApiKey.DELETE_TOPICS, request)
        assert [one.error_code for one in answer.responses] == [0]


async def make_again(broker: BrokerHere, *values: str) -> None:
    await delete(broker)
    await broker.create_topic("prices", partitions=1)
    await feed(broker, *values)


async def take(consumer: PushPeer, count: int) -> list[str]:
    """Values of the next records, each acknowledged."""
    found = []
    for _ in range(count):
        frame, record = await consumer.record()
        consumer.acknowledge(frame)
        found.append((record.value or b"").decode())
    return found


async def told(consumer: PushPeer) -> Reset:
    """The next frame, a RESET, which is acknowledged."""
    frame = await consumer.expect(FrameType.RESET)
    consumer.acknowledge(frame.id)
    return control(Reset, frame)


@pytest.mark.parametrize("start", [Start.EARLIEST, Start.LATEST])
@pytest.mark.parametrize("group", ["", "g"])
async def test_a_topic_made_again_under_a_subscription_is_pushed_from_its_beginning(group: str, start: Start) -> None:
    async with serving() as broker, PushPeer(broker) as consumer:
        first = await consumer.ask(Subscribe(1, topics=["prices"], group=group, start=start))
        await asyncio.sleep(0.3 if start is Start.LATEST else 0)
        await feed(broker, *SYMBOLS)
        assert await take(consumer, 5) == SYMBOLS

        await make_again(broker, *NEW)

        reset = await told(consumer)
        assert (reset.why, reset.offset) == ("recreated", 0)
        assert reset.topic_id != first.topic_ids["prices"]
        assert await take(consumer, 2) == NEW
        if group:
            await asyncio.sleep(0.3)
            assert await committed_offset(broker, group) == 2, "of the topic that is there now"


async def test_a_position_in_a_topic_that_was_deleted_since_counts_for_nothing() -> None:
    async with serving() as broker:
        await feed(broker, *SYMBOLS)
        async with PushPeer(broker) as consumer:
            known = (await consumer.ask(Subscribe(1, topics=["prices"]))).topic_ids["prices"]
        await make_again(broker, *NEW, *SYMBOLS)

        async with PushPeer(broker) as consumer:
            where = Position("prices", 0, 5, 0, known)
            await consumer.ask(Subscribe(1, topics=["prices"], positions=[where]))
            assert (await told(consumer)).why == "recreated"
            assert await take(consumer, 7) == [*NEW, *SYMBOLS]


async def test_a_member_that_knew_the_former_topic_is_told_when_it_comes_back() -> None:
    async with serving() as broker:
        await feed(broker, *SYMBOLS)
        async with PushPeer(broker) as consumer:
            known = (await consumer.ask(Subscribe(1, topics=["prices"], group="g"))).topic_ids["prices"]
            assert await take(consumer, 5) == SYMBOLS
        await make_again(broker, *NEW)

        where = [Position("prices", 0, 5, 0, known)]
        async with PushPeer(broker) as consumer:
            await consumer.ask(Subscribe(1, topics=["prices"], group="g", positions=where))
            assert (await told(consumer)).why == "recreated"
            assert await take(consumer, 2) == NEW


async def test_a_deleted_topic_ends_its_subscriptions_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "TOPIC_TIMEOUT_MS", 500)
    async with serving() as broker, PushPeer(broker) as one, PushPeer(broker) as other:
        await one.ask(Subscribe(1, topics=["prices"]))
        await other.ask(Subscribe(1, topics=["prices"], group="g"))
        await delete(broker)

        for consumer in (one, other):
            ended = control(Disconnect, await consumer.expect(FrameType.DISCONNECT))
            assert (ended.reason, ended.message) == ("unknown-topic-or-partition", "topic prices was deleted")


async def test_partitions_that_are_added_are_pushed_to_subscribers_without_a_group() -> None:
    async with serving() as broker, PushPeer(broker) as consumer:
        await consumer.ask(Subscribe(1, topics=["prices"], start=Start.LATEST))
        async with Cluster(parse_bootstrap(broker.bootstrap_servers)) as cluster:
            request = CreatePartitionsRequest([CreatePartitionsTopic("prices", 2, None)], 10_000)
            answer = await cluster.call_controller(ApiKey.CREATE_PARTITIONS, request)
            assert [one.error_code for one in answer.results] == [0]
        async with PushPeer(broker) as producer:
            producer.send(FrameType.HEARTBEAT, b"{}")
            await producer.expect(FrameType.ACK)
            data = {"topic": "prices", "partition": 1, "value": "late"}
            producer.send(FrameType.DATA, json.dumps(data).encode())
            await producer.expect(FrameType.ACK)

        async with asyncio.timeout(8):  # Sooner than the next heartbeat, which would look as well.
            _, record = await consumer.record()
        assert (record.partition, record.offset, record.value) == (1, 0, b"late")


# Damage


def damage(folder: Path, marker: bytes) -> None:
    """Flip one bit of a record on the disk."""
    (path,) = folder.glob("broker-*/prices-0/*.log")
    content = bytearray(path.read_bytes())
    content[content.index(marker)] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("mode", [Mode.LOG, Mode.ALL, Mode.QUEUE])
async def test_a_damaged_batch_ends_the_subscription_after_what_is_before_it(tmp_path: Path, mode: Mode) -> None:
    group = "" if mode is Mode.ALL else "g"
    async with BrokerHere(data_dir=tmp_path) as broker:
        await broker.create_topic("prices", partitions=1)
        for value in SYMBOLS:
            await feed(broker, value)
        if mode is Mode.QUEUE:
            await configure(broker, "g")
    damage(tmp_path, b"MSFT")
    async with BrokerHere(data_dir=tmp_path) as broker, PushPeer(broker) as consumer, PushPeer(broker) as other:
        await broker.create_topic("news", partitions=1)
        await other.ask(Subscribe(1, topics=["news"]))
        await consumer.ask(Subscribe(1, topics=["prices"], group=group, mode=mode))
        if mode is not Mode.QUEUE:
            assert await take(consumer, 2) == SYMBOLS[:2]
        while (frame := await consumer.frame()).type != FrameType.DISCONNECT:
            pass
        ended = control(Disconnect, frame)
        assert ended.reason == "unreadable"
        assert "prices-0" in ended.message

        await feed(broker, "other", topic="news")
        assert await take(other, 1) == ["other"], "nobody else is hurt"


async def test_a_bug_of_one_subscription_ends_it_and_the_others_are_looked_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving() as broker, PushPeer(broker) as hurt, PushPeer(broker) as other:
        await hurt.ask(Subscribe(1, topics=["prices"], client="hurt"))
        await other.ask(Subscribe(1, topics=["prices"], client="other"))
        pump = PartitionReaders.pump

        def failing(readers: PartitionReaders) -> None:
            if readers._connection.client == "hurt":
                raise ZeroDivisionError
            pump(readers)

        monkeypatch.setattr(PartitionReaders, "pump", failing)
        monkeypatch.setattr(subscription, "TOPIC_TIMEOUT_MS", 500)
        await feed(broker, "AAPL")

        assert await hurt.reason() == "broker-fault"
        assert await take(other, 1) == ["AAPL"]
        await delete(broker)
        assert await other.reason() == "unknown-topic-or-partition", "its ticks go on"


async def test_a_connection_that_ends_while_its_subscription_is_looked_up_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    look_up = PushConnection._look_up

    async def look_up_for_long(connection: PushConnection, topics: tuple[str, ...]) -> None:
        await look_up(connection, topics)
        connection.end("silent", "nothing came")

    monkeypatch.setattr(PushConnection, "_look_up", look_up_for_long)
    async with serving() as broker, PushPeer(broker) as consumer:
        consumer.say(Subscribe(1, topics=["prices"]))
        assert await consumer.reason() == "silent"
    assert "push connection failed" not in caplog.text


# Waiting without work


async def test_a_batch_that_does_not_fit_into_the_credit_is_waited_for_without_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving() as broker, PushPeer(broker) as consumer:
        await feed(broker, "AAPL")
        await feed(broker, *SYMBOLS)
        pumps = 0
        pump = PartitionReaders.pump

        def counted(readers: PartitionReaders) -> None:
            nonlocal pumps
            pumps += 1
            pump(readers)

        await consumer.ask(Subscribe(1, topics=["prices"], credit=Credit(4, 10_000), forms=[1]))
        frame, _ = await consumer.batches()
        await asyncio.sleep(0.1)
        monkeypatch.setattr(PartitionReaders, "pump", counted)
        await asyncio.sleep(1)
        assert pumps < 10, "twice a second, for the sake of leaders"

        consumer.acknowledge(frame)
        _, batches = await consumer.batches()
        assert batches.end_offset == 6


# Commits


@pytest.mark.parametrize("payload", [b"{}", b'{"positions":[{"topic":"prices","partition":0,"offset":-1}]}'])
async def test_a_commit_of_no_offset_is_refused(payload: bytes) -> None:
    async with serving() as broker, PushPeer(broker) as consumer:
        await feed(broker, *SYMBOLS)
        await consumer.ask(Subscribe(1, topics=["prices"], group="g"))
        await consumer.record()
        consumer.send(FrameType.COMMIT_OFFSET, payload)
        while (frame := await consumer.frame()).type != FrameType.ACK:
            pass
        assert control(Ack, frame).error == "malformed"


# Lag


async def test_the_lag_of_every_subscription_is_listed() -> None:
    async with serving() as broker, PushPeer(broker) as operator:
        await broker.create_topic("news", partitions=2)
        await configure(broker, "g")
        await feed(broker, *SYMBOLS)
        await feed(broker, *SYMBOLS, topic="news")
        few = Credit(1, 10_000)
        async with (
            PushPeer(broker) as one,
            PushPeer(broker) as two,
            PushPeer(broker) as three,
            PushPeer(broker) as four,
        ):
            await one.ask(Subscribe(1, topics=["prices"], group="log", client="one", credit=few))
            await take(one, 2)
            await two.ask(Subscribe(1, topics=["prices", "news"], client="two", credit=Credit(4, 10_000)))
            await two.record()
            await three.ask(Subscribe(1, topics=["news"], group="log2", client="three"))
            for _ in range(5):
                frame, _ = await three.record()
                three.acknowledge(frame)
            await four.ask(Subscribe(1, topics=["prices"], group="g", mode=Mode.QUEUE, client="four", credit=few))
            frame, _ = await four.record()
            four.acknowledge(frame, Ack())
            await four.record()
            await asyncio.sleep(0.5)

            listed = (await operator.ask(Heartbeat(1, ask="consumers"))).consumers

        assert {row.client: row.lag for row in listed} == {"one": 3, "two": 10, "three": 0, "four": 4}
        assert not any(row.unknown_lags for row in listed)


# Members


async def test_a_member_that_connects_again_has_its_partitions_at_once_and_its_former_connection_ends() -> None:
    async with serving() as broker, PushPeer(broker) as first, PushPeer(broker) as second:
        await feed(broker, *SYMBOLS)
        wanted = Subscribe(1, topics=["prices"], group="g", member="till-7")
        await first.ask(wanted)
        assert await take(first, 2) == SYMBOLS[:2]
        await asyncio.sleep(0.2)

        await second.ask(wanted)

        while (frame := await first.frame()).type != FrameType.DISCONNECT:
            pass
        assert control(Disconnect, frame).reason == "superseded"
        assert (await take(second, 3))[-3:] == SYMBOLS[2:]
        await feed(broker, "later")
        assert await take(second, 1) == ["later"], "the end of the former connection took nothing from it"
        await asyncio.sleep(0.3)
        assert await committed_offset(broker, "g") == 6
