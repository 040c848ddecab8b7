"""Permissions on records: produce, fetch, offsets of logs."""

from __future__ import annotations

from typing import Any

from qanat.wire.kafka.messages import (
    delete_records,
    describe_producers,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.cast import NO_PRODUCER, Cast, Make, ask_each, prepared
from verify.conformance.play import Play
from verify.conformance.script import batch, fill, secured_conversation

_PRODUCE_IDS, _FETCH_IDS, _FETCH_STATE = 13, 13, 15
"""The first versions that name topics by id, and the first that names a replica in a field of its own."""


def _named(cast: Cast, has_ids: bool) -> list[tuple[str, bytes]]:
    """Topics as a request names them."""
    return [("", one) for one in cast.ids] if has_ids else [(name, bytes(16)) for name in cast.topics]


def _produce(cast: Cast, version: int) -> Any:
    def request(transaction: str | None, **fields: Any) -> produce.ProduceRequest:
        records = batch(**fields)
        rows = [produce.PartitionProduceData(0, memoryview(records))]
        topics = [produce.TopicProduceData(*one, rows) for one in _named(cast, version >= _PRODUCE_IDS)]
        return produce.ProduceRequest(transaction, -1, 5_000, topics)

    transactional = {
        "producer_id": NO_PRODUCER,
        "producer_epoch": 0,
        "base_sequence": 0,
        "is_transactional": True,
    }
    return [
        ("", request(None)),
        ("in a transaction", request(cast.transactions[0], **transactional)),
        ("in a transaction without an id", request(None, **transactional)),
    ]


def _fetch(cast: Cast, version: int) -> Any:
    def request(**fields: Any) -> fetch.FetchRequest:
        rows = [fetch.FetchPartition(0, partition_max_bytes=1_000_000)]
        topics = [fetch.FetchTopic(*one, rows) for one in _named(cast, version >= _FETCH_IDS)]
        return fetch.FetchRequest(max_wait_ms=0, session_epoch=-1, max_bytes=1_000_000, topics=topics, **fields)

    if version >= _FETCH_STATE:
        return [("", request()), ("as a replica", request(replica_state=fetch.ReplicaState(7, 1)))]
    return [("", request()), ("as a replica", request(replica_id=7))]


def _list_offsets(cast: Cast, version: int) -> Any:
    rows = [list_offsets.ListOffsetsPartition(0, -1, -2)]
    return list_offsets.ListOffsetsRequest(
        -1, topics=[list_offsets.ListOffsetsTopic(name, rows) for name in cast.topics]
    )


def _epochs(cast: Cast, version: int) -> Any:
    rows = [offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0)]
    topics = [offset_for_leader_epoch.OffsetForLeaderTopic(name, rows) for name in cast.topics]
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(-1, topics)


def _delete(cast: Cast, version: int) -> Any:
    rows = [delete_records.DeleteRecordsPartition(0, 0)]
    topics = [delete_records.DeleteRecordsTopic(name, rows) for name in cast.topics]
    return delete_records.DeleteRecordsRequest(topics, 5_000)


def _producers(cast: Cast, version: int) -> Any:
    topics = [describe_producers.TopicRequest(name, [0]) for name in cast.topics]
    return describe_producers.DescribeProducersRequest(topics)


REQUESTS: dict[ApiKey, Make] = {
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _epochs,
    ApiKey.DELETE_RECORDS: _delete,
    ApiKey.DESCRIBE_PRODUCERS: _producers,
    ApiKey.PRODUCE: _produce,
}


@secured_conversation
def permissions_on_records(play: Play) -> None:
    cast = prepared(play)
    for name in (cast.topics[0], cast.topics[2]):
        fill(play, name, batch())
    ask_each(play, cast, REQUESTS)
