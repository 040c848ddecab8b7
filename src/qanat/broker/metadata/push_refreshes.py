"""The ledger of refreshes in the metadata store: each step is a commit, decided by `edge.refresh_ledger`.

Whatever broker serves a subscriber carries its refresh on: there is no coordinator whose failure would have to be
waited for. A refresh takes four commits per subscriber.
"""

from __future__ import annotations

import time

from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.broker.runtime.detached_work import to_the_end
from qanat.broker.runtime.parked_tasks import ParkedTasks
from qanat.cluster import keys, values
from qanat.cluster.store import Put
from qanat.edge.refresh_ledger import Step, begin, decide
from qanat.model.push_refreshes import PushRefresh

PARTITIONS_MAX = 4_000
"""Partitions of one refresh: its entry must fit into a commit."""
_DECISIONS_MAX = 10


def wall_ms() -> int:
    """The clock of the ledger, which several brokers read."""
    return time.time_ns() // 1_000_000


class PushRefreshes:
    """Reads the entries from the image, and changes them."""

    def __init__(self, metadata: ImageWatcher, tasks: ParkedTasks) -> None:
        self._metadata = metadata
        self._tasks = tasks

    def find(self, topic: str, group: str) -> PushRefresh | None:
        """The newest refresh of a topic for a group, as this broker knows it."""
        return self._metadata.image.push_refresh(topic, group)

    def all(self) -> list[PushRefresh]:
        """The newest refreshes of all topics and groups."""
        image = self._metadata.image
        return sorted(image.push_refreshes.values(), key=lambda one: (one.group, one.topic))

    async def begin(self, wanted: PushRefresh) -> bool:
        """Begin a refresh; False while the one before it is not over."""
        for _ in range(_DECISIONS_MAX):
            made = begin(self.find(wanted.topic, wanted.group), wanted)
            if made is None:
                return False
            if await self._commit(made):
                return True
        return False

    async def write(self, topic: str, group: str, step: Step) -> PushRefresh | None:
        """Write a step, and return the entry; None where it is refused."""
        while True:
            before = self.find(topic, group)
            made = decide(before, step, wall_ms())
            if made is None or made == before or await self._commit(made):
                return made

    async def _commit(self, entry: PushRefresh) -> bool:
        """Commit an entry in place of the one in the image; False where another broker was faster."""
        topic = self._metadata.image.topics.get(entry.topic)
        if topic is None:
            return False
        key = keys.push_refresh(topic.identity, entry.group)
        compare = self._metadata.image.unchanged(key)
        work = self._metadata.commit([compare], [Put(key, values.encode(entry))])
        return await to_the_end(self._tasks.park(work))
