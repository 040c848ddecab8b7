"""Appends of clients' batches to partitions that this broker leads: what Kafka's Produce and HTTP share.

Both ask here whether a caller may write to a topic, which partition takes its batch and whether enough replicas are in
sync; both append by `Partition.append_now` or `append`, which admit the batch (`log.admission`). HTTP does not make a
Produce request of what it appends itself: see docs/decisions/0013-http-appends.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.security.authorization import Operation
from qanat.wire.kafka.layouts import ZERO_UUID

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck
    from qanat.broker.broker import Broker
    from qanat.broker.replicas.partition import Partition
    from qanat.broker.replicas.partition_end import Written
    from qanat.wire.batch_header import Buffer

ALL, LEADER, NONE = -1, 1, 0
"""The acks of a producer."""


def may_append(access: AccessCheck, name: str | None, topic_id: bytes = ZERO_UUID) -> bool:
    """Whether a caller may write to a topic, named by name or id."""
    return access.may_topic_or_id(Operation.WRITE, name, topic_id)


def lacks_replicas(partition: Partition, acks: int) -> bool:
    """Whether too few replicas are in sync for these acks."""
    return acks == ALL and partition.lacks_replicas


def find_writable(broker: Broker, topic: str, number: int, acks: int) -> Partition | None:
    """The partition that takes a client's batch at once; None where a Produce request must find the error.

    This broker leads it, clients may write to it, and enough replicas are in sync.
    """
    found = broker.local_replicas.writable.get((topic, number))
    return None if found is None or lacks_replicas(found, acks) else found


async def append(partition: Partition, batch: Buffer) -> Written:
    """Append a batch now, or once the disk or a worker is ready for it."""
    return partition.append_now(batch) or await partition.append(batch)
