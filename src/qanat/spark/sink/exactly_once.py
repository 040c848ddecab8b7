"""A micro-batch becomes visible once and as a whole, however often it is tried.

One transaction carries the rows and, as an offset of a consumer group that nobody joins, the number of the batch. Who
comes later takes the transactional id over, which ends whatever was left open, and reads that number: a batch that is
already there is not written again.

The number must outlive any pause of the query, and nobody reads the group meanwhile: it is committed as one that does
not expire (`KEPT_OFFSET`).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import chain

from qanat.connection.committed import committed_offsets
from qanat.model.errors import QanatError
from qanat.model.ids import KEPT_OFFSET, TopicPartition
from qanat.spark.options.options import Access
from qanat.spark.sink.batch_sender import Sender
from qanat.spark.sink.outgoing_columns import EncodedBatch

TRANSACTION_TIMEOUT_MS = 15 * 60 * 1000
"""Brokers allow this much unless told otherwise (transaction.max.timeout.ms)."""


def commit_once(
    access: Access, transactional_id: str, group: str, batch_id: int, batches: Iterable[EncodedBatch]
) -> bool:
    """Write a micro-batch unless it is there; whether it was written now. `group` keeps the numbers of one query."""
    coming = iter(batches)
    first = next(coming, None)
    if first is None:
        return False
    mark = TopicPartition(first.at.topic, 0)
    # The tasks have reached the cluster.
    with Sender(access, access.timeout_s) as sender:
        cluster = sender.cluster
        producer = sender.be_transactional(transactional_id, TRANSACTION_TIMEOUT_MS)
        known = sender.run(committed_offsets(cluster, group, cluster.deadline(), is_stable=True))
        if max(known.values(), default=-1) >= batch_id:
            return False
        try:
            sender.send_all(chain([first], coming))
            sender.run(producer.commit_offsets(group, {mark: batch_id}, cluster.deadline(), metadata=KEPT_OFFSET))
        except BaseException:
            # What cannot be aborted now is aborted by whoever takes the id over; the first fault is the one to tell.
            with suppress(QanatError):
                sender.run(producer.end(cluster.deadline(), is_committed=False))
            raise
        sender.run(producer.end(cluster.deadline(), is_committed=True))
        return True
