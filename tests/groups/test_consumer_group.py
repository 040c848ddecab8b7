"""A group of the new protocol as its records have it: instance ids, targets, its state, and who waits for whom."""

from __future__ import annotations

from tests.groups.consumers import Consumer, beat, group_of, join
from tests.groups.shell import Entry, Shell

from qanat.groups.consumer.group import ConsumerGroupState
from qanat.groups.consumer.records import (
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerTombstone,
    CurrentAssignmentRecord,
    RecordKind,
    TargetEpochRecord,
)
from qanat.groups.record_codec import encode_record
from qanat.groups.records import GroupRecord
from qanat.groups.replies import AssignmentReply, ConsumerDescribeReply, HeartbeatReply, JoinReply
from qanat.groups.requests import ConsumerHeartbeat, DescribeConsumerGroup, Heartbeat
from qanat.model.error_codes import ErrorCode


def told(shell: Shell, request: ConsumerHeartbeat) -> AssignmentReply:
    return shell.ask(request, AssignmentReply)


def described(shell: Shell) -> ConsumerDescribeReply:
    return shell.ask(DescribeConsumerGroup("g"), ConsumerDescribeReply)


def loaded(*records: GroupRecord) -> Shell:
    """A shard with these records in its log, which compaction may have left of others."""
    shell = Shell()
    shell.log += [Entry(*encode_record(record)) for record in records]
    shell.durable = len(shell.log)
    shell.load()
    return shell


def follow(shell: Shell, *members: Consumer) -> None:
    """A heartbeat of each, which first revokes what it was told to."""
    for member in members:
        member.let_go()
        member.hear(told(shell, member.next_beat()))


def test_a_member_has_one_instance_id_at_a_time() -> None:
    shell = Shell()
    told(shell, join("a", instance_id="one"))
    told(shell, join("a", instance_id="two"))
    assert told(shell, beat("a", 1, instance_id="one")).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert told(shell, beat("a", 1, instance_id="two")).error is ErrorCode.NONE
    assert told(shell, join("b", instance_id="one")).error is ErrorCode.NONE, "the id is free"


def test_an_instance_id_is_unknown_once_its_member_has_left_for_good() -> None:
    shell = Shell()
    told(shell, join("a", instance_id="one"))
    told(shell, join("b"))
    assert told(shell, beat("b", 2, instance_id="one")).error is ErrorCode.FENCED_INSTANCE_ID
    told(shell, beat("a", -1, instance_id="one"))
    assert told(shell, beat("b", 2, instance_id="one")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_id_stays_with_its_new_member_where_the_old_one_goes_later() -> None:
    shell = loaded(
        ConsumerMemberRecord("g", "a", "one"),
        ConsumerMemberRecord("g", "b", "one"),
        CurrentAssignmentRecord("g", "b", 1),
        ConsumerTombstone("g", RecordKind.MEMBER, "a"),
        ConsumerGroupRecord("g", 1),
        TargetEpochRecord("g", 1),
    )
    assert told(shell, beat("b", 1, instance_id="one")).error is ErrorCode.NONE


def test_the_target_of_a_member_goes_with_it() -> None:
    shell = Shell()
    told(shell, join("a"))
    first = [type(record) for record in shell.records]
    told(shell, beat("a", -1))
    before = len(shell.records)
    told(shell, join("a"))
    assert [type(record) for record in shell.records[before:]] == first, "all of them are written again"


def test_a_group_without_the_epoch_of_its_target_is_assigning() -> None:
    records = (ConsumerMemberRecord("g", "a"), ConsumerGroupRecord("g", 1), TargetEpochRecord("g", 1))
    assert described(loaded(*records)).target_epoch == 1
    shell = loaded(*records, ConsumerTombstone("g", RecordKind.TARGET_EPOCH))
    assert (described(shell).state, described(shell).target_epoch) == (ConsumerGroupState.ASSIGNING, 0)


def test_a_group_without_a_record_of_its_own_reads_no_topics() -> None:
    """So that no new epoch comes of a member whose topics do not exist."""
    shell = loaded(ConsumerMemberRecord("g", "a", topics=("missing",)), CurrentAssignmentRecord("g", "a", 0))
    assert told(shell, join("a", "missing")).error is ErrorCode.NONE
    assert described(shell).epoch == 0


def test_a_group_is_stable_when_all_its_members_are() -> None:
    shell, first, second = Shell(), Consumer("a", "orders"), Consumer("b", "orders")
    follow(shell, first, second, first, first)
    assert group_of(shell).current_of("a").is_settled_in(2)
    assert described(shell).state == ConsumerGroupState.RECONCILING
    follow(shell, second)
    assert described(shell).state == ConsumerGroupState.STABLE


def test_a_classic_member_is_called_when_nobody_else_has_a_partition_of_its_target() -> None:
    shell, first, second = Shell(), Consumer("a", "orders"), Consumer("b", "orders")
    for _ in range(4):
        follow(shell, first, second)
    assert (len(first.reads), len(second.reads)) == (4, 4)

    def joined(member_id: str = "") -> JoinReply:
        return shell.join(member_id).reply(JoinReply)

    def called(member: JoinReply) -> bool:
        reply = shell.ask(Heartbeat("g", member.member_id, member.generation_id), HeartbeatReply)
        return reply.error is ErrorCode.REBALANCE_IN_PROGRESS

    classic = joined()
    assert not called(classic), "both others have a partition of its target"
    follow(shell, first, first)
    assert not called(classic), "one has"
    classic = joined(classic.member_id)
    assert len(group_of(shell).current_of(classic.member_id).assigned) == 1
    assert not called(classic)
    follow(shell, second, second)
    assert called(classic), "only its own partitions are left"
