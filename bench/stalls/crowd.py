"""A crowded broker: very many partitions, topics, groups, members and committed offsets.

Groups and offsets are put into the log as if they had been committed earlier: a hundred thousand requests would
take longer and lead to the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qanat.broker.broker import Broker
from qanat.broker.replicas.partition import Partition
from qanat.cluster.rejection import Rejection
from qanat.cluster.topics import CreateTopic
from qanat.groups.record_codec import encode_record
from qanat.groups.records import GroupMetadataRecord, GroupRecord, MemberMetadata, OffsetCommitRecord
from qanat.model.error_codes import ErrorCode
from qanat.model.topic_names import OFFSETS_TOPIC
from qanat.transactions.replies import ProducerReply
from qanat.transactions.requests import InitProducer
from qanat.wire.compression import Codec
from qanat.wire.records import Record, encode_batch

PARTITIONS_PER_TOPIC = 100
WELL_READ = "well-read"
"""The group with all the offsets."""
CROWDED = "crowded"
"""The group with all the members."""
_RECORDS_PER_BATCH = 500
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Crowd:
    """The size of each kind."""

    wide_topics: int = 50
    """Of a hundred partitions each."""
    narrow_topics: int = 500
    """Of one partition each."""
    groups: int = 20_000
    offsets: int = 100_000
    members: int = 2_000
    large_bytes: int = 98 * 1024 * 1024
    """One batch, where its topic allows that."""
    parts: int = 50
    part_bytes: int = 1_000_000
    """Of a request that writes to several partitions."""
    inflated_bytes: int = 60 * 1024 * 1024
    """The decompressed size of a small batch."""

    @property
    def partitions(self) -> int:
        return self.wide_topics * PARTITIONS_PER_TOPIC

    def spread(self, rows: int) -> Iterator[tuple[str, range]]:
        """So many partitions of the wide topics, by topic."""
        for first in range(0, min(rows, self.partitions), PARTITIONS_PER_TOPIC):
            yield wide(first // PARTITIONS_PER_TOPIC), range(min(rows - first, PARTITIONS_PER_TOPIC))

    def topic_names(self) -> list[str]:
        return [wide(number) for number in range(self.wide_topics)] + [narrow(n) for n in range(self.narrow_topics)]


LARGE, STAMPED, COMPACTED = "large", "stamped", "compacted"
REPACKED = {
    "uncompressed": Codec.ZSTD,
    "gzip": Codec.ZSTD,
    "snappy": Codec.LZ4,
    "lz4": Codec.GZIP,
    "zstd": Codec.SNAPPY,
}
"""The codecs of topics, and of the batches that are sent to them."""
SPENDER = "spender"
"""A transactional id, whose producer id is the first of this broker."""
SPENDER_ID = 0


def repacked(compression: str) -> str:
    return f"repacked-{compression}"


def wide(number: int) -> str:
    return f"wide-{number:04}"


def narrow(number: int) -> str:
    return f"narrow-{number:04}"


def group(number: int) -> str:
    return f"group-{number:05}"


def member(number: int) -> str:
    return f"member-{number:05}"


async def settle(broker: Broker, crowd: Crowd) -> None:
    """Create everything, before the first client connects."""
    for name in crowd.topic_names():
        partitions = PARTITIONS_PER_TOPIC if name.startswith("wide") else 1
        made = await broker.metadata_changes.create_topic(
            CreateTopic(name, broker.metadata_changes.new_topic_id(), partitions=partitions)
        )
        assert not isinstance(made, Rejection), made
    await _settle_special(broker)
    await broker.groups.ensure_topic()
    now_ms = broker.runtime.clock_ms()
    for number in range(crowd.groups):
        await _remember(broker, group(number), [OffsetCommitRecord(group(number), wide(0), 0, 1, -1, "", now_ms)])
    offsets: list[GroupRecord] = [
        OffsetCommitRecord(WELL_READ, f"read-{number // 1000:04}", number % 1000, number, -1, "", now_ms)
        for number in range(crowd.offsets)
    ]
    for first in range(0, len(offsets), _RECORDS_PER_BATCH):
        await _remember(broker, WELL_READ, offsets[first : first + _RECORDS_PER_BATCH])
    members = tuple(
        MemberMetadata(member(number), None, "bench", "/127.0.0.1", _HOUR_MS, _HOUR_MS, bytes(40), bytes(40))
        for number in range(crowd.members)
    )
    crowded = GroupMetadataRecord(CROWDED, "consumer", 1, "range", member(0), now_ms, members)
    await _remember(broker, CROWDED, [crowded])
    for number in range(len(broker.metadata.image.topics[OFFSETS_TOPIC].partitions)):
        while isinstance(await broker.groups.shard(number), ErrorCode):
            pass  # Each request waits for a while, then answers that the coordinator is loading.


async def _settle_special(broker: Broker) -> None:
    """Topics with large batches of several kinds, and a producer with transactions."""
    special = {
        LARGE: {},
        STAMPED: {"message.timestamp.type": "LogAppendTime"},
        COMPACTED: {"cleanup.policy": "compact"},
    }
    special |= {repacked(compression): {"compression.type": compression} for compression in REPACKED}
    for name, settings in special.items():
        configs = {"max.message.bytes": str(100 << 20), "retention.bytes": "1", **settings}
        made = await broker.metadata_changes.create_topic(
            CreateTopic(name, broker.metadata_changes.new_topic_id(), partitions=1, configs=configs)
        )
        assert not isinstance(made, Rejection), made
    while True:
        reply = await broker.transactions.ask(SPENDER, InitProducer(SPENDER, _HOUR_MS // 4))
        assert isinstance(reply, ProducerReply), reply
        if reply.error is ErrorCode.NONE:
            break
    assert (reply.producer_id, reply.producer_epoch) == (SPENDER_ID, 0), reply


async def _remember(broker: Broker, group_id: str, records: Sequence[GroupRecord]) -> None:
    partition = broker.lookup.led(OFFSETS_TOPIC, broker.groups.partition_of(group_id))
    assert isinstance(partition, Partition)
    now_ms = broker.runtime.clock_ms()
    encoded = [Record(number, now_ms, *encode_record(record)) for number, record in enumerate(records)]
    partition.append_own(encode_batch(encoded))
