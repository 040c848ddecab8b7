"""Exactly once: a micro-batch becomes visible once and as a whole, even if it is retried.

One transaction carries the rows and the number of the batch, as an offset of a consumer group without members. A later
writer initializes the same transactional id, which ends any open transaction, and reads that number: it does not write
a batch again that is written already.

The number must survive any pause of the query, while the group has no members: it is committed as an offset that does
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
"""The default maximum of brokers (transaction.max.timeout.ms)."""


def commit_once(
    access: Access, transactional_id: str, group: str, batch_id: int, batches: Iterable[EncodedBatch]
) -> bool:
    """Write a micro-batch unless it is written already; returns whether it was written now.

    `group` stores the batch numbers of one query.
    """
    coming = iter(batches)
    first = next(coming, None)
    if first is None:
        return False
    mark = TopicPartition(first.at.topic, 0)
    # The tasks have reached the cluster, so it exists.
    with Sender(access, access.timeout_s) as sender:
        cluster = sender.cluster
        producer = sender.init_transactional(transactional_id, TRANSACTION_TIMEOUT_MS)
        known = sender.run(committed_offsets(cluster, group, cluster.deadline(), is_stable=True))
        if max(known.values(), default=-1) >= batch_id:
            return False
        try:
            sender.send_all(chain([first], coming))
            sender.run(producer.commit_offsets(group, {mark: batch_id}, cluster.deadline(), metadata=KEPT_OFFSET))
        except BaseException:
            # If the abort fails, the next writer of the id aborts; the first error is the one to raise.
            with suppress(QanatError):
                sender.run(producer.end(cluster.deadline(), is_committed=False))
            raise
        sender.run(producer.end(cluster.deadline(), is_committed=True))
        return True
