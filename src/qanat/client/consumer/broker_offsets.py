"""The offset store at the broker: the group's committed offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qanat.client.errors import FencedError
from qanat.connection.cluster import Cluster
from qanat.connection.committed import committed_positions
from qanat.connection.consuming.group_commits import CommittedOffset
from qanat.connection.consuming.group_place import GroupPlace
from qanat.model.ids import TopicPartition


class BrokerOffsets:
    """Offsets of a group, committed as its member."""

    def __init__(self, cluster: Cluster, place: GroupPlace) -> None:
        self._cluster = cluster
        self._place = place

    async def load(self, group: str, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, CommittedOffset]:
        return await committed_positions(
            self._cluster, group, self._cluster.deadline(), only=partitions, is_stable=True
        )

    async def save(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        if not await self._place.commit(offsets):
            raise FencedError(
                f"group {group} has moved on: the offsets of {', '.join(map(str, sorted(offsets)))} may belong to "
                "another member now, and their records come again"
            )
