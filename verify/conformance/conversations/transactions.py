"""Transactions: producer ids, partitions and offsets of a transaction, its end, and what consumers read of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from qanat.wire.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from qanat.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from qanat.wire.kafka.messages.describe_producers import DescribeProducersRequest, TopicRequest
from qanat.wire.kafka.messages.describe_transactions import DescribeTransactionsRequest
from qanat.wire.kafka.messages.end_txn import EndTxnRequest
from qanat.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from qanat.wire.kafka.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from qanat.wire.kafka.messages.list_transactions import ListTransactionsRequest
from qanat.wire.kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from qanat.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import await_producer_ids, batch, conversation, fetch_request, make_group, make_topic

MINUTE = 60_000
LAST_CLASSIC_END = 4
"""From version 5 on, EndTxn raises the epoch."""


class Producer(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int

    @property
    def next(self) -> Producer:
        return self._replace(producer_epoch=self.producer_epoch + 1)


def make_producer(play: Play, suffix: str = "x") -> Producer:
    """A producer with an epoch, without recording the exchange."""
    await_producer_ids(play)
    transactional_id = f"{play.name}-{suffix}"
    found: list[Any] = []

    def is_ready() -> bool:
        play.quietly(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(transactional_id, 1))
        found[:] = [play.quietly(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id, MINUTE))]
        return not found[0].error_code

    play.until(is_ready)
    return Producer(transactional_id, found[0].producer_id, found[0].producer_epoch)


def await_end(play: Play, who: Producer) -> None:
    """Wait until the markers of the last transaction are written."""

    def is_over() -> bool:
        asked = DescribeTransactionsRequest([who.transactional_id])
        state = play.quietly(ApiKey.DESCRIBE_TRANSACTIONS, 0, asked).transaction_states[0].transaction_state
        return state in ("Empty", "CompleteCommit", "CompleteAbort")

    play.until(is_over)


def adding(who: Producer, version: int, topic: str, partitions: Sequence[int] = (0,), **fields: Any) -> Any:
    topics = [AddPartitionsToTxnTopic(topic, list(partitions))]
    if version < 4:
        return AddPartitionsToTxnRequest(*who, topics)
    return AddPartitionsToTxnRequest(transactions=[AddPartitionsToTxnTransaction(*who, topics=topics, **fields)])


def writing(who: Producer, topic: str, sequence: int, *values: bytes, transactional_id: str | None = "") -> Any:
    records = batch(
        *(values or (b"v",)),
        producer_id=who.producer_id,
        producer_epoch=who.producer_epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    name = who.transactional_id if transactional_id == "" else transactional_id
    data = PartitionProduceData(0, memoryview(records))
    return ProduceRequest(name, -1, 5_000, [TopicProduceData(topic, bytes(16), [data])])


def end(play: Play, who: Producer, *, is_commit: bool = True, version: int = 3) -> None:
    """End the transaction without recording the exchange, and wait for the markers."""
    answer = play.quietly(ApiKey.END_TXN, version, EndTxnRequest(*who, is_commit))
    assert not answer.error_code, answer
    await_end(play, who)


@conversation
def transactional_producers_in_every_version(play: Play) -> None:
    for version in play.versions(ApiKey.INIT_PRODUCER_ID):
        name = make_producer(play, f"{version}").transactional_id
        answer = play.exchange(ApiKey.INIT_PRODUCER_ID, version, InitProducerIdRequest(name, MINUTE), "again")
        for timeout_ms in (0, -1, 10**9):
            play.exchange(
                ApiKey.INIT_PRODUCER_ID, version, InitProducerIdRequest(name, timeout_ms), f"timeout {timeout_ms}"
            )
        if version < 3:
            continue
        own = (answer.producer_id, answer.producer_epoch)
        for note in ("says who it is", "says it once more"):
            play.exchange(ApiKey.INIT_PRODUCER_ID, version, InitProducerIdRequest(name, MINUTE, *own), note)
        for note, other in {
            "an old epoch": (own[0], 0),
            "an epoch to come": (own[0], 99),
            "somebody else": (own[0] + 12345, 0),
        }.items():
            play.exchange(ApiKey.INIT_PRODUCER_ID, version, InitProducerIdRequest(name, MINUTE, *other), note)
        new = f"{name}-new"
        play.exchange(
            ApiKey.INIT_PRODUCER_ID, version, InitProducerIdRequest(new, MINUTE, 5, 3), "unknown, says who it is"
        )


@conversation
def add_partitions_in_every_version(play: Play) -> None:
    topic = make_topic(play, partitions=2)
    for version in play.versions(ApiKey.ADD_PARTITIONS_TO_TXN):
        who = make_producer(play, f"{version}")
        for note, request in {
            "one": adding(who, version, topic),
            "again": adding(who, version, topic),
            "another": adding(who, version, topic, (0, 1)),
            "one that does not exist": adding(who, version, topic, (0, 7)),
            "an old epoch": adding(who._replace(producer_epoch=who.producer_epoch - 1), version, topic),
            "an epoch to come": adding(who.next, version, topic),
            "somebody else": adding(who._replace(producer_id=who.producer_id + 12345), version, topic),
            "an unknown id": adding(who._replace(transactional_id=f"{play.name}-unknown"), version, topic),
            "an empty id": adding(who._replace(transactional_id=""), version, topic),
        }.items():
            play.exchange(ApiKey.ADD_PARTITIONS_TO_TXN, version, request, note)
        if version >= 4:
            for note, partitions in {"one of it": (0,), "one that is not": (0, 1)}.items():
                who = make_producer(play, f"{version}-{note[:6]}")
                play.quietly(ApiKey.ADD_PARTITIONS_TO_TXN, 3, adding(who, 3, topic))
                request = adding(who, version, topic, partitions, verify_only=True)
                play.exchange(ApiKey.ADD_PARTITIONS_TO_TXN, version, request, f"verify {note}")


@conversation
def end_a_classic_transaction_in_every_version(play: Play) -> None:
    topic = make_topic(play)
    for version in play.versions(ApiKey.END_TXN, 0, LAST_CLASSIC_END):
        who = make_producer(play, f"{version}")
        play.exchange(ApiKey.END_TXN, version, EndTxnRequest(*who, True), "commit nothing")
        play.exchange(ApiKey.END_TXN, version, EndTxnRequest(*who, False), "abort nothing")
        for is_commit in (True, False):
            verb = "commit" if is_commit else "abort"
            play.quietly(ApiKey.ADD_PARTITIONS_TO_TXN, 3, adding(who, 3, topic))
            play.exchange(ApiKey.END_TXN, version, EndTxnRequest(*who, is_commit), verb)
            await_end(play, who)
            play.exchange(ApiKey.END_TXN, version, EndTxnRequest(*who, is_commit), f"{verb} again")
            play.exchange(ApiKey.END_TXN, version, EndTxnRequest(*who, not is_commit), f"the contrary of {verb}")
        for note, other in {
            "an epoch to come": who.next,
            "somebody else": who._replace(producer_id=who.producer_id + 12345),
            "an unknown id": who._replace(transactional_id=f"{play.name}-unknown"),
            "an empty id": who._replace(transactional_id=""),
        }.items():
            play.exchange(ApiKey.END_TXN, version, EndTxnRequest(*other, True), note)


@conversation
def end_a_transaction_of_version_2(play: Play) -> None:
    topic = make_topic(play)
    who = make_producer(play)
    play.exchange(ApiKey.END_TXN, 5, EndTxnRequest(*who, True), "commit nothing")
    play.exchange(ApiKey.END_TXN, 5, EndTxnRequest(*who, False), "abort nothing")
    await_end(play, who)
    who = who.next
    for is_commit in (True, False):
        verb = "commit" if is_commit else "abort"
        play.exchange(ApiKey.PRODUCE, 12, writing(who, topic, 0), f"to {verb}")
        play.exchange(ApiKey.END_TXN, 5, EndTxnRequest(*who, is_commit), verb)
        await_end(play, who)
        play.exchange(ApiKey.END_TXN, 5, EndTxnRequest(*who, is_commit), f"{verb} again")
        play.exchange(ApiKey.END_TXN, 5, EndTxnRequest(*who, not is_commit), f"the contrary of {verb}")
        play.exchange(ApiKey.PRODUCE, 12, writing(who, topic, 1), f"late, after {verb}")
        who = who.next
    play.exchange(ApiKey.END_TXN, 5, EndTxnRequest(*who.next, False), "an epoch to come")
    play.exchange(ApiKey.FETCH, 11, fetch_request(topic, isolation_level=1), "committed")


@conversation
def produce_in_a_transaction(play: Play) -> None:
    for version in (9, 10, 11):
        topic = make_topic(play, f"t{version}")
        who = make_producer(play, f"{version}")
        play.exchange(ApiKey.PRODUCE, version, writing(who, topic, 0), "not added")
        play.quietly(ApiKey.ADD_PARTITIONS_TO_TXN, 3, adding(who, 3, topic))
        play.exchange(ApiKey.PRODUCE, version, writing(who, topic, 0, b"a", b"b"), "added")
        play.exchange(ApiKey.PRODUCE, version, writing(who, topic, 0, b"a", b"b"), "once more")
        play.exchange(ApiKey.PRODUCE, version, writing(who, topic, 5), "a gap")
        unnamed = writing(who, topic, 2)
        unnamed.transactional_id = None
        play.exchange(ApiKey.PRODUCE, version, unnamed, "without its id")
        end(play, who, is_commit=version != 10)
        play.exchange(ApiKey.PRODUCE, version, writing(who, topic, 2), "after the end")
        play.exchange(ApiKey.FETCH, 11, fetch_request(topic, isolation_level=1), f"committed, after v{version}")


@conversation
def read_what_is_committed(play: Play) -> None:
    topic = make_topic(play)
    one, two = make_producer(play, "1"), make_producer(play, "2")
    for who in (one, two):
        play.quietly(ApiKey.ADD_PARTITIONS_TO_TXN, 3, adding(who, 3, topic))
        play.quietly(ApiKey.PRODUCE, 9, writing(who, topic, 0, b"a", b"b"))

    def look(note: str) -> None:
        for level in (0, 1):
            title = f"{note}, level {level}"
            play.exchange(ApiKey.FETCH, 11, fetch_request(topic, isolation_level=level), title)
            asked = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, -1)])]
            play.exchange(ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(-1, level, asked), title)

    look("both open")
    end(play, two, is_commit=False)
    look("the second aborted")
    end(play, one)
    look("both ended")
    play.exchange(ApiKey.FETCH, 11, fetch_request(topic, 5, isolation_level=1), "behind the aborted one")


@conversation
def offsets_in_a_transaction_in_every_version(play: Play) -> None:
    topic = make_topic(play)

    def commit(who: Producer, group: str, topic: str = topic, **fields: Any) -> TxnOffsetCommitRequest:
        rows = [TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(0, 42, 3, "note")])]
        request = TxnOffsetCommitRequest(who.transactional_id, group, *who[1:], topics=rows)
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    for version in play.versions(ApiKey.ADD_OFFSETS_TO_TXN):
        group, who = make_group(play, f"a{version}"), make_producer(play, f"a{version}")
        for note, other in {
            "": who,
            "an epoch to come": who.next,
            "somebody else": who._replace(producer_id=who.producer_id + 12345),
            "an unknown id": who._replace(transactional_id=f"{play.name}-unknown"),
        }.items():
            play.exchange(ApiKey.ADD_OFFSETS_TO_TXN, version, AddOffsetsToTxnRequest(*other, group), note)
    for version in play.versions(ApiKey.TXN_OFFSET_COMMIT):
        group, who = make_group(play, f"c{version}"), make_producer(play, f"c{version}")
        if version < 5:
            play.exchange(ApiKey.TXN_OFFSET_COMMIT, version, commit(who, group), "not added")
            who = make_producer(play, f"c{version}")
            play.quietly(ApiKey.ADD_OFFSETS_TO_TXN, 3, AddOffsetsToTxnRequest(*who, group))
        play.exchange(ApiKey.TXN_OFFSET_COMMIT, version, commit(who, group), "added")
        play.exchange(ApiKey.TXN_OFFSET_COMMIT, version, commit(who, group, f"{play.name}-unknown"), "unknown topic")
        if version >= 3:
            strange = commit(who, group, generation_id=3, member_id="somebody")
            play.exchange(ApiKey.TXN_OFFSET_COMMIT, version, strange, "a generation that is not")
        for stable in (False, True):
            rows = [OffsetFetchRequestTopic(topic, [0])]
            request = OffsetFetchRequest(group_id=group, topics=rows, require_stable=stable)
            play.exchange(ApiKey.OFFSET_FETCH, 7, request, f"pending after v{version}, stable {stable}")
        end(play, who, is_commit=version != 2, version=5 if version == 5 else 3)
        request = OffsetFetchRequest(group_id=group, topics=rows, require_stable=True)
        play.exchange(ApiKey.OFFSET_FETCH, 7, request, f"ended after v{version}")


@conversation
def transactions_looked_at(play: Play) -> None:
    topic = make_topic(play)
    who, idle = make_producer(play, "open"), make_producer(play, "idle")
    play.quietly(ApiKey.ADD_PARTITIONS_TO_TXN, 3, adding(who, 3, topic))
    play.quietly(ApiKey.PRODUCE, 9, writing(who, topic, 0, b"a", b"b"))
    names = [who.transactional_id, idle.transactional_id, f"{play.name}-unknown"]
    play.exchange(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(names), "one open, one idle, one unknown"
    )
    play.exchange(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest([""]), "an empty id")
    for version in play.versions(ApiKey.LIST_TRANSACTIONS):
        for note, request in {
            "all": ListTransactionsRequest(),
            "by state": ListTransactionsRequest(["Ongoing"]),
            "by a state that is none": ListTransactionsRequest(["Ongoing", "Odd"]),
            "by producer": ListTransactionsRequest([], [idle.producer_id]),
        }.items():
            play.exchange(ApiKey.LIST_TRANSACTIONS, version, request, note)
    play.exchange(ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest(duration_filter=MINUTE), "open for long")
    for pattern in (f"{play.name}-o.*", f"{play.name}", "", "("):
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        play.exchange(ApiKey.LIST_TRANSACTIONS, 2, request, f"pattern {pattern!r}")
    asked = DescribeProducersRequest([TopicRequest(topic, [0, 7]), TopicRequest(f"{play.name}-unknown", [0])])
    play.exchange(ApiKey.DESCRIBE_PRODUCERS, 0, asked, "open")
    end(play, who)
    play.exchange(ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest([TopicRequest(topic, [0])]), "ended")


@conversation
def markers_by_hand(play: Play) -> None:
    topic = make_topic(play)
    make_producer(play)
    who = make_producer(play)
    play.quietly(ApiKey.ADD_PARTITIONS_TO_TXN, 3, adding(who, 3, topic))
    play.quietly(ApiKey.PRODUCE, 9, writing(who, topic, 0, b"a", b"b"))

    def marking(epoch: int, coordinator_epoch: int = 0, is_commit: bool = False, version: int = 0) -> Any:
        topics = [WritableTxnMarkerTopic(topic, [0, 7]), WritableTxnMarkerTopic(f"{play.name}-unknown", [0])]
        marker = WritableTxnMarker(who.producer_id, epoch, is_commit, topics, coordinator_epoch, version)
        return WriteTxnMarkersRequest([marker])

    play.exchange(ApiKey.WRITE_TXN_MARKERS, 1, marking(who.producer_epoch - 1), "an old epoch")
    play.exchange(ApiKey.WRITE_TXN_MARKERS, 1, marking(who.producer_epoch), "abort")
    play.exchange(ApiKey.WRITE_TXN_MARKERS, 1, marking(who.producer_epoch, -1), "an old coordinator")
    play.exchange(ApiKey.FETCH, 11, fetch_request(topic, isolation_level=1), "aborted by hand")
    play.exchange(ApiKey.WRITE_TXN_MARKERS, 2, marking(who.producer_epoch, version=2), "with its version", on="later")
