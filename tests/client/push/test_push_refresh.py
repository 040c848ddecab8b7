"""A consumer application on a refresh: generations are filled beside what is served, and switched at READY."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.client.push.test_push_clients import WAIT_S, take, write
from tests.servers.push.test_push_subscriptions import serving

from qanat.client import (
    AsyncPushConsumer,
    AsyncPushProducer,
    PushConsumer,
    Refresh,
    RefreshRange,
    ResumePoint,
    TopicPartition,
)
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError
from qanat.connection.push.link import PushLink
from qanat.model.push_refreshes import PushRefresh, RefreshState
from qanat.testing import EmbeddedBroker
from qanat.wire.push.control import VERSION, Ack, Heartbeat, Position

HERE = TopicPartition("prices", 0)


async def ask(address: str, ask: str, *starts: Position, topic: str = "prices") -> Ack:
    host, _, port = address.rpartition(":")
    deadline = Deadline.after(WAIT_S)
    link = await PushLink.open([(host, int(port))], deadline)
    try:
        said = Heartbeat(VERSION, ask=ask, group="g", topic=topic, positions=list(starts))
        return await link.ask(said, deadline)
    finally:
        link.close()


async def newest(address: str) -> PushRefresh:
    (found,) = (await ask(address, "refreshes")).refreshes
    return found


async def until(address: str, state: RefreshState) -> PushRefresh:
    async with asyncio.timeout(WAIT_S):
        while (found := await newest(address)).partitions[0].state is not state:
            pass
    return found


class Application:
    """Generations in memory: what is served, and what a refresh fills."""

    def __init__(self, address: str, **settings: Any) -> None:
        self.served: list[bytes | None] = []
        self.filled: dict[str, list[bytes | None]] = {}
        self.events: list[str] = []
        self.consumer = AsyncPushConsumer(
            address, "prices", group_id="g", on_reset=self.on_reset, on_ready=self.on_ready, **settings
        )

    def on_reset(self, refresh: Refresh) -> Mapping[TopicPartition, ResumePoint]:
        (extent,) = refresh.partitions.values()
        self.events.append(f"reset {extent.start}-{extent.end}, served {len(self.served)}")
        kept = self.filled.setdefault(refresh.id, [])
        return {HERE: ResumePoint(extent.start + len(kept))}

    async def on_ready(self, refresh: Refresh) -> None:
        await asyncio.sleep(0)
        self.events.append(f"ready {len(self.filled[refresh.id])}, served {len(self.served)}")
        self.served = self.filled.pop(refresh.id)

    async def take(self, count: int) -> None:
        async with asyncio.timeout(WAIT_S):
            for _ in range(count):
                record = await self.consumer.next()
                refresh = self.consumer.refresh_of(record)
                (self.served if refresh is None else self.filled[refresh.id]).append(record.value)


async def test_a_refresh_replays_into_a_new_generation_and_goes_on_after_ready() -> None:
    async with serving() as broker:
        address = broker.bootstrap_servers
        await write(broker, b"one", b"two", b"three")
        application = Application(address)
        async with application.consumer:
            await application.take(3)
            begun = (await ask(address, "refresh")).refreshes[0]
            reading = asyncio.create_task(application.take(4))
            await until(address, RefreshState.DONE)
            await write(broker, b"four")
            await reading

            assert application.events == ["reset 0-3, served 3", "ready 3, served 3"]
            assert application.served == [b"one", b"two", b"three", b"four"]
            ended = await until(address, RefreshState.DONE)
            assert ended.id == begun.id


async def test_an_unfinished_generation_goes_on_after_the_broker_was_lost() -> None:
    async with serving() as broker:
        await write(broker, *(b"%d" % number for number in range(20)))
        application = Application(broker.bootstrap_servers, credit_records=1)
        async with application.consumer:
            await application.take(20)
            application.consumer.done()
            await ask(broker.bootstrap_servers, "refresh")
            await application.take(7)
            await broker.restart()
            await application.take(13)
            reading = asyncio.create_task(application.take(1))
            await until(broker.bootstrap_servers, RefreshState.DONE)
            await write(broker, b"20")
            await reading

        assert application.served == [b"%d" % number for number in range(21)], "nothing lost, nothing twice"
        assert application.events[0].startswith("reset 0-20")
        assert application.events[-1] == "ready 20, served 20"


async def test_a_callback_that_fails_is_not_acknowledged_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qanat.edge.refresh_turn.RESET_RETRY_MS", 200)
    async with serving() as broker:
        await write(broker, b"one")
        failures = [OSError("the disk is full")]

        def on_reset(refresh: Refresh) -> None:
            if failures:
                raise failures.pop()

        consumer = AsyncPushConsumer(broker.bootstrap_servers, "prices", group_id="g", on_reset=on_reset)
        async with consumer:
            assert await take(consumer, 1) == [b"one"]
            await ask(broker.bootstrap_servers, "refresh")
            with pytest.raises(OSError, match="the disk is full"):
                await consumer.next()
            assert (await newest(broker.bootstrap_servers)).partitions[0].state is RefreshState.RESETTING
            assert await take(consumer, 1) == [b"one"]


async def test_a_cancelled_refresh_ends_and_what_is_served_goes_on() -> None:
    async with serving() as broker:
        address = broker.bootstrap_servers
        await write(broker, b"one", b"two")
        application = Application(address, credit_records=1, retry_backoff_ms=10)
        async with application.consumer:
            await application.take(2)
            await ask(address, "refresh")
            await application.take(1)
            ended = (await ask(address, "cancel-refresh")).refreshes[0]
            assert ended.is_over
            await write(broker, b"three")
            async with asyncio.timeout(WAIT_S):
                while b"three" not in application.served:
                    await application.take(1)

        assert application.served[-1:] == [b"three"]
        assert [one for one in application.events if one.startswith("ready")] == []


async def test_a_connection_that_ended_while_the_application_was_at_work_takes_its_refresh_along() -> None:
    """What comes next would be lost with the generation of a refresh that is over."""
    async with serving() as broker:
        address = broker.bootstrap_servers
        await write(broker, b"one", b"two")
        application = Application(address, credit_records=1, retry_backoff_ms=10)
        async with application.consumer:
            await application.take(2)
            await ask(address, "refresh")
            await application.take(1)
            await ask(address, "cancel-refresh")
            await write(broker, b"three")
            async with asyncio.timeout(WAIT_S):
                while application.consumer.is_connected:  # noqa: ASYNC110 - the broker ends it, and tells nobody here
                    await asyncio.sleep(0.01)
                while b"three" not in application.served:
                    await application.take(1)

        assert [b"three" in kept for kept in application.filled.values()] == [False]


async def test_one_refresh_at_a_time_and_refusals_say_why() -> None:
    async with serving() as broker:
        address = broker.bootstrap_servers
        await write(broker, b"one")
        await ask(address, "refresh")
        with pytest.raises(RefusedError, match=r"is under way; cancel it first \(under-way\)"):
            await ask(address, "refresh")
        await ask(address, "cancel-refresh")
        with pytest.raises(RefusedError, match="no refresh of prices for group g is under way"):
            await ask(address, "cancel-refresh")
        with pytest.raises(RefusedError, match="has no partition 99"):
            await ask(address, "refresh", Position("prices", 99, 0))


async def test_a_refresh_begins_where_the_operator_says() -> None:
    async with serving() as broker:
        address = broker.bootstrap_servers
        await write(broker, b"one", b"two", b"three")
        application = Application(address)
        async with application.consumer:
            await application.take(3)
            await ask(address, "refresh", Position("prices", 0, 2))
            await application.take(1)
            reading = asyncio.create_task(application.take(1))
            await until(address, RefreshState.DONE)
            reading.cancel()

        assert application.events == ["reset 2-3, served 3", "ready 1, served 3"]
        assert application.served == [b"three"]


def test_threads_switch_generations_on_the_thread_that_reads() -> None:
    import threading

    with EmbeddedBroker() as broker:
        broker.create_topic("prices", partitions=1)
        asyncio.run(write_by(broker.bootstrap_servers, b"one", b"two"))
        seen: list[tuple[str, str]] = []

        def note(name: str) -> None:
            seen.append((name, threading.current_thread().name))

        with PushConsumer(
            broker.bootstrap_servers,
            "prices",
            group_id="g",
            on_reset=lambda refresh: note("reset"),
            on_ready=lambda refresh: note("ready"),
        ) as consumer:
            first = [consumer.next(WAIT_S).value for _ in range(2)]
            asyncio.run(ask(broker.bootstrap_servers, "refresh"))
            again = [consumer.next(WAIT_S).value for _ in range(2)]
            with pytest.raises(TimeoutError):
                consumer.next(1.5)

        here = threading.current_thread().name
        assert first == again == [b"one", b"two"]
        assert seen == [("reset", here), ("ready", here)]


async def write_by(address: str, *values: bytes) -> None:
    async with AsyncPushProducer(address) as producer:
        for value in values:
            await (await producer.send("prices", value, partition=0))


async def test_members_of_a_group_refresh_their_own_partitions() -> None:
    async with serving() as broker:
        address = broker.bootstrap_servers
        await broker.create_topic("shared", partitions=2)
        readied: list[tuple[str, int]] = []
        ranges: dict[int, RefreshRange] = {}
        switched = asyncio.Event()

        def member(name: str) -> AsyncPushConsumer:
            def on_reset(refresh: Refresh) -> None:
                ranges.update({at.partition: extent for at, extent in refresh.partitions.items()})

            def on_ready(refresh: Refresh) -> None:
                readied.extend((name, at.partition) for at in refresh.partitions)
                if len(readied) == 2:
                    switched.set()

            return AsyncPushConsumer(address, "shared", group_id="g", on_reset=on_reset, on_ready=on_ready)

        async with member("a") as first, member("b") as second, AsyncPushProducer(address) as producer:
            seen: set[tuple[str, int]] = set()

            async def read(name: str, consumer: AsyncPushConsumer) -> None:
                while True:
                    record = await consumer.next()
                    seen.add((name, record.partition))

            readers = [asyncio.create_task(read("a", first)), asyncio.create_task(read("b", second))]
            async with asyncio.timeout(WAIT_S):
                while {name for name, _ in seen} != {"a", "b"} or len(seen) < 2:
                    for number in range(2):
                        await (await producer.send("shared", b"x", partition=number))
                    await asyncio.sleep(0.01)
                await ask(address, "refresh", topic="shared")
                await switched.wait()
            for reader in readers:
                reader.cancel()

        assert sorted(number for _, number in readied) == [0, 1]
        assert {name for name, _ in readied} == {"a", "b"}, "each switched what it has"
        assert {extent.start for extent in ranges.values()} == {0}
