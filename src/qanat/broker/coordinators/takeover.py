"""Internal partitions that this broker begins or ceases to lead: coordinators take over what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.broker.replicas.partition import Partition
from qanat.cluster.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from qanat.broker.broker import Broker


def take_over(broker: Broker, partition: Partition) -> None:
    """Coordinate what the partition holds, without being asked: members must be missed, transactions must end."""
    if partition.at.topic == OFFSETS_TOPIC:
        broker.groups.topic.take_over(partition)
    elif partition.at.topic == TRANSACTIONS_TOPIC:
        broker.transactions.topic.take_over(partition)
    elif partition.at.topic == SHARE_STATE_TOPIC:
        broker.share_partitions.take_over(partition)


def let_go(broker: Broker, partition: Partition) -> None:
    """Coordinate it no more."""
    if partition.at.topic == OFFSETS_TOPIC and "groups" in broker.__dict__:
        broker.groups.topic.drop(partition)
    elif partition.at.topic == TRANSACTIONS_TOPIC and "transactions" in broker.__dict__:
        broker.transactions.topic.drop(partition)
    elif partition.at.topic == SHARE_STATE_TOPIC and "share_partitions" in broker.__dict__:
        broker.share_partitions.states.topic.drop(partition)
