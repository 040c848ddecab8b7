"""What a node remembers in its own metadata store: the last topology, and the gaps of its mirrored partitions.

/qanat/edge/topology                      `Topology`
/qanat/edge/gaps/<topic id>/<partition>   the recorded gaps of one partition
/qanat/edge/begun/<topic id>              the partitions that begin at offset 0 here
/qanat/edge/up/<topic id>/<partition>     `UpBinding`: where the records of one partition of an outbox go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from qanat.cluster.store import OPERATIONS_MAX, Delete, MetadataStore, Put
from qanat.edge.mirror import Gap
from qanat.edge.topology import Topology
from qanat.telemetry.events import log_event

TOPOLOGY = "/qanat/edge/topology"
GAPS = "/qanat/edge/gaps/"
BEGUN = "/qanat/edge/begun/"
UP = "/qanat/edge/up/"
GAPS_MAX = 1000
"""The newest gaps of a partition are kept."""


class UpBinding(Struct, frozen=True):
    """The parent's topic that the records of a partition go to; made before the first of them leaves."""

    parent: str
    url: str
    topic_id: str
    base: int
    """Where the log began then: the mark, before there is one."""
    settled: int = -1
    """The mark that the topic had then, where the node has come back to it from another parent."""


class EdgeState:
    """Reads and writes it. Faults of the store pass through: nothing is skipped that is not recorded."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def topology(self) -> Topology | None:
        entry = await self._store.get(TOPOLOGY)
        if entry is None:
            return None
        try:
            return msgspec.json.decode(entry.value, type=Topology)
        except msgspec.MsgspecError as fault:
            log_event("the kept topology cannot be read", level="error", reason=str(fault))
            return None

    async def keep_topology(self, topology: Topology) -> None:
        await self._store.commit((), [Put(TOPOLOGY, msgspec.json.encode(topology))])

    async def gaps(self) -> dict[tuple[str, int], tuple[Gap, ...]]:
        """The gaps of all partitions, by topic id and number."""
        found: dict[tuple[str, int], tuple[Gap, ...]] = {}
        for entry in (await self._store.list(GAPS)).entries:
            topic_id, _, number = entry.key.removeprefix(GAPS).partition("/")
            rows = msgspec.json.decode(entry.value, type=list[tuple[int, int]])
            found[topic_id, int(number)] = tuple(Gap(first, end) for first, end in rows)
        return found

    async def keep_gaps(self, topic_id: str, number: int, gaps: tuple[Gap, ...]) -> None:
        key = f"{GAPS}{topic_id}/{number}"
        rows = [(gap.first, gap.end) for gap in gaps[-GAPS_MAX:]]
        await self._store.commit((), [Put(key, msgspec.json.encode(rows)) if rows else Delete(key)])

    async def begun(self) -> dict[str, set[int]]:
        """By topic id, the partitions that begin at offset 0."""
        entries = (await self._store.list(BEGUN)).entries
        return {one.key.removeprefix(BEGUN): msgspec.json.decode(one.value, type=set[int]) for one in entries}

    async def keep_begun(self, begun: Mapping[str, Iterable[int]]) -> None:
        puts = [Put(f"{BEGUN}{topic_id}", msgspec.json.encode(sorted(rows))) for topic_id, rows in begun.items()]
        for first in range(0, len(puts), OPERATIONS_MAX):
            await self._store.commit((), puts[first : first + OPERATIONS_MAX])

    async def binding(self, topic_id: str, number: int) -> UpBinding | None:
        entry = await self._store.get(f"{UP}{topic_id}/{number}")
        return None if entry is None else msgspec.json.decode(entry.value, type=UpBinding)

    async def keep_binding(self, topic_id: str, number: int, binding: UpBinding) -> None:
        await self._store.commit((), [Put(f"{UP}{topic_id}/{number}", msgspec.json.encode(binding))])
