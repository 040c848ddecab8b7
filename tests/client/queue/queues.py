"""A topic with jobs, and a share group that begins with its first record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from qanat.client import AsyncQueueConsumer, Record
from qanat.testing import EmbeddedBroker

PATIENCE_S = 60.0
Raw = Record[Any, Any]


@dataclass(frozen=True)
class Queue:
    """One queue on a broker."""

    broker: EmbeddedBroker
    topic: str
    group: str

    @staticmethod
    def made(broker: EmbeddedBroker, name: str, partitions: int = 2) -> Queue:
        queue = Queue(broker, f"{name}-jobs", f"{name}-workers")
        broker.create_topic(queue.topic, partitions)
        queue.configure(**{"share.auto.offset.reset": "earliest"})
        return queue

    def configure(self, **settings: str) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, self.group, incremental_configs=entries)
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        for outcome in admin.incremental_alter_configs([resource]).values():
            outcome.result(PATIENCE_S)

    def produce(self, *values: bytes, **fields: Any) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        for number, value in enumerate(values):
            producer.produce(self.topic, value, partition=number % 2, **fields)
        assert producer.flush(PATIENCE_S) == 0

    def consumer(self, **settings: Any) -> AsyncQueueConsumer:
        return AsyncQueueConsumer(self.broker.bootstrap_servers, self.topic, group=self.group, **settings)


async def take(consumer: AsyncQueueConsumer, count: int) -> list[Raw]:
    """So many records, however many polls that takes."""
    found: list[Raw] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            found += await consumer.poll(count - len(found))
    return found


async def until(is_so: Callable[[], Awaitable[bool] | bool]) -> None:
    """Poll a condition that other threads make true."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            outcome = is_so()
            if outcome if isinstance(outcome, bool) else await outcome:
                return
            await asyncio.sleep(0.01)
