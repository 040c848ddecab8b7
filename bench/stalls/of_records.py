"""Requests about very many partitions: records and positions in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench.stalls.cases import ROWS_MAX, TIMEOUT_MS, Case
from bench.stalls.crowd import Crowd
from qanat.wire.kafka.messages import (
    delete_records,
    fetch,
    list_offsets,
    offset_commit,
    offset_delete,
    offset_for_leader_epoch,
    produce,
)
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

_BATCH = memoryview(encode_batch([Record(0, 0, b"key", b"value")]))


def of_records(crowd: Crowd) -> Iterator[Case]:
    most = crowd.partitions

    def known(topic: Callable[[str, range], Any]) -> Callable[[int], list[Any]]:
        return lambda rows: [topic(name, numbers) for name, numbers in crowd.spread(rows)]

    def unknown(topic: Callable[[str, range], Any]) -> Callable[[int], list[Any]]:
        return lambda rows: [topic("s", range(rows))]

    yield from _of_partitions("known partitions", known, most)
    yield from _of_partitions("one topic, unknown partitions", unknown, ROWS_MAX)


def _of_partitions(
    what: str, spread: Callable[[Callable[[str, range], Any]], Callable[[int], list[Any]]], count: int
) -> Iterator[Case]:
    produced = spread(_produced)
    yield Case(ApiKey.PRODUCE, what, lambda n: produce.ProduceRequest(None, 1, 60_000, produced(n)), count)
    fetched = spread(_fetched)
    yield Case(ApiKey.FETCH, what, lambda n: fetch.FetchRequest(topics=fetched(n)), count)
    listed = spread(_listed)
    yield Case(ApiKey.LIST_OFFSETS, what, lambda n: list_offsets.ListOffsetsRequest(-1, 0, listed(n)), count)
    ended = spread(_ended)
    yield Case(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        what,
        lambda n: offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=ended(n)),
        count,
    )
    deleted = spread(_deleted)
    yield Case(
        ApiKey.DELETE_RECORDS,
        what,
        lambda n: delete_records.DeleteRecordsRequest(deleted(n), TIMEOUT_MS),
        count,
    )
    committed = spread(_committed)
    yield Case(
        ApiKey.OFFSET_COMMIT,
        what,
        lambda n: offset_commit.OffsetCommitRequest("committing", topics=committed(n)),
        count,
    )
    forgotten = spread(_forgotten)
    yield Case(
        ApiKey.OFFSET_DELETE,
        what,
        lambda n: offset_delete.OffsetDeleteRequest("committing", forgotten(n)),
        count,
    )


def _produced(name: str, numbers: range) -> produce.TopicProduceData:
    parts = [produce.PartitionProduceData(number, _BATCH) for number in numbers]
    return produce.TopicProduceData(name, partition_data=parts)


def _fetched(name: str, numbers: range) -> fetch.FetchTopic:
    parts = [fetch.FetchPartition(number, partition_max_bytes=1024) for number in numbers]
    return fetch.FetchTopic(name, partitions=parts)


def _listed(name: str, numbers: range) -> list_offsets.ListOffsetsTopic:
    return list_offsets.ListOffsetsTopic(name, [list_offsets.ListOffsetsPartition(n, timestamp=-1) for n in numbers])


def _ended(name: str, numbers: range) -> offset_for_leader_epoch.OffsetForLeaderTopic:
    parts = [offset_for_leader_epoch.OffsetForLeaderPartition(number) for number in numbers]
    return offset_for_leader_epoch.OffsetForLeaderTopic(name, parts)


def _deleted(name: str, numbers: range) -> delete_records.DeleteRecordsTopic:
    return delete_records.DeleteRecordsTopic(name, [delete_records.DeleteRecordsPartition(n, -1) for n in numbers])


def _committed(name: str, numbers: range) -> offset_commit.OffsetCommitRequestTopic:
    parts = [offset_commit.OffsetCommitRequestPartition(number, 1) for number in numbers]
    return offset_commit.OffsetCommitRequestTopic(name, partitions=parts)


def _forgotten(name: str, numbers: range) -> offset_delete.OffsetDeleteRequestTopic:
    parts = [offset_delete.OffsetDeleteRequestPartition(number) for number in numbers]
    return offset_delete.OffsetDeleteRequestTopic(name, parts)
