"""The choice of the replica that a consumer fetches from (KIP-392).

A consumer names its rack. Where `replica.selector.class` says so and the leader is in another rack, the leader answers
without records and names the preferred read replica: the in-sync follower in the consumer's rack that has most. From
then on the consumer fetches from that one (`follower_fetching`).
"""

from __future__ import annotations

from qanat.broker.replicas.partition import Partition
from qanat.broker.settings.broker_settings import LEADER_SELECTORS
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.cluster.image import MetadataImage

NO_REPLICA = -1


class ReplicaSelector:
    """Selects the preferred read replica of a consumer, by rack."""

    def __init__(self, settings: CurrentSettings, image: MetadataImage) -> None:
        self._settings = settings
        self._image = image

    @property
    def is_on(self) -> bool:
        """Whether consumers are sent to followers at all."""
        return self._settings.broker.replica_selector_class not in LEADER_SELECTORS

    def preferred(self, partition: Partition, rack: str, offset: int) -> int:
        """The follower that a consumer in this rack should fetch from instead of us, or -1."""
        leader = partition.leader
        if leader is None or not rack or rack == self._settings.broker.broker_rack:
            return NO_REPLICA
        brokers = self._image.brokers
        best, most = NO_REPLICA, -1
        for node_id in leader.in_sync:
            other = brokers.get(node_id)
            if other is None or other.rack != rack or other.is_stopping:
                continue
            start_offset, end_offset = leader.held_by(node_id)
            if start_offset <= offset <= end_offset and end_offset > most:
                best, most = node_id, end_offset
        return best
