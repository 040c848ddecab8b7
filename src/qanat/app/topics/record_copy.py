"""Records of one topic copied into another with as many partitions: keys, values, headers, timestamps and order.

Offsets differ: they begin with 0, and compacted or uncommitted records leave no gaps.
"""

from __future__ import annotations

from collections.abc import Callable

from qanat.app.records.consume_plan import ReadingPlan
from qanat.app.records.record_producer import Partitioner, StoppedError
from qanat.app.records.topic_positions import Position
from qanat.connection.batch_producer import BatchProducer
from qanat.connection.cluster import Cluster
from qanat.connection.fetching import FetchLimits, fetch_batches, whole_batches
from qanat.connection.offsets import by_leader
from qanat.connection.records.topic_reading import Reading, read
from qanat.model.errors import QanatError
from qanat.wire.batch_header import read_header
from qanat.wire.compression import Codec
from qanat.wire.records import encode_batch

_LIMITS = FetchLimits(is_committed_only=True)
_ONE_BATCH = FetchLimits(max_wait_ms=0, max_bytes=1, partition_bytes=1)
"""A broker sends at least one whole batch, whatever the limit."""


async def reading_of(cluster: Cluster, topic: str) -> Reading:
    """A reading of everything that the topic holds now."""
    return await ReadingPlan(topic, Position("start"), Position("end"), limits=_LIMITS).reading(cluster)


def offsets_ahead(reading: Reading) -> int:
    """How many records are left, at most."""
    return sum(reading.ends[at] - offset for at, offset in reading.open_positions().items())


async def copy_records(cluster: Cluster, reading: Reading, to: str, report_progress: Callable[[int], None]) -> int:
    """Copy all records; returns how many. Reports the offsets done; raises `StoppedError` where it ends early."""
    ahead, copied = offsets_ahead(reading), 0
    try:
        codec = await _codec(cluster, reading)
        producer = await BatchProducer.idempotent(cluster, cluster.deadline())
        partitioner = Partitioner(len(reading.positions), is_kept=True)
        async for records in read(cluster, reading):
            for batches in partitioner.batches([(record, partition) for partition, record in records]):
                encoded = {at: encode_batch(rows, codec=codec) for at, rows in batches.items() if rows}
                if encoded:
                    await producer.send(to, encoded, cluster.deadline())
                copied += sum(map(len, batches.values()))
            report_progress(ahead - offsets_ahead(reading))
    except QanatError as fault:
        raise StoppedError(
            f"{fault}; {copied:,} records of {reading.topic} are in {to}: delete {to} and clone again"
        ) from None
    return copied


async def _codec(cluster: Cluster, reading: Reading) -> Codec:
    """The codec of the first batch."""
    deadline = cluster.deadline()
    view = await cluster.topic(reading.topic, deadline)
    for leader, partitions in by_leader(view, reading.open_positions()).items():
        link = await cluster.node_link(leader, deadline)
        wanted = {partition: reading.positions[partition] for partition in partitions}
        for data in await fetch_batches(link, reading.topic, wanted, _ONE_BATCH, deadline):
            for batch in whole_batches(data.records):
                return Codec(read_header(batch).codec)
    return Codec.NONE
