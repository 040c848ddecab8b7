"""Clients of a simulated cluster: they produce, transact and consume, and record every outcome in the history.

They use the product's own client (`qanat.connection`) with real frames. Every value is unique. A producer whose last
request has an unknown outcome is discarded, as a restarted program would be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from random import Random

from qanat.connection.batch_producer import BatchProducer
from qanat.connection.cluster import Address, Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError
from qanat.connection.fetching import FetchLimits, fetch
from qanat.model.errors import QanatError
from qanat.wire.records import Record, encode_batch
from verify.clusters.history import History, Outcome, Poll, Send
from verify.clusters.machine import wall_ms

_OPERATION_S = 8.0
_TRANSACTION_MS = 3000
_HESITATES = 0.02
"""Share of writes after which a producer sleeps for longer than its transaction's timeout."""


class Clients:
    """All producers and consumers of one run."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        topic: str,
        partitions: int,
        seed: int | str,
        *,
        reads_from_followers: bool = False,
    ) -> None:
        self._bootstrap = list(bootstrap)
        self._topic = topic
        self._partitions = partitions
        self._random = Random(f"clients {seed}")
        self._replica_choice = Random(f"nearby {seed}") if reads_from_followers else None
        """Draws the broker to fetch from, where it need not be the leader. The text decides what a seed draws."""
        self._numbers = count()
        self._transactions = count()
        self.history = History()
        self.is_over = False

    def _cluster(self, name: str) -> Cluster:
        addresses = list(self._bootstrap)
        self._random.shuffle(addresses)
        return Cluster(addresses, name, _OPERATION_S)

    # Producing

    async def produce(self, name: str) -> None:
        """Produce batches idempotently, one after another."""
        partition = self._random.randrange(self._partitions)
        while not self.is_over:
            async with self._cluster(name) as cluster:
                await self._produce_until_trouble(name, cluster, partition)
            await asyncio.sleep(self._random.uniform(0.01, 0.2))

    async def _produce_until_trouble(self, name: str, cluster: Cluster, partition: int) -> None:
        try:
            producer = await BatchProducer.idempotent(cluster, Deadline.after(_OPERATION_S))
        except QanatError:
            return
        while not self.is_over:
            sends = self._new_sends(name, partition)
            try:
                offsets = await producer.send(self._topic, {partition: _batch(sends)}, Deadline.after(_OPERATION_S))
            except QanatError as fault:
                if isinstance(fault, RefusedError) and not fault.is_retriable:
                    _settle(sends, Outcome.UNKNOWN)
                return
            _settle(sends, Outcome.DONE, offsets[partition])
            await asyncio.sleep(self._random.expovariate(1 / 0.1))

    def _new_sends(self, name: str, partition: int, transaction: int = -1) -> list[Send]:
        sends = []
        for _ in range(self._random.randint(1, 4)):
            number = next(self._numbers)
            sends.append(Send(name, partition, f"{name}/{number}".encode(), number, transaction=transaction))
        self.history.sends += sends
        return sends

    async def transact(self, name: str) -> None:
        """Produce to several partitions in transactions. Clients whose names differ only after a dash share a
        transactional id, and fence each other."""
        transactional_id = name.partition("-")[0]
        while not self.is_over:
            async with self._cluster(name) as cluster:
                try:
                    deadline = Deadline.after(_OPERATION_S)
                    producer = await BatchProducer.transactional(cluster, transactional_id, _TRANSACTION_MS, deadline)
                    while not self.is_over:
                        await self._transaction(name, producer)
                        await asyncio.sleep(self._random.expovariate(1 / 0.1))
                except QanatError:
                    pass  # The next producer takes the transactional id over.
            await asyncio.sleep(self._random.uniform(0.01, 0.2))

    async def _transaction(self, name: str, producer: BatchProducer) -> None:
        number = next(self._transactions)
        partitions = self._random.sample(range(self._partitions), min(2, self._partitions))
        sends = {partition: self._new_sends(name, partition, number) for partition in partitions}
        is_committed = self._random.random() < 0.8
        every = [send for some in sends.values() for send in some]
        for partition, some in sends.items():
            deadline = Deadline.after(_OPERATION_S)
            offsets = await producer.send(self._topic, {partition: _batch(some)}, deadline)
            for place, send in enumerate(some):
                send.offset = offsets[partition] + place
            if self._random.random() < _HESITATES:
                await asyncio.sleep(self._random.uniform(1.0, 1.5) * _TRANSACTION_MS / 1000)
        await producer.end(Deadline.after(_OPERATION_S), is_committed=is_committed)
        _settle(every, Outcome.DONE if is_committed else Outcome.FAILED)

    # Consuming

    async def consume(self, name: str) -> None:
        """Consume every partition from its start, until the run is over."""
        positions = dict.fromkeys(range(self._partitions), 0)
        while not self.is_over:
            async with self._cluster(name) as cluster:
                try:
                    while not self.is_over:
                        await self._poll(name, cluster, positions, 2.0)
                except QanatError:
                    pass
            await asyncio.sleep(self._random.uniform(0.01, 0.2))

    async def _poll(
        self, name: str, cluster: Cluster, positions: dict[int, int], timeout_s: float, *, is_final: bool = False
    ) -> int:
        """Fetch once from every leader, or from other replicas; returns the number of records."""
        deadline = Deadline.after(timeout_s)
        asked = dict((await cluster.topic(self._topic, deadline)).leaders)
        if self._replica_choice is not None and not is_final:
            asked = {number: self._replica_choice.randrange(len(self._bootstrap)) for number in asked}
        found = 0
        for node_id in dict.fromkeys(asked.values()):
            link = await cluster.node_link(node_id, deadline)
            wanted = {number: positions[number] for number, one in asked.items() if one == node_id}
            limits = FetchLimits(max_wait_ms=100, is_committed_only=True)
            for row in await fetch(link, self._topic, wanted, limits, deadline):
                if row.error_code:
                    continue
                seen = [(record.offset, bytes(record.value or b"")) for record in row.records]
                position = positions[row.partition]
                self.history.polls.append(Poll(name, row.partition, position, seen, is_final))
                positions[row.partition] = max(row.next_offset, position)
                found += len(seen)
        return found

    async def read_everything(self, ends: dict[int, int]) -> None:
        """The final read, from the start to these end offsets; raises `TimeoutError` where it takes too long."""
        positions = dict.fromkeys(range(self._partitions), 0)
        async with asyncio.timeout(60), self._cluster("final") as cluster:
            while any(positions[number] < end for number, end in ends.items()):
                try:
                    await self._poll("final", cluster, positions, _OPERATION_S, is_final=True)
                except QanatError:
                    await asyncio.sleep(0.1)
        for number in range(self._partitions):
            self.history.polls.append(Poll("final", number, positions[number], [], is_final=True))


def _batch(sends: Sequence[Send]) -> bytearray:
    return encode_batch([Record(place, wall_ms(), b"", send.value) for place, send in enumerate(sends)])


def _settle(sends: Sequence[Send], outcome: Outcome, base_offset: int | None = None) -> None:
    for place, send in enumerate(sends):
        send.outcome = outcome
        if base_offset is not None:
            send.offset = base_offset + place
