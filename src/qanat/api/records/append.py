"""Appends of clients' batches to partitions that this broker leads: what Kafka's Produce and HTTP share.

The same checks hold for both: whether the caller may write to the topic, which partition takes the batch, whether
enough replicas are in sync. Both append by `Partition.append_now` or `append`, which admit the batch (`log.admission`).
HTTP makes no Produce request of records that it appends itself: docs/decisions/0013-http-appends.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.security.authorization import Operation
from qanat.wire.kafka.layouts import ZERO_UUID

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck
    from qanat.broker.broker import Broker
    from qanat.broker.replicas.partition import Partition, Written
    from qanat.wire.batch_header import Buffer

_WRITE = Operation.WRITE
ALL, LEADER, NONE = -1, 1, 0
"""The acks of a producer."""


def may_append(access: AccessCheck, name: str | None, topic_id: bytes = ZERO_UUID) -> bool:
    """Whether a caller may write to a topic, named by name or id."""
    return access.may_topic_or_id(_WRITE, name, topic_id)


def find_writable(broker: Broker, topic: str, number: int, acks: int) -> Partition | None:
    """The partition that takes a client's batch at once; None where a Produce request must find the error.

    This broker leads it, clients may write to it, and enough replicas are in sync.
    """
    found = broker.local_replicas.writable.get((topic, number))
    return None if found is None or (acks == ALL and found.lacks_replicas) else found


async def append(partition: Partition, batch: Buffer) -> Written:
    """Append a batch now, or once the disk or a worker is ready for it."""
    return partition.append_now(batch) or await partition.append(batch)
