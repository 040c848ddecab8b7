"""The ledger of a shard: what makes two of them differ, and offsets of open transactions."""

from __future__ import annotations

import pytest
from tests.groups.shell import Shell

from qanat.groups.consumer.records import (
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    CurrentAssignmentRecord,
    ExpressionRecord,
    TargetAssignmentRecord,
    TargetEpochRecord,
    TopicIdPartition,
)
from qanat.groups.ledger import Ledger
from qanat.groups.records import GroupMetadataRecord, GroupRecord, OffsetCommitRecord, OffsetTombstone
from qanat.groups.replies import CommitReply, FetchReply, ListReply
from qanat.groups.requests import CommitTransactionOffsets, FetchOffsets, ListGroups, OffsetToCommit
from qanat.groups.share.records import ShareGroupRecord, ShareMemberRecord
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)
AT = TopicIdPartition(b"\1" * 16, 0)
OFFSET = OffsetCommitRecord("g", "orders", 0, 5)
ONE_OF_EACH = [
    GroupMetadataRecord("g", "consumer", 1, None, None, 1),
    ConsumerGroupRecord("g", 1),
    ConsumerMemberRecord("g", "a"),
    TargetEpochRecord("g", 1),
    TargetAssignmentRecord("g", "a", (AT,)),
    CurrentAssignmentRecord("g", "a", 1),
    ExpressionRecord("g", "orders", ("orders",), 1, 1),
    ShareGroupRecord("g", 1),
    ShareMemberRecord("g", "a"),
    OFFSET,
]


def ledger_of(*records: GroupRecord, producer_id: int = -1) -> Ledger:
    ledger = Ledger()
    for record in records:
        ledger.apply(record, producer_id)
    return ledger


@pytest.mark.parametrize("record", ONE_OF_EACH, ids=lambda record: type(record).__name__)
def test_ledgers_are_equal_where_their_records_are(record: GroupRecord) -> None:
    assert ledger_of(record) == ledger_of(record)
    assert ledger_of(record) != Ledger()


def test_groups_of_the_new_protocol_are_compared_by_their_content() -> None:
    assert ledger_of(ConsumerMemberRecord("g", "a")) != ledger_of(ConsumerMemberRecord("g", "b"))
    assert ledger_of(ConsumerGroupRecord("g", 1)) != ledger_of(ConsumerGroupRecord("g", 2))


def test_offsets_of_an_open_transaction_are_compared_while_there_are_any() -> None:
    pending = ledger_of(OFFSET, producer_id=7)
    assert pending == ledger_of(OFFSET, producer_id=7)
    assert pending != ledger_of(OFFSET, producer_id=8)
    assert pending != Ledger()
    pending.apply(OffsetTombstone("g", "orders", 0))
    assert pending == Ledger()


def test_a_ledger_is_equal_to_ledgers_only() -> None:
    assert Ledger() != ()


def commit_in_transaction(shell: Shell, producer_id: int) -> None:
    offsets = (OffsetToCommit("orders", 0, producer_id),)
    reply = shell.ask(CommitTransactionOffsets("g", producer_id, 0, offsets), CommitReply)
    assert reply.partitions[0].error is ErrorCode.NONE


def test_an_offset_is_unstable_until_the_last_transaction_with_it_ends() -> None:
    shell = Shell()
    for producer_id in (7, 8):
        commit_in_transaction(shell, producer_id)

    def fetched() -> tuple[int, ErrorCode]:
        reply = shell.ask(FetchOffsets("g", (ORDERS,), require_stable=True), FetchReply)
        return reply.offsets[0].offset, reply.offsets[0].error

    shell.end_transaction(8, is_commit=True)
    assert fetched() == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    shell.end_transaction(7, is_commit=True)
    assert fetched() == (8, ErrorCode.NONE), "its record is the later one"


def test_a_group_with_nothing_but_an_aborted_transaction_is_gone_after_a_reload() -> None:
    shell = Shell()
    commit_in_transaction(shell, 7)
    shell.crash()
    assert [one.group_id for one in shell.ask(ListGroups(), ListReply).groups] == ["g"]
    shell.end_transaction(7, is_commit=False)
    shell.crash()
    assert shell.ask(ListGroups(), ListReply).groups == ()
