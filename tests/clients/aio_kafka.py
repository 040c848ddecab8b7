"""aiokafka: pure Python on asyncio, old non-flexible versions only; its loop runs in a thread here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import aiokafka  # type: ignore[import-untyped]
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]
from tests.clients.capabilities import CODECS, Progress

SECONDS = 60
Result = TypeVar("Result")


class Loop:
    """A loop in a thread, for callers that block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()


class AioKafkaMember:
    def __init__(self, loop: Loop, address: str, group: str, topic: str) -> None:
        self._loop = loop
        self._consumer: Any = None
        loop.do(self._start(address, group, topic))

    async def _start(self, address: str, group: str, topic: str) -> None:
        self._consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=50,
            fetch_max_wait_ms=20,
        )
        await self._consumer.start()

    def pump(self) -> Progress:
        polled = self._loop.do(self._consumer.getmany(timeout_ms=50))
        values = [record.value.decode() for records in polled.values() for record in records]
        return Progress({partition.partition for partition in self._consumer.assignment()}, values)

    def commit(self) -> None:
        self._loop.do(self._consumer.commit())

    def leave(self) -> None:
        self._loop.do(self._consumer.stop())


class AioKafkaTransactor:
    def __init__(self, loop: Loop, address: str, transactional_id: str, timeout_ms: int) -> None:
        self._loop = loop
        self._producer: Any = None
        loop.do(self._start(address, transactional_id, timeout_ms))

    async def _start(self, address: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=address, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        await self._producer.start()

    def begin(self) -> None:
        self._loop.do(self._producer.begin_transaction())

    def send(self, topic: str, value: str) -> None:
        self._loop.do(self._producer.send_and_wait(topic, value.encode(), partition=0))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._loop.do(self._producer.send_offsets_to_transaction({TopicPartition(topic, 0): offset}, group))

    def commit(self) -> None:
        self._loop.do(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.do(self._producer.abort_transaction())

    def close(self) -> None:
        self._loop.do(self._producer.stop())


class AioKafka:
    codecs = CODECS

    def __init__(self, address: str) -> None:
        self._address = address
        self._loop = Loop()

    @property
    def version(self) -> str:
        return str(aiokafka.__version__)

    def create(self, topic: str, partitions: int) -> None:
        self._loop.do(self._administer("create_topics", [NewTopic(topic, partitions, 1)]))

    def describe(self, topic: str) -> int:
        (found,) = self._loop.do(self._administer("describe_topics", [topic]))
        return len(found["partitions"])

    def delete(self, topic: str) -> None:
        self._loop.do(self._administer("delete_topics", [topic]))

    async def _administer(self, act: str, argument: object) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._address)
        await admin.start()
        try:
            return await getattr(admin, act)(argument)
        finally:
            await admin.close()

    def produce(self, topic: str, values: Sequence[str], codec: str = "none", acks: str = "all") -> None:
        self._loop.do(self._produce(topic, values, codec, acks))

    async def _produce(self, topic: str, values: Sequence[str], codec: str, acks: str) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._address,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == "all" else int(acks),
            linger_ms=20,
        )
        async with producer:
            sent = [await producer.send(topic, one.encode(), partition=0) for one in values]
            await asyncio.gather(*sent)

    def read(self, topic: str, offset: int, count: int) -> list[str]:
        return self._loop.do(self._read(topic, offset, count))

    def read_committed(self, topic: str, count: int) -> list[str]:
        return self._loop.do(self._read(topic, 0, count, isolation_level="read_committed"))

    def transactor(self, transactional_id: str, timeout_ms: int) -> AioKafkaTransactor:
        return AioKafkaTransactor(self._loop, self._address, transactional_id, timeout_ms)

    async def _read(self, topic: str, offset: int, count: int, **options: Any) -> list[str]:
        async with AIOKafkaConsumer(bootstrap_servers=self._address, fetch_max_wait_ms=20, **options) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek(TopicPartition(topic, 0), offset)
            return [(await consumer.getone()).value.decode() for _ in range(count)]

    def offset_at(self, topic: str, timestamp: int) -> int:
        return self._loop.do(self._offset_at(topic, timestamp))

    async def _offset_at(self, topic: str, timestamp: int) -> int:
        async with AIOKafkaConsumer(bootstrap_servers=self._address) as consumer:
            found = await consumer.offsets_for_times({TopicPartition(topic, 0): timestamp})
            return int(found[TopicPartition(topic, 0)].offset)

    def join(self, group: str, topic: str) -> AioKafkaMember:
        return AioKafkaMember(self._loop, self._address, group, topic)

    def close(self) -> None:
        self._loop.close()
