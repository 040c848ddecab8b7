"""Permissions on transactions."""

from __future__ import annotations

from typing import Any

from qanat.wire.compression import Codec
from qanat.wire.kafka.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_offsets,
    list_transactions,
    produce,
    txn_offset_commit,
    write_txn_markers,
)
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.cast import NO_PRODUCER, Cast, Make, ask_each, prepared
from verify.conformance.play import Play
from verify.conformance.script import batch, secured_conversation

_MANY_FROM = 4


def _init(cast: Cast, version: int) -> Any:
    return [
        ("", init_producer_id.InitProducerIdRequest(cast.transactions[0], 60_000)),
        ("another id", init_producer_id.InitProducerIdRequest(cast.transactions[2], 60_000)),
        ("without an id", init_producer_id.InitProducerIdRequest(None, 60_000)),
    ]


def _add_partitions(cast: Cast, version: int) -> Any:
    def request(transaction: str, *names: str) -> add_partitions_to_txn.AddPartitionsToTxnRequest:
        topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name, [0]) for name in names]
        if version >= _MANY_FROM:
            row = add_partitions_to_txn.AddPartitionsToTxnTransaction(transaction, NO_PRODUCER, 0, topics=topics)
            return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[row])
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transaction,
            v3_and_below_producer_id=NO_PRODUCER,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=topics,
        )

    return [
        ("", request(cast.transactions[0], cast.topics[0])),
        ("several topics", request(cast.transactions[0], *cast.topics)),
        ("another id", request(cast.transactions[2], cast.topics[0])),
    ]


def _add_offsets(cast: Cast, version: int) -> Any:
    request = add_offsets_to_txn.AddOffsetsToTxnRequest
    return [
        ("", request(cast.transactions[0], NO_PRODUCER, 0, cast.groups[0])),
        ("another group", request(cast.transactions[0], NO_PRODUCER, 0, cast.groups[2])),
    ]


def _commit(cast: Cast, version: int) -> Any:
    def request(transaction: str, group: str) -> txn_offset_commit.TxnOffsetCommitRequest:
        rows = [txn_offset_commit.TxnOffsetCommitRequestPartition(0, 1)]
        topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(name, rows) for name in cast.topics]
        return txn_offset_commit.TxnOffsetCommitRequest(transaction, group, NO_PRODUCER, 0, topics=topics)

    return [
        ("", request(cast.transactions[0], cast.groups[0])),
        ("another group", request(cast.transactions[0], cast.groups[2])),
        ("another id", request(cast.transactions[2], cast.groups[0])),
    ]


def _markers(cast: Cast, version: int) -> Any:
    topics = [write_txn_markers.WritableTxnMarkerTopic(name, [0]) for name in (cast.topics[1], cast.topics[3])]
    return write_txn_markers.WriteTxnMarkersRequest([write_txn_markers.WritableTxnMarker(NO_PRODUCER, 0, True, topics)])


REQUESTS: dict[ApiKey, Make] = {
    ApiKey.INIT_PRODUCER_ID: _init,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets,
    ApiKey.TXN_OFFSET_COMMIT: _commit,
    ApiKey.END_TXN: lambda cast, version: end_txn.EndTxnRequest(cast.transactions[0], NO_PRODUCER, 0, True),
    ApiKey.WRITE_TXN_MARKERS: _markers,
    ApiKey.DESCRIBE_TRANSACTIONS: lambda cast, version: describe_transactions.DescribeTransactionsRequest(
        list(cast.transactions)
    ),
    ApiKey.LIST_TRANSACTIONS: lambda cast, version: list_transactions.ListTransactionsRequest(),
}


@secured_conversation
def permissions_on_transactions(play: Play) -> None:
    ask_each(play, prepared(play), REQUESTS)


@secured_conversation
def permissions_in_an_open_transaction(play: Play) -> None:
    """Who may write to the topic, but not use the transactional id, cannot write to another's transaction."""
    cast = prepared(play)
    topic, transaction = cast.topics[0], cast.transactions[0]
    begun = play.quietly(ApiKey.INIT_PRODUCER_ID, 4, init_producer_id.InitProducerIdRequest(transaction, 60_000))
    who = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(topic, [0])]
    added = add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transaction,
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
        v3_and_below_topics=topics,
    )
    (answered,) = play.quietly(ApiKey.ADD_PARTITIONS_TO_TXN, 3, added).results_by_topic_v3_and_below
    assert not answered.results_by_partition[0].partition_error_code

    def write(
        user: str, note: str, named: str | None, sequence: int, *values: bytes, codec: Codec = Codec.NONE
    ) -> None:
        records = batch(*values, codec=codec, base_sequence=sequence, is_transactional=True, **who)
        data = [produce.PartitionProduceData(0, memoryview(records))]
        request = produce.ProduceRequest(named, -1, 5_000, [produce.TopicProduceData(topic, partition_data=data)])
        play.exchange(ApiKey.PRODUCE, 9, request, note, user)

    write("root", "the first", transaction, 0)
    for user in ("no-transactions", "literal", "root"):
        write(user, "without an id", None, 1)
        write(user, "compressed, without an id", None, 1, codec=Codec.GZIP)
        write(user, "much, without an id", None, 1, b"v" * 20_000)
    write("no-transactions", "with the id", transaction, 1)
    write("none", "with the id", transaction, 1)
    write("literal", "with the id", transaction, 1)
    play.exchange(ApiKey.LIST_OFFSETS, 5, _end_of(topic), "at the end")


def _end_of(topic: str) -> list_offsets.ListOffsetsRequest:
    rows = [list_offsets.ListOffsetsPartition(0, -1, -1)]
    return list_offsets.ListOffsetsRequest(-1, topics=[list_offsets.ListOffsetsTopic(topic, rows)])
