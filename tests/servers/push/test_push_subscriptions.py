"""Push subscriptions against a real broker: every mode, from the first record to the commit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.servers.push.push_peer import PushPeer

from qanat.client import AsyncProducer
from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.connection.committed import committed_offsets
from qanat.servers.push.subscription import LogSubscription
from qanat.testing import BrokerHere
from qanat.wire.batch_header import split_batches
from qanat.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.push.control import Ack, Credit, Heartbeat, Mode, Position, Start, Subscribe, Verdict
from qanat.wire.push.frames import FrameType
from qanat.wire.records import decode_records

_GROUP = 32
"""The kind of resource that a group is."""
SYMBOLS = ["AAPL", "GOOGL", "MSFT", "TSLA", "AMZN"]


@asynccontextmanager
async def serving() -> AsyncIterator[BrokerHere]:
    async with BrokerHere() as made:
        await made.create_topic("prices", partitions=1)
        yield made


async def configure(broker: BrokerHere, group: str) -> None:
    """Let a queue begin with the first record; by default it begins at the end."""
    setting = AlterableConfig("share.auto.offset.reset", 0, "earliest")
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(_GROUP, group, [setting])])
    async with Cluster(parse_bootstrap(broker.bootstrap_servers)) as cluster:
        answer = await cluster.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
        assert [one.error_code for one in answer.responses] == [0]


async def feed(broker: BrokerHere, *values: str, topic: str = "prices") -> None:
    async with PushPeer(broker) as producer:
        producer.send(FrameType.HEARTBEAT, b"{}")
        await producer.expect(FrameType.ACK)
        for value in values:
            producer.send(FrameType.DATA, json.dumps({"topic": topic, "key": value, "value": value}).encode())
        for _ in values:
            answer = json.loads(bytes((await producer.expect(FrameType.ACK)).payload))
            assert "offset" in answer, answer


async def test_the_plain_dialect_gets_json_and_its_acks_are_committed() -> None:
    async with serving() as broker:
        await feed(broker, *SYMBOLS)

        async with PushPeer(broker) as consumer:
            subscribed = consumer.send(FrameType.SUBSCRIBE, b'{"topic":"prices","group":"price-group"}')
            assert (await consumer.expect(FrameType.ACK)).id == subscribed
            records = []
            for _ in SYMBOLS:
                frame = await consumer.expect(FrameType.DATA)
                records.append(json.loads(bytes(frame.payload)))
                consumer.acknowledge(frame.id)
            committed = consumer.send(FrameType.COMMIT_OFFSET, b'{"topic":"prices","partition":0,"offset":5}')
            assert (await consumer.expect(FrameType.ACK)).id == committed

        assert [one["value"] for one in records] == SYMBOLS
        assert [one["offset"] for one in records] == [0, 1, 2, 3, 4]
        assert {(one["topic"], one["partition"], one["type"]) for one in records} == {("prices", 0, "M")}
        assert await committed_offset(broker, "price-group") == 5


async def committed_offset(broker: BrokerHere, group: str) -> int:
    async with Cluster(parse_bootstrap(broker.bootstrap_servers)) as cluster:
        found = await committed_offsets(cluster, group, cluster.deadline())
    return found.get(next(iter(found)), -1) if found else -1


async def test_a_record_is_pushed_when_it_is_written() -> None:
    async with serving() as broker, PushPeer(broker) as consumer:
        answer = await consumer.ask(Subscribe(1, topics=["prices"]))
        assert (answer.v, answer.mode, answer.partitions) == (1, Mode.ALL, {"prices": 1})
        assert await consumer.is_silent()

        await feed(broker, "AAPL")

        _, record = await consumer.record()
        assert (record.key, record.value, record.offset) == (b"AAPL", b"AAPL", 0)


async def test_the_next_member_of_a_group_resumes_at_the_commit() -> None:
    async with serving() as broker:
        await feed(broker, *SYMBOLS)
        async with PushPeer(broker) as first:
            await first.ask(Subscribe(1, topics=["prices"], group="g"))
            frames = [await first.record() for _ in SYMBOLS]
            first.acknowledge(frames[1][0])
            first.send(FrameType.COMMIT_OFFSET, b'{"positions":[{"topic":"prices","partition":0,"offset":2}]}')
            await first.expect(FrameType.ACK)
            first.kill()

        async with PushPeer(broker) as second:
            await second.ask(Subscribe(1, topics=["prices"], group="g"))
            again = [await second.record() for _ in SYMBOLS[2:]]

        assert [record.value for _, record in again] == [b"MSFT", b"TSLA", b"AMZN"]


async def test_without_credit_nothing_comes() -> None:
    async with serving() as broker:
        await feed(broker, *SYMBOLS)
        async with PushPeer(broker) as consumer:
            await consumer.ask(Subscribe(1, topics=["prices"], credit=Credit(2, 10_000)))
            await consumer.record()
            second, _ = await consumer.record()
            assert await consumer.is_silent()

            consumer.acknowledge(second)

            assert [(await consumer.record())[1].offset for _ in range(2)] == [2, 3]
            assert await consumer.is_silent()


async def test_a_subscriber_of_all_resumes_by_its_offset() -> None:
    async with serving() as broker:
        await feed(broker, *SYMBOLS)

        async with PushPeer(broker) as consumer:
            await consumer.ask(Subscribe(1, topics=["prices"], positions=[Position("prices", 0, 3, 0)]))
            assert (await consumer.record())[1].offset == 3
        async with PushPeer(broker) as consumer:
            await consumer.ask(Subscribe(1, topics=["prices"], start=Start.LATEST))
            assert await consumer.is_silent()
            await feed(broker, "NEW")
            assert (await consumer.record())[1].value == b"NEW"


async def test_a_position_beyond_the_log_is_reset() -> None:
    async with serving() as broker:
        await feed(broker, *SYMBOLS)

        async with PushPeer(broker) as consumer:
            await consumer.ask(Subscribe(1, topics=["prices"], positions=[Position("prices", 0, 9)]))
            reset = await consumer.expect(FrameType.RESET)
            said = json.loads(bytes(reset.payload))
            assert (said["why"], said["offset"]) == ("truncated", 5)
            await feed(broker, "NEW")
            assert await consumer.is_silent(), "nothing comes before the ACK of a RESET"
            consumer.acknowledge(reset.id)
            assert (await consumer.record())[1].offset == 5


async def test_a_client_that_reads_batches_gets_them_closed() -> None:
    async with serving() as broker:
        await feed(broker, *SYMBOLS)

        async with PushPeer(broker) as consumer:
            await consumer.ask(Subscribe(1, topics=["prices"], forms=[1]))
            end = 0
            while end < len(SYMBOLS):
                frame, batches = await consumer.batches()
                assert batches.first_offset == end
                end = batches.end_offset
                consumer.acknowledge(frame)
        assert end == len(SYMBOLS)


async def test_batches_that_share_a_frame_stay_within_the_credit() -> None:
    async with serving() as broker:
        for symbol in SYMBOLS:
            await feed(broker, symbol)
        async with PushPeer(broker) as consumer:
            await consumer.ask(Subscribe(1, topics=["prices"], forms=[1], credit=Credit(2, 10_000)))
            ends = []
            for _ in range(3):
                frame, batches = await consumer.batches()
                ends.append(batches.end_offset)
                assert await consumer.is_silent()
                consumer.acknowledge(frame)
        assert ends == [2, 4, 5]


async def test_a_queue_gives_each_record_to_one_worker_and_released_ones_again() -> None:
    async with serving() as broker:
        await configure(broker, "queue")
        await feed(broker, *SYMBOLS)
        async with PushPeer(broker) as worker:
            await worker.ask(Subscribe(1, topics=["prices"], group="queue", mode=Mode.QUEUE, credit=Credit(2, 10_000)))
            seen: list[bytes | None] = []
            is_released = False
            while len(seen) < len(SYMBOLS):
                frame, record = await worker.record()
                if record.value == b"MSFT" and not is_released:
                    is_released = True
                    worker.acknowledge(frame, Ack(verdict=Verdict.RELEASE))
                    continue
                seen.append(record.value)
                worker.acknowledge(frame)

        assert len(seen) == len(set(seen))
        assert set(seen) == {symbol.encode() for symbol in SYMBOLS}


async def test_what_a_dead_worker_held_goes_to_another() -> None:
    async with serving() as broker:
        await configure(broker, "queue")
        await feed(broker, *SYMBOLS)
        async with PushPeer(broker) as first:
            await first.ask(Subscribe(1, topics=["prices"], group="queue", mode=Mode.QUEUE))
            held = {(await first.record())[1].value for _ in SYMBOLS}
            first.kill()

        async with PushPeer(broker) as second:
            await second.ask(Subscribe(1, topics=["prices"], group="queue", mode=Mode.QUEUE))
            again = {(await second.record())[1].value for _ in SYMBOLS}

        assert again == held


async def test_two_members_share_the_partitions_and_a_killed_one_loses_its_part() -> None:
    async with BrokerHere() as broker:
        await broker.create_topic("prices", partitions=2)
        async with PushPeer(broker) as first, PushPeer(broker) as second:
            for member in (first, second):
                await member.ask(Subscribe(1, topics=["prices"], group="g"))
            await both_have_a_part(broker, "g")
            await feed(broker, *[f"S{number}" for number in range(20)])
            frame, one = await first.record()
            _, other = await second.record()
            assert one.partition != other.partition
            first.kill()

            seen = {other.value}
            while len(seen) < 20:
                frame, record = await second.record()
                seen.add(record.value)
                second.acknowledge(frame)


async def both_have_a_part(broker: BrokerHere, group: str) -> None:
    """Wait until two subscribers of a group have a partition each."""
    server = broker.node.push.server
    assert server is not None
    async with asyncio.timeout(60):
        while True:
            parts = [one.subscription for one in server._connections]
            found = [one for one in parts if isinstance(one, LogSubscription)]
            if len(found) == 2 and all(len(one.session.cursors) == 1 for one in found):
                return
            await asyncio.sleep(0.01)


async def test_aborted_records_and_markers_do_not_come() -> None:
    async with serving() as broker:
        async with AsyncProducer(broker.bootstrap_servers, transactional_id="t") as producer:
            for value, is_kept in ((b"one", True), (b"void", False), (b"two", True)):
                try:
                    async with producer.transaction():
                        await producer.send("prices", value)
                        if not is_kept:
                            raise LookupError
                except LookupError:
                    pass
        for forms in ([0], [1]):
            async with PushPeer(broker) as consumer:
                await consumer.ask(Subscribe(1, topics=["prices"], forms=forms))
                found: list[bytes | None] = []
                while len(found) < 2:
                    if forms == [0]:
                        found.append((await consumer.record())[1].value)
                    else:
                        _, batches = await consumer.batches()
                        for batch in split_batches(batches.batches):
                            found += [one.value for one in decode_records(batch, 10_000)]
                assert found == [b"one", b"two"]
                assert await consumer.is_silent()


async def test_a_slow_subscriber_does_not_hold_another_one() -> None:
    async with serving() as broker, PushPeer(broker) as slow, PushPeer(broker) as quick:
        await slow.ask(Subscribe(1, topics=["prices"], credit=Credit(1, 100)))
        await quick.ask(Subscribe(1, topics=["prices"]))
        await feed(broker, *[f"S{number}" for number in range(200)])

        for number in range(200):
            frame, record = await quick.record()
            assert record.offset == number
            quick.acknowledge(frame)
        await slow.record()
        assert await slow.is_silent()


async def test_who_is_connected_can_be_listed() -> None:
    async with serving() as broker, PushPeer(broker) as consumer, PushPeer(broker) as operator:
        await feed(broker, *SYMBOLS)
        await consumer.ask(Subscribe(1, client="till-7", topics=["prices"], group="g", credit=Credit(2, 1_000)))
        await consumer.record()
        await consumer.record()

        (listed,) = (await operator.ask(Heartbeat(1, ask="consumers"))).consumers

        assert (listed.client, listed.group, listed.mode, listed.topics) == ("till-7", "g", Mode.LOG, ["prices"])
        assert (listed.out_records, listed.credit_records, listed.lag, listed.last_ack) == (2, 2, 5, 0)


async def test_a_client_that_answers_nothing_gets_what_its_credit_allows_and_one_that_catches_up_the_rest() -> None:
    count = 40
    async with serving() as broker, PushPeer(broker) as slow, PushPeer(broker) as quick:
        await slow.ask(Subscribe(1, topics=["prices"], credit=Credit(count // 2, 1_000_000)))
        await quick.ask(Subscribe(1, topics=["prices"]))
        for number in range(count):
            await feed(broker, str(number))
            frame_id, record = await quick.record()
            quick.acknowledge(frame_id)
            assert record.value == str(number).encode(), "what others owe does not hold it up"

        held = [await slow.record() for _ in range(count // 2)]
        assert await slow.is_silent(0.2), "its credit is out"
        rest = []
        slow.acknowledge(held[-1][0])
        for _ in range(count // 2):
            frame_id, record = await slow.record()
            slow.acknowledge(frame_id)
            rest.append(record)

        assert [one.value for one in (*(record for _, record in held), *rest)] == [b"%d" % n for n in range(count)]


async def test_one_answer_at_a_time_keeps_a_client_supplied_to_the_last_record() -> None:
    """Its credit is mostly out for most of the time, and each answer is late."""
    async with serving() as broker, PushPeer(broker) as slow:
        await slow.ask(Subscribe(1, topics=["prices"], credit=Credit(4, 1_000_000)))
        await feed(broker, *map(str, range(12)))
        seen = []
        for _ in range(12):
            frame_id, record = await slow.record()
            await asyncio.sleep(0.015)
            slow.acknowledge(frame_id)
            seen.append(record.value)

        assert seen == [b"%d" % n for n in range(12)]
