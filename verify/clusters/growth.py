"""`python -m verify.clusters.growth`: the cost of the metadata plane as a simulated cluster grows.

The product's own brokers with its defaults, on a network and a store without faults. For each size: all brokers start,
topics are created, a minute passes without load, a broker is killed (its connections break) and restarted, and another
one loses power (its connections fall silent). Requests to the store and its notifications are counted for all brokers
together; times are the simulated clock's, except for CPU time.

    python -m verify.clusters.growth                     3, 10, 30 and 100 brokers, 100 partitions for each
    python -m verify.clusters.growth --sizes 30:3000     one size
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from qanat.adapters.memory_store import MemoryStore
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.cluster.store import (
    Changes,
    Committed,
    Compacted,
    Compare,
    Entry,
    Lease,
    Operation,
    Put,
    Refused,
    Revision,
    Snapshot,
)
from qanat.connection.cluster import Address, Cluster
from qanat.connection.deadline import Deadline
from qanat.testing.simulation.loop import SimLoop
from qanat.testing.simulation.network import SimNetwork
from qanat.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from qanat.wire.kafka.registry import ApiKey
from verify.clusters.machine import INTER_BROKER_PORT, PORT, Machine
from verify.clusters.store import SimStore
from verify.clusters.unhandled import UnhandledExceptions

SIZES = ((3, 300), (10, 1000), (30, 3000), (100, 10_000))
_REPLICAS = 3
_PARTITIONS_OF_A_TOPIC = 100
_IDLE_S = 60.0
_TIMEOUT_S = 120.0
_RECONCILE_S = 30.0
"""As in the product."""


class Bill(Struct):
    """Requests to the store and their bytes, of all brokers together."""

    commits: int = 0
    refused: int = 0
    lists: int = 0
    renewals: int = 0
    changes: int = 0
    """Notifications to watchers."""
    read_bytes: int = 0
    written_bytes: int = 0

    def since(self, before: Bill) -> Bill:
        return Bill(*(getattr(self, name) - getattr(before, name) for name in self.__struct_fields__))


class CountingStore(SimStore):
    """A connection to the store that counts requests and bytes."""

    def __init__(self, truth: MemoryStore, seed: str, bill: Bill) -> None:
        super().__init__(truth, seed)
        self._bill = bill

    async def list(self, prefix: str) -> Snapshot:
        found = await super().list(prefix)
        self._bill.lists += 1
        self._bill.read_bytes += sum(_size(entry) for entry in found.entries)
        return found

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        outcome = await super().commit(compares, operations)
        self._bill.commits += 1
        self._bill.written_bytes += sum(len(one.key) + len(one.value) for one in operations if isinstance(one, Put))
        if isinstance(outcome, Refused):
            self._bill.refused += 1
            self._bill.read_bytes += sum(_size(entry) for entry in outcome.entries if entry is not None)
        return outcome

    async def watch(self, prefix: str, after_revision: Revision) -> AsyncGenerator[Changes | Compacted, None]:
        async for change in super().watch(prefix, after_revision):
            if isinstance(change, Changes):
                self._bill.changes += 1
                self._bill.read_bytes += sum(len(event.key) + len(event.value) for event in change.events)
            yield change

    async def keep_alive(self, lease: Lease) -> None:
        self._bill.renewals += 1
        await super().keep_alive(lease)


def _size(entry: Entry) -> int:
    return len(entry.key) + len(entry.value)


class Phase(Struct, frozen=True):
    """The cost of one phase."""

    name: str
    seconds: float
    """Of the simulated clock, until the cluster has converged."""
    cpu_s: float
    """CPU time of this computer, for all brokers together."""
    bill: Bill


class Growth:
    """A cluster of one size."""

    def __init__(self, brokers: int, partitions: int) -> None:
        self.brokers = brokers
        self.partitions = partitions
        self.phases: list[Phase] = []
        self._bill = Bill()

    def run(self) -> list[Phase]:
        loop = self._loop = SimLoop(f"growth {self.brokers}")
        problems: list[str] = []
        unhandled = UnhandledExceptions(problems.extend)
        loop.set_exception_handler(unhandled.on_loop)
        asyncio.set_event_loop(loop)
        gc.disable()
        try:
            with unhandled:
                loop.run_until_complete(self._live())
        finally:
            asyncio.set_event_loop(None)
            for machine in self._machines:
                loop.kill(machine.owner)
            loop.abandon()
            gc.enable()
        assert not problems, problems[0]
        return self.phases

    async def _live(self) -> None:
        self._truth = MemoryStore()
        self._network = self._loop.network = SimNetwork(self._loop, "growth")
        self._machines = [self._machine(node_id) for node_id in range(self.brokers)]
        async with self._phase("start"):
            await asyncio.gather(*(machine.start() for machine in self._machines))
            await self._until(self._all_know_all)
        async with self._phase("topics created"):
            await self._create_topics()
            await self._until(lambda: self._led() == self.partitions)
        async with self._phase("a quiet minute"):
            await asyncio.sleep(_IDLE_S)
        first, second = self._machines[1], self._machines[2]
        async with self._phase("a broker is killed"):
            first.kill()
            await self._until(lambda: self._led() == self.partitions)
        async with self._phase("it comes back"):
            await first.start()
            await self._until(self._all_in_sync)
        async with self._phase("a broker loses power"):
            second.lose_power("drop_all")
            await self._until(lambda: self._led() == self.partitions)

    def _machine(self, node_id: int) -> Machine:
        settings = BrokerSettings(
            host_name=f"machine-{node_id}",
            port=PORT,
            inter_broker_port=INTER_BROKER_PORT,
            default_replication_factor=_REPLICAS,
            # Nothing is written: empty fetches of followers are not what is measured.
            replica_fetch_wait_max_ms=10_000,
            auto_leader_rebalance_enable=False,
        )
        store = CountingStore(self._truth, f"growth {node_id}", self._bill)
        return Machine(self._loop, self._network, store, node_id, "growth", settings, {}, _RECONCILE_S)

    @asynccontextmanager
    async def _phase(self, name: str) -> AsyncIterator[None]:
        before, begun, cpu_s = self._bill.since(Bill()), self._loop.time(), time.process_time()
        yield
        self.phases.append(
            Phase(name, self._loop.time() - begun, time.process_time() - cpu_s, self._bill.since(before))
        )

    async def _until(self, condition: Callable[[], bool]) -> None:
        deadline = self._loop.time() + _TIMEOUT_S
        while not condition():
            if self._loop.time() > deadline:
                raise TimeoutError(f"{self.brokers} brokers, {self.partitions} partitions: not within {_TIMEOUT_S} s")
            await asyncio.sleep(0.01)

    async def _create_topics(self) -> None:
        bootstrap: list[Address] = [(self._machines[0].host, PORT)]
        async with Cluster(bootstrap) as cluster:
            for number, first in enumerate(range(0, self.partitions, _PARTITIONS_OF_A_TOPIC)):
                count = min(_PARTITIONS_OF_A_TOPIC, self.partitions - first)
                topic = CreatableTopic(f"topic-{number}", count, _REPLICAS, [], [])
                request = CreateTopicsRequest([topic], 60_000)
                answer = await cluster.call_controller(ApiKey.CREATE_TOPICS, request, Deadline.after(60.0))
                if answer.topics[0].error_code:
                    raise RuntimeError(f"not created: {answer.topics[0]}")

    # The cluster's state

    def _all_know_all(self) -> bool:
        return all(
            machine.node is not None and len(machine.node.broker.metadata.image.brokers) == self.brokers
            for machine in self._machines
        )

    def _led(self) -> int:
        """Partitions with a leader that knows that it leads."""
        return sum(len(machine.node.broker.partitions) for machine in self._machines if machine.node is not None)

    def _all_in_sync(self) -> bool:
        node = self._machines[0].node
        assert node is not None, "it is never killed"
        states = node.broker.metadata.image.partition_states.values()
        return all(set(state.in_sync_nodes) == set(state.replicas) for state in states)


def table(brokers: int, partitions: int, phases: Sequence[Phase]) -> str:
    """Rows of a Markdown table."""
    rows = []
    for phase in phases:
        bill = phase.bill
        rows.append(
            f"| {brokers} | {partitions:,} | {phase.name} | {phase.seconds:.2f} | {phase.cpu_s:.1f} | {bill.commits} "
            f"({bill.refused}) | {bill.lists} | {bill.renewals} | {bill.changes:,} | {bill.read_bytes / 1024:,.0f} | "
            f"{bill.written_bytes / 1024:,.0f} |"
        )
    return "\n".join(rows)


HEAD = (
    "| brokers | partitions | what | virtual s | CPU s | commits (refused) | lists | renewals | notifications | "
    "KiB read | KiB written |\n| --: | --: | --- | --: | --: | --: | --: | --: | --: | --: | --: |"
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m verify.clusters.growth", description="Measure the metadata plane of growing clusters."
    )
    parser.add_argument("--sizes", type=_size_of, nargs="+", default=SIZES, help="brokers:partitions, as 30:3000")
    options = parser.parse_args(arguments)
    sys.stdout.write(f"{HEAD}\n")
    for brokers, partitions in options.sizes:
        sys.stdout.write(f"{table(brokers, partitions, Growth(brokers, partitions).run())}\n")
        sys.stdout.flush()
    return 0


def _size_of(text: str) -> tuple[int, int]:
    brokers, _, partitions = text.partition(":")
    return int(brokers), int(partitions)


if __name__ == "__main__":
    sys.exit(main())
