"""Takeover of internal partitions: coordinators load those that this broker begins to lead, and drop the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from qanat.broker.replicas.partition import Partition
from qanat.model.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from qanat.broker.coordinators.group_coordinator import GroupCoordinator
    from qanat.broker.coordinators.transaction_coordinator import TransactionCoordinator
    from qanat.broker.share.share_partitions import SharePartitions


class Coordinators(Protocol):
    """Coordinators of one broker, each made on first use."""

    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def transactions(self) -> TransactionCoordinator: ...

    @property
    def share_partitions(self) -> SharePartitions: ...

    def is_made(self, name: str) -> bool:
        """Whether the coordinator of this name has been made."""


class CoordinatorTakeover:
    """Lets coordinators load and drop internal partitions."""

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators

    def load(self, partition: Partition) -> None:
        """Load what the partition holds before a client asks for it: sessions must expire, transactions must end."""
        if partition.at.topic == OFFSETS_TOPIC:
            self._coordinators.groups.topic.take_over(partition)
        elif partition.at.topic == TRANSACTIONS_TOPIC:
            self._coordinators.transactions.topic.take_over(partition)
        elif partition.at.topic == SHARE_STATE_TOPIC:
            self._coordinators.share_partitions.take_over(partition)

    def drop(self, partition: Partition) -> None:
        """Drop what the partition holds."""
        coordinators = self._coordinators
        if partition.at.topic == OFFSETS_TOPIC and coordinators.is_made("groups"):
            coordinators.groups.topic.drop(partition)
        elif partition.at.topic == TRANSACTIONS_TOPIC and coordinators.is_made("transactions"):
            coordinators.transactions.topic.drop(partition)
        elif partition.at.topic == SHARE_STATE_TOPIC and coordinators.is_made("share_partitions"):
            coordinators.share_partitions.states.topic.drop(partition)
