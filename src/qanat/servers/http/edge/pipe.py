"""The parent's side of pipes: which topics a child may pull, and batches of them, as they lie in the logs.

A request becomes a Fetch of the Kafka protocol under the child's name, with the epoch of its last record, so that
authorization (READ on the topic), parking and the search for a diverging epoch are those of consumers. What a consumer
is told of an offset out of range is too little for a mirror: then the log's bounds and its first epoch are looked up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from qanat.cluster.topic_configs import MIRROR_KEYS, MIRROR_SOURCE, UP_TARGET
from qanat.edge.key_filter import KEYS_MAX, Keys, of_setting, why_no_key
from qanat.edge.mirror import Gap, epoch_to_compare
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.model.topic_names import is_for_brokers
from qanat.servers.http.edge.keyed_pulls import Piece, pull_keyed
from qanat.servers.http.edge.nodes import raise_if_stopping
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.inputs import Parameters, RequestBody
from qanat.servers.http.operations import Operation
from qanat.servers.http.problems import Problem, problem_of
from qanat.servers.http.records.partition_reads import EARLIEST, LATEST
from qanat.servers.http.reply import Reply
from qanat.wire.batch_header import HEADER_SIZE, read_header
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.pipe_answer import (
    PipedPartition,
    PipedTopic,
    PipedTopics,
    PipeHead,
    PipePosition,
    encode_answer,
)

_MEDIA_TYPE = b"application/vnd.qanat.batches"
_PARTITIONS_MAX = 10_000
_PARKED_MAX_MS = 25_000
_SEVERAL_LEADERS_MS = 500
"""How long each leader may park its part where several lead the partitions of a request."""
_BYTES_MAX = 8 * 1024 * 1024
_FETCH_VERSION = 12


class PipeQuery(Parameters, frozen=True):
    """Who asks."""

    node: str = ""
    """The child's name."""


class PipeToPull(RequestBody, frozen=True):
    """Where a child stands."""

    node: str
    partitions: list[PipePosition]
    timeout_ms: int = 0
    """How long to wait for records."""
    max_bytes: int = 1024 * 1024


async def piped_topics(exchange: Exchange) -> PipedTopics:
    broker, gateway = exchange.context.broker, exchange.context.gateway
    image = broker.metadata.image
    topics = [
        # A mirror has the records of its origin: a child may pull them from here today, and from there tomorrow.
        PipedTopic(
            topic.name,
            image.overrides(topic.name).get(MIRROR_SOURCE) or topic.topic_id,
            len(topic.partitions),
            _keys(exchange, topic.name),
        )
        for topic in image.topics.values()
        if not is_for_brokers(topic.name, topic.is_internal)
        and not image.overrides(topic.name).get(UP_TARGET)  # An outbox is emptied as its records go up.
        and gateway.may_describe_topic(exchange.caller, topic.name)
    ]
    return PipedTopics(_path(exchange), tuple(sorted(topics, key=lambda one: one.topic)), image.revision)


def _keys(exchange: Exchange, topic: str) -> Keys:
    """The filter that this broker's copy of a topic has passed."""
    return of_setting(exchange.context.broker.metadata.image.overrides(topic).get(MIRROR_KEYS, ""))


def _path(exchange: Exchange) -> tuple[str, ...]:
    node = exchange.context.broker.edge_node
    return (exchange.context.broker.metadata.image.cluster_id,) if node is None else (node.name, *node.pipe.path)


async def pull(exchange: Exchange) -> Reply:
    said: PipeToPull = exchange.body
    if not 0 < len(said.partitions) <= _PARTITIONS_MAX:
        raise Problem(400, f"partitions should be 1 to {_PARTITIONS_MAX} positions")
    if any(one.offset < 0 or one.partition < 0 for one in said.partitions):
        raise Problem(400, "partition and offset should not be negative")
    _check_keys(said.partitions)
    wait_ms, max_bytes = max(0, said.timeout_ms), max(1, min(said.max_bytes, _BYTES_MAX))
    if any(one.keys for one in said.partitions):
        limit_bytes = exchange.context.broker.runtime.directory.settings.log_decompressed_bytes_max
        wait_ms = min(wait_ms, _PARKED_MAX_MS)
        pieces = await pull_keyed(partial(_read, exchange), said.partitions, wait_ms, max_bytes, limit_bytes)
    else:
        pieces = await _read(exchange, said.partitions, wait_ms, max_bytes)
    revision = exchange.context.broker.metadata.image.revision
    head = PipeHead(_path(exchange), tuple(piece for piece, _ in pieces), revision)
    return Reply(200, encode_answer(head, [records for _, records in pieces]), _MEDIA_TYPE)


def _check_keys(positions: Sequence[PipePosition]) -> None:
    for one in positions:
        if len(one.keys) > KEYS_MAX:
            raise Problem(400, f"keys should be at most {KEYS_MAX} for a partition")
        for why in map(why_no_key, one.keys):
            if why is not None:
                raise Problem(400, f"keys: {why}")


async def _read(exchange: Exchange, positions: Sequence[PipePosition], wait_ms: int, max_bytes: int) -> list[Piece]:
    """What there is from positions on, as it lies in the logs."""
    by_leader: dict[int, list[PipePosition]] = {}
    for one in positions:
        epoch = epoch_to_compare(one.offset, one.epoch, _gaps(exchange, one))
        asked = one if epoch == one.epoch else replace(one, epoch=epoch)
        by_leader.setdefault(exchange.context.gateway.leader(one.topic, one.partition), []).append(asked)
    longest_ms = _PARKED_MAX_MS if len(by_leader) == 1 else _SEVERAL_LEADERS_MS
    wait_ms = min(wait_ms, longest_ms)
    rows: dict[TopicPartition, PartitionData] = {}
    try:
        if len(by_leader) == 1:  # Thousands are parked here: a task for each would be a kibibyte more.
            rows = await _fetch(exchange, *by_leader.popitem(), wait_ms, max_bytes)
        else:
            answers = (_fetch(exchange, node_id, part, wait_ms, max_bytes) for node_id, part in by_leader.items())
            for found in await asyncio.gather(*answers):
                rows |= found
    except asyncio.CancelledError:
        raise_if_stopping(exchange)
        raise
    if rows and all(row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED for row in rows.values()):
        raise problem_of(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"topic {positions[0].topic}")
    return [await _piece(exchange, one, rows.get(TopicPartition(one.topic, one.partition))) for one in positions]


async def _fetch(
    exchange: Exchange, node_id: int, positions: list[PipePosition], wait_ms: int, max_bytes: int
) -> dict[TopicPartition, PartitionData]:
    """One Fetch to one leader; positions are asked for in the order of the request."""
    topics: list[FetchTopic] = []
    for one in positions:
        if not topics or topics[-1].topic != one.topic:
            topics.append(FetchTopic(topic=one.topic, partitions=[]))
        wanted = FetchPartition(
            partition=one.partition,
            fetch_offset=one.offset,
            last_fetched_epoch=one.epoch,
            partition_max_bytes=max_bytes,
        )
        topics[-1].partitions.append(wanted)
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=max_bytes, topics=topics, session_epoch=-1)
    response: FetchResponse = await exchange.context.gateway.call(
        exchange.caller, ApiKey.FETCH, request, node_id, at_most=_FETCH_VERSION
    )
    return {
        TopicPartition(topic.topic, row.partition_index): row
        for topic in response.responses
        for row in topic.partitions
    }


async def _piece(exchange: Exchange, asked: PipePosition, row: PartitionData | None) -> Piece:
    """What to say of one partition, and its batches."""
    if row is None:
        return PipedPartition(asked.topic, asked.partition, ErrorCode.UNKNOWN_SERVER_ERROR.name), b""
    if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return await _out_of_range(exchange, asked)
    if row.error_code:
        return PipedPartition(asked.topic, asked.partition, ErrorCode(row.error_code).name), b""
    parted = row.diverging_epoch
    diverging = None if parted is None or parted.epoch < 0 else (parted.epoch, parted.end_offset)
    return _described(exchange, asked, row, diverging)


def _described(exchange: Exchange, asked: PipePosition, row: PartitionData, diverging: tuple[int, int] | None) -> Piece:
    records = b"" if diverging is not None else _joined(row)
    # The gap at which two logs part says what we cannot judge.
    known_from = asked.offset if diverging is None else min(asked.offset, diverging[1] - 1)
    piece = PipedPartition(
        asked.topic,
        asked.partition,
        "",
        row.log_start_offset,
        row.high_watermark,
        diverging,
        tuple((gap.first, gap.end) for gap in _gaps(exchange, asked) if gap.end > known_from),
        len(records),
        _next(records),
        _keys(exchange, asked.topic),
    )
    return piece, records


def _next(records: bytes) -> tuple[int, int] | None:
    """Where a child stands that has these batches."""
    position, found = 0, None
    while len(records) - position >= HEADER_SIZE:
        header = read_header(records, position)
        position += header.size
        found = header.next_offset, header.leader_epoch
    return found


def _gaps(exchange: Exchange, asked: PipePosition) -> tuple[Gap, ...]:
    """What this broker lacks of the partition, where it is a child itself."""
    node = exchange.context.broker.edge_node
    return () if node is None else node.mirrors.gaps(TopicPartition(asked.topic, asked.partition))


def _joined(row: PartitionData) -> bytes:
    records = row.records
    if records is None:
        return b""
    return bytes(records) if isinstance(records, bytes | bytearray | memoryview) else b"".join(records)


async def _out_of_range(exchange: Exchange, asked: PipePosition) -> Piece:
    """The child is before the log's start, beyond its end, or has an epoch that this log does not know."""
    context, numbers = exchange.context, [asked.partition]
    start = (await context.reads.offsets_at(exchange.caller, asked.topic, numbers, EARLIEST))[asked.partition]
    end = (await context.reads.offsets_at(exchange.caller, asked.topic, numbers, LATEST))[asked.partition]
    leader = context.gateway.leader(asked.topic, asked.partition)
    first = PipePosition(asked.topic, asked.partition, start)
    rows = await _fetch(exchange, leader, [first], 0, 1 if asked.offset >= start else 1024 * 1024)
    row = rows.get(TopicPartition(asked.topic, asked.partition))
    if row is None or row.error_code:
        code = ErrorCode.UNKNOWN_SERVER_ERROR if row is None else ErrorCode(row.error_code)
        return PipedPartition(asked.topic, asked.partition, code.name), b""
    if asked.offset < start:
        return _described(exchange, asked, row, None)
    records = _joined(row)
    first_epoch = read_header(records).leader_epoch if len(records) >= HEADER_SIZE else -1
    begins_later = first_epoch > asked.epoch >= 0
    # A log that has no later epoch is behind: its end is then where the epoch ends, and nothing is to be cut.
    return _described(exchange, asked, row, (-1, start) if begins_later else (max(first_epoch, 0), end))


OPERATIONS = (
    Operation(
        "GET",
        "/api/v1/edge/pipe/topics",
        piped_topics,
        "The topics that a child may pull",
        "edge",
        query=PipeQuery,
        answer=PipedTopics,
    ),
    Operation(
        "POST",
        "/api/v1/edge/pipe",
        pull,
        "Batches from given positions on, as they lie in the logs, after a head in JSON",
        "edge",
        body=PipeToPull,
        answers={_MEDIA_TYPE.decode(): bytes},
        waits=True,
        is_long_poll=True,
    ),
)
