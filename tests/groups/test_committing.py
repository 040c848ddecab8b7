"""Who may commit offsets, plainly and in a transaction, and which offsets may be deleted."""

from __future__ import annotations

import pytest
from tests.groups.shell import Shell

from qanat.groups.records import OffsetTombstone
from qanat.groups.replies import CommitReply, DeleteOffsetsReply, FetchReply, JoinReply, LeaveReply
from qanat.groups.requests import (
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteOffsets,
    FetchOffsets,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
)
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)
OFFSETS = (OffsetToCommit("orders", 0, 5),)
NOBODY = ""


def commit(
    shell: Shell, member_id: str = NOBODY, generation_id: int = -1, *, instance_id: str | None = None
) -> ErrorCode:
    request = CommitOffsets("g", OFFSETS, member_id, generation_id, instance_id)
    return shell.ask(request, CommitReply).partitions[0].error


def commit_in_transaction(
    shell: Shell, member_id: str = NOBODY, generation_id: int = -1, *, instance_id: str | None = None
) -> ErrorCode:
    request = CommitTransactionOffsets("g", 7, 0, OFFSETS, member_id, generation_id, instance_id)
    return shell.ask(request, CommitReply).partitions[0].error


def committed(shell: Shell) -> int:
    return shell.ask(FetchOffsets("g", (ORDERS,)), FetchReply).offsets[0].offset


def test_generation_0_is_a_generation_also_where_there_is_no_group() -> None:
    shell = Shell()
    assert commit(shell, "m", 0) is ErrorCode.GROUP_ID_NOT_FOUND
    assert commit_in_transaction(shell, "m", 0) is ErrorCode.ILLEGAL_GENERATION
    assert shell.log == []


@pytest.mark.parametrize("generation_id", [0, 3])
def test_a_generation_without_members_commits_nothing(generation_id: int) -> None:
    shell = Shell()
    assert commit(shell) is ErrorCode.NONE
    written = len(shell.log)
    for member_id in (NOBODY, "m"):
        assert commit(shell, member_id, generation_id) is ErrorCode.UNKNOWN_MEMBER_ID
        assert commit_in_transaction(shell, member_id, generation_id) is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(shell.log) == written


def test_any_member_id_may_commit_without_a_generation_while_the_group_is_empty() -> None:
    shell = Shell()
    assert commit(shell) is ErrorCode.NONE
    assert commit(shell, "m") is ErrorCode.NONE
    assert commit_in_transaction(shell, "m") is ErrorCode.NONE


def test_members_name_their_generation() -> None:
    shell = Shell()
    (member,) = shell.stable()
    assert commit(shell, member.member_id) is ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(shell, member.member_id) is ErrorCode.ILLEGAL_GENERATION
    assert commit(shell, member.member_id, member.generation_id) is ErrorCode.NONE


def test_who_names_only_a_taken_instance_id_is_fenced() -> None:
    shell = Shell()
    shell.stable(instance_ids=("one",))
    assert commit(shell, instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    assert commit_in_transaction(shell, instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    assert commit(shell) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_transaction_without_a_member_names_no_generation() -> None:
    shell = Shell()
    (member,) = shell.stable()
    assert commit_in_transaction(shell, NOBODY, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(shell, NOBODY, member.generation_id) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(shell) is ErrorCode.NONE


def test_offsets_of_groups_that_are_no_consumers_are_deleted_once_the_group_is_empty() -> None:
    shell = Shell()
    commit(shell)
    joining = shell.join(protocol_type="connect")
    shell.advance(0)
    member_id = joining.reply(JoinReply).member_id
    assert shell.ask(DeleteOffsets("g", (ORDERS,)), DeleteOffsetsReply).error is ErrorCode.NON_EMPTY_GROUP
    shell.ask(LeaveGroup("g", (LeavingMember(member_id),)), LeaveReply)
    assert shell.ask(DeleteOffsets("g", (ORDERS,)), DeleteOffsetsReply).error is ErrorCode.NONE
    assert committed(shell) == -1


def test_offsets_of_partitions_that_are_not_there_cannot_be_deleted() -> None:
    shell = Shell()
    commit(shell)
    asked = (TopicPartition("orders", 7), TopicPartition("orders", 8), TopicPartition("missing", 0))
    reply = shell.ask(DeleteOffsets("g", asked), DeleteOffsetsReply)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [one.error for one in reply.partitions] == [ErrorCode.NONE, unknown, unknown]


def test_a_deleted_offset_does_not_come_back_with_the_end_of_a_transaction() -> None:
    shell = Shell()
    assert commit_in_transaction(shell) is ErrorCode.NONE
    shell.ask(DeleteOffsets("g", (ORDERS,)), DeleteOffsetsReply)
    assert shell.records[-1] == OffsetTombstone("g", "orders", 0)
    shell.end_transaction(7, is_commit=True)
    assert committed(shell) == -1
