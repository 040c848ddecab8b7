"""Exactly once: what handlers return is written in the transaction that commits their records.

Results wait in memory until every earlier record of the partition is finished; then one transaction contains them and
the offset. So a retry holds up only what must come after it, and no transaction is open while a handler runs.

Rule 1: after a transaction that failed, or was cancelled by a stop, the producer is made anew under the same id: that
        ends the open transaction, one way or the other. Then the group's offsets say whether it was committed: its
        results are written again only where it was not.
Rule 2: offsets go with a claim (KIP-447) of the moment at which the results were taken: a member that lost its
        partitions meanwhile cannot commit, even if it has them again; one that kept them through a rebalance can.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from qanat.client.app.ports import Sender
from qanat.client.app.stream_worker import write
from qanat.client.app.worker_tools import Tools
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition

if TYPE_CHECKING:
    from qanat.client.app.stream_worker import StreamWorker


class Transactions:
    """The commits of one handler with `exactly_once`."""

    def __init__(self, worker: StreamWorker, tools: Tools) -> None:
        self._worker = worker
        self._clients = tools.clients
        # Members fence each other by their group (KIP-447), so the id need only be unique.
        self._id = f"{worker.handler.group}-{worker.handler.name}-{tools.random.getrandbits(64):016x}"
        self._producer: Sender | None = None
        self._unsure: dict[TopicPartition, int] = {}
        """Offsets of a transaction whose outcome is unknown."""

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        """Write the results below these offsets, and the offsets, or nothing."""
        worker, producer = self._worker, self._have_producer()
        assert worker.consumer is not None
        claim = worker.consumer.claim(offsets)
        results: list[Any] = worker.lanes.results(offsets.items())
        sends = [one for result in results for one in result]
        self._unsure = offsets  # Until its end is answered: a fault or a stop may come at any moment before.
        async with producer.transaction() as transaction:
            for one in sends:
                await write(producer, one)
            await transaction.commit_offsets(claim, offsets)
        self._unsure = {}
        worker.counters.sent += len(sends)

    async def resolve(self) -> None:
        """Learn whether the last transaction was committed, where that is unknown; what was is not written again."""
        if not self._unsure:
            return
        consumer: Any = self._worker.consumer
        await self._renew()
        async with self._have_producer().transaction():
            """Nothing: beginning one ends what an earlier producer of this id left open."""
        found = await consumer.committed(*self._unsure)
        self._worker.lanes.committed(
            [(at, offset) for at, offset in self._unsure.items() if (found.get(at) or -1) >= offset]
        )
        self._unsure = {}

    def _have_producer(self) -> Sender:
        if self._producer is None:
            self._producer = self._clients.producer(self._id)
        return self._producer

    async def _renew(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(QanatError):  # What was not acknowledged is written again.
                await producer.close()

    async def close(self) -> None:
        await self._renew()
