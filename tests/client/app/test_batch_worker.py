"""The worker of batches on a virtual clock: partitions that go while a batch is built."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from tests.client.app.memory_clients import MemoryClients, MemoryConsumer, raw
from tests.client.app.test_stream_worker import P0, Running, simulated

from qanat.client.app.app import App
from qanat.model.ids import TopicPartition

P1 = TopicPartition("orders", 1)


class Losing(MemoryConsumer):
    """Loses a partition once while a batch is built, and in the end has it again, as another has committed."""

    async def _arrow(self, rows: int, every_s: float) -> AsyncIterator[Any]:
        clients = self._clients
        async for batch in super()._arrow(rows, every_s):
            if not clients.committed:
                await self.owner.on_revoked([P0])
                yield batch
                assert clients.committed == {P1: 3}, "nothing of a partition that has gone"
                await self.owner.on_assigned([P0])
                clients.records += [raw(offset) for offset in range(2, 5)]
            else:
                yield batch


class LosingClients(MemoryClients):
    def stream_consumer(self, handler: Any, owner: Any) -> MemoryConsumer:
        self.consumers.append(Losing(self, owner))
        return self.consumers[-1]


def test_rows_of_a_partition_that_has_gone_are_left_to_its_next_owner() -> None:
    async def scene() -> None:
        app, seen = App("x:1"), []

        @app.table_batch("orders")
        async def load(batch: pa.RecordBatch) -> None:
            seen.append([(row["partition"], row["offset"]) for row in batch.to_pylist()])

        clients = LosingClients(*(raw(offset, partition=partition) for offset in range(3) for partition in (0, 1)))
        async with Running(app, clients):
            assert seen == [[(1, 0), (1, 1), (1, 2)], [(0, 2), (0, 3), (0, 4)]]
            assert clients.committed == {P1: 3, P0: 5}

    simulated(scene())


def test_a_batch_of_nothing_but_rows_of_others_is_not_handled() -> None:
    async def scene() -> None:
        app, seen = App("x:1"), []

        @app.table_batch("orders")
        async def load(batch: pa.RecordBatch) -> None:
            seen.append(batch.num_rows)

        clients = MemoryClients(raw(0))
        async with Running(app, clients, 5):
            assert seen == [1]
            await clients.consumers[0].owner.on_lost([P0])
            clients.records.append(raw(1))
            await asyncio.sleep(5)
            assert clients.records == [], "it was taken"
        assert seen == [1]
        assert clients.committed == {P0: 1}

    simulated(scene())
