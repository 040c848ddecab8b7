"""The checklist's corner cases of groups and offsets, C50 to C56, by number."""

from __future__ import annotations

import pytest
from tests.groups.shell import DAY, SECOND, Call, Shell

from qanat.groups.classic.states import GroupState
from qanat.groups.records import GroupMetadataRecord, OffsetCommitRecord
from qanat.groups.replies import (
    CommitReply,
    FetchedOffset,
    FetchReply,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    SyncReply,
)
from qanat.groups.requests import (
    CommitOffsets,
    FetchOffsets,
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    Protocol,
    SyncGroup,
)
from qanat.groups.settings import GroupSettings
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition


def commit(shell: Shell, offset: int, member: JoinReply | None = None, *, metadata: str = "") -> ErrorCode:
    return commit_call(shell, offset, member, metadata=metadata).reply(CommitReply).partitions[0].error


def commit_call(
    shell: Shell, offset: int, member: JoinReply | None = None, *, topic: str = "orders", metadata: str = ""
) -> Call:
    offsets = (OffsetToCommit(topic, 0, offset, 5, metadata),)
    if member is None:
        return shell.send(CommitOffsets("g", offsets))
    return shell.send(CommitOffsets("g", offsets, member.member_id, member.generation_id))


def committed(shell: Shell) -> FetchedOffset:
    reply = shell.ask(FetchOffsets("g", (TopicPartition("orders", 0),)), FetchReply)
    return reply.offsets[0]


def state(shell: Shell) -> GroupState:
    return shell.shard.groups["g"].state


def beat(shell: Shell, member: JoinReply, instance_id: str | None = None) -> ErrorCode:
    return shell.ask(Heartbeat("g", member.member_id, member.generation_id, instance_id), HeartbeatReply).error


def test_c50_a_reload_keeps_offsets_and_members_and_starts_no_rebalance() -> None:
    shell = Shell()
    members = shell.stable(3)
    assert commit(shell, 42, members[1], metadata="note") is ErrorCode.NONE
    shell.advance(8 * SECOND)
    before = shell.shard.ledger
    shell.crash()
    assert shell.shard.ledger == before
    shell.advance(8 * SECOND)  # A session of its own after the reload: nobody is given up for the old one's sake.
    assert [beat(shell, member) for member in members] == [ErrorCode.NONE] * 3
    assert committed(shell) == FetchedOffset("orders", 0, 42, 5, "note")


def test_c50_an_answer_is_released_only_when_its_records_and_all_before_them_are_durable() -> None:
    shell = Shell(is_slow=True)
    first = commit_call(shell, 7)
    fetch = shell.send(FetchOffsets("g", (TopicPartition("orders", 0),)))
    assert (first.is_answered, fetch.is_answered) == (False, False)
    shell.flush()
    assert fetch.reply(FetchReply).offsets[0].offset == 7


def test_c50_a_failed_append_refuses_whoever_waits_and_forgets_what_was_not_durable() -> None:
    shell = Shell()
    assert commit(shell, 1) is ErrorCode.NONE
    shell.is_slow = True
    lost = commit_call(shell, 2)
    parked = shell.join()
    shell.fail_append(ErrorCode.NOT_COORDINATOR)
    assert lost.reply(CommitReply).partitions[0].error is ErrorCode.NOT_COORDINATOR
    assert parked.reply(JoinReply).error is ErrorCode.NOT_COORDINATOR
    shell.is_slow = False
    assert committed(shell).offset == 1


def test_c51_a_static_member_that_bounces_within_its_session_causes_no_rebalance() -> None:
    shell = Shell()
    leader, other = shell.stable(2, instance_ids=("a", "b"))
    shell.advance(5 * SECOND)
    back = shell.join(instance_id="b").reply(JoinReply)
    assert back.generation_id == other.generation_id
    assert (back.member_id != other.member_id, back.leader_id) == (True, leader.member_id)
    synced = shell.ask(SyncGroup("g", back.member_id, back.generation_id, "b"), SyncReply)
    assert synced.assignment == other.member_id.encode()
    assert beat(shell, leader) is ErrorCode.NONE


def test_c51_a_returning_static_leader_skips_the_assignment_or_takes_itself_for_a_follower() -> None:
    shell = Shell()
    leader, _ = shell.stable(2, instance_ids=("a", "b"))
    old = shell.join(instance_id="a", may_skip_assignment=False).reply(JoinReply)
    assert (old.leader_id, old.members, old.skip_assignment) == (leader.member_id, (), False)
    new = shell.join(instance_id="a").reply(JoinReply)
    assert (new.leader_id, len(new.members), new.skip_assignment) == (new.member_id, 2, True)


def test_c51_the_older_of_two_with_one_instance_id_is_fenced_everywhere() -> None:
    shell = Shell()
    (old,) = shell.stable(1, instance_ids=("a",))
    shell.join(instance_id="a")
    member_id, generation = old.member_id, old.generation_id
    fenced = ErrorCode.FENCED_INSTANCE_ID
    offsets = (OffsetToCommit("orders", 0, 1),)
    assert shell.ask(Heartbeat("g", member_id, generation, "a"), HeartbeatReply).error is fenced
    assert shell.ask(SyncGroup("g", member_id, generation, "a"), SyncReply).error is fenced
    assert shell.join(member_id, instance_id="a").reply(JoinReply).error is fenced
    reply = shell.ask(CommitOffsets("g", offsets, member_id, generation, "a"), CommitReply)
    assert reply.partitions[0].error is fenced
    left = shell.ask(LeaveGroup("g", (LeavingMember(member_id, "a"),)), LeaveReply)
    assert left.members[0].error is fenced


def test_c51_a_duplicate_instance_id_fences_the_join_that_waits() -> None:
    shell = Shell(GroupSettings())
    first = shell.join(instance_id="a")
    second = shell.join(instance_id="a")
    assert first.reply(JoinReply).error is ErrorCode.FENCED_INSTANCE_ID
    shell.advance(10 * SECOND)
    assert second.reply(JoinReply).error is ErrorCode.NONE


def test_c51_the_replacement_is_durable_before_the_newcomer_is_told() -> None:
    shell = Shell()
    (old,) = shell.stable(1, instance_ids=("a",))
    shell.is_slow = True
    back = shell.join(instance_id="a")
    assert not back.is_answered
    shell.crash()
    shell.is_slow = False
    assert beat(shell, old, "a") is ErrorCode.NONE


def test_c51_a_replacement_outlives_the_coordinator() -> None:
    shell = Shell()
    (old,) = shell.stable(1, instance_ids=("a",))
    back = shell.join(instance_id="a").reply(JoinReply)
    shell.crash()
    assert beat(shell, back, "a") is ErrorCode.NONE
    assert beat(shell, old, "a") is ErrorCode.FENCED_INSTANCE_ID


def test_c52_a_zombie_of_an_old_generation_is_refused_whatever_it_asks() -> None:
    shell = Shell()
    (member,) = shell.stable(1)
    newer = shell.join(member.member_id).reply(JoinReply)
    assert newer.generation_id == member.generation_id + 1
    shell.sync_all([newer])
    illegal = ErrorCode.ILLEGAL_GENERATION
    assert commit(shell, 1, member) is illegal
    assert beat(shell, member) is illegal
    assert shell.ask(SyncGroup("g", member.member_id, member.generation_id), SyncReply).error is illegal
    assert commit(shell, 1, newer) is ErrorCode.NONE


def test_c52_a_member_that_was_given_up_is_unknown_whatever_it_asks() -> None:
    shell = Shell()
    (member,) = shell.stable(1)
    shell.advance(10 * SECOND)
    assert shell.shard.groups["g"].state is GroupState.EMPTY
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(shell, 1, member) is unknown
    assert beat(shell, member) is unknown
    assert shell.ask(SyncGroup("g", member.member_id, member.generation_id), SyncReply).error is unknown
    assert shell.join(member.member_id).reply(JoinReply).error is unknown
    left = shell.ask(LeaveGroup("g", (LeavingMember(member.member_id),)), LeaveReply)
    assert left.members[0].error is unknown


def test_c53_a_committed_offset_goes_back_only_when_a_client_says_so() -> None:
    shell = Shell()
    (member,) = shell.stable(1)
    commit(shell, 100, member)
    shell.join(member.member_id)
    shell.crash()
    assert committed(shell).offset == 100
    shell.advance(10 * SECOND)
    assert commit(shell, 50) is ErrorCode.NONE
    assert committed(shell).offset == 50


def test_c54_the_leader_dies_in_the_middle_of_sync_and_another_takes_over() -> None:
    shell = Shell()
    joins = [shell.join(), shell.join()]
    shell.advance(0)
    leader, follower = (join.reply(JoinReply) for join in joins)
    waiting = shell.send(SyncGroup("g", follower.member_id, follower.generation_id))
    shell.advance(10 * SECOND)  # The leader's session; the follower's does not run while it waits.
    assert waiting.reply(SyncReply).error is ErrorCode.REBALANCE_IN_PROGRESS
    again = shell.join(follower.member_id).reply(JoinReply)
    assert again.leader_id == follower.member_id
    assert [member.member_id for member in again.members] == [follower.member_id]
    assert shell.sync_all([again])[0].assignment == follower.member_id.encode()
    assert beat(shell, leader) is ErrorCode.UNKNOWN_MEMBER_ID


def test_c54_a_leader_that_beats_but_never_syncs_is_given_up_after_the_rebalance_timeout() -> None:
    shell = Shell()
    joins = [shell.join(), shell.join()]
    shell.advance(0)
    leader, follower = (join.reply(JoinReply) for join in joins)
    waiting = shell.send(SyncGroup("g", follower.member_id, follower.generation_id))
    for _ in range(12):
        shell.advance(5 * SECOND)
        beat(shell, leader)
    assert waiting.reply(SyncReply).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(shell.shard.groups["g"].members) == [follower.member_id]


def test_c54_when_all_members_die_at_once_the_offsets_stay_for_seven_days() -> None:
    shell = Shell()
    members = shell.stable(3)
    commit(shell, 9, members[0])
    shell.advance(10 * SECOND)
    assert shell.shard.groups["g"].state is GroupState.EMPTY
    shell.advance(7 * DAY - 60 * SECOND)
    assert committed(shell).offset == 9
    shell.crash()
    shell.advance(20 * 60 * SECOND)
    assert committed(shell).offset == -1
    assert "g" not in shell.shard.groups


def test_c55_a_thousand_members_join_with_work_in_proportion() -> None:
    """Counts replies and records and not seconds: one reply each, one record per generation."""
    shell = Shell(GroupSettings(group_initial_rebalance_delay_ms=3_000))
    members = shell.stable(1_000)
    assert sum(len(member.members) for member in members) == 1_000
    assert {member.generation_id for member in members} == {1}
    kinds = [type(record) for record in shell.records]
    assert kinds == [GroupMetadataRecord] * 2
    again = [shell.join(member.member_id, protocols=(Protocol("range", b"new"),)) for member in members]
    assert {join.reply(JoinReply).generation_id for join in again} == {2}


def test_c55_malformed_subscriptions_and_assignments_are_passed_on_as_they_are() -> None:
    shell = Shell()
    garbage = b"\xff\x00\x7f\xff\xff\xff\x00"
    call = shell.join(protocols=(Protocol("range", garbage),))
    shell.advance(0)
    member = call.reply(JoinReply)
    assert member.members[0].metadata == garbage
    request = SyncGroup("g", member.member_id, 1, assignments=((member.member_id, garbage), ("stranger", b"x")))
    assert shell.ask(request, SyncReply).assignment == garbage
    shell.crash()
    assert beat(shell, member) is ErrorCode.NONE


def test_c56_commits_during_a_rebalance() -> None:
    shell = Shell()
    first, second = shell.stable(2)
    shell.join(first.member_id)
    assert state(shell) is GroupState.PREPARING_REBALANCE
    assert commit(shell, 1, second) is ErrorCode.NONE, "it may save its work before it rejoins"
    assert commit(shell, 1) is ErrorCode.UNKNOWN_MEMBER_ID, "nobody else may"
    newer = shell.join(second.member_id).reply(JoinReply)
    assert state(shell) is GroupState.COMPLETING_REBALANCE
    assert commit(shell, 2, newer) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit(shell, 2, second) is ErrorCode.ILLEGAL_GENERATION
    assert committed(shell).offset == 1


def test_c56_unknown_topics_and_long_metadata_fail_alone() -> None:
    shell = Shell()
    offsets = (
        OffsetToCommit("orders", 0, 1, metadata="x" * 4096),
        OffsetToCommit("orders", 1, 1, metadata="x" * 4097),
        OffsetToCommit("nowhere", 0, 1),
        OffsetToCommit("orders", 8, 1),
        OffsetToCommit("orders", 2, 1, metadata=None),
    )
    reply = shell.ask(CommitOffsets("g", offsets), CommitReply)
    assert [outcome.error for outcome in reply.partitions] == [
        ErrorCode.NONE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    assert [
        (record.partition, record.metadata) for record in shell.records if isinstance(record, OffsetCommitRecord)
    ] == [
        (0, "x" * 4096),
        (2, ""),
    ]


@pytest.mark.parametrize("jump_ms", [-DAY, DAY])
def test_c71_setting_the_wall_clock_ends_no_session(jump_ms: int) -> None:
    shell = Shell()
    (member,) = shell.stable(1)
    shell.wall_ms += jump_ms
    shell.advance(9 * SECOND)
    assert beat(shell, member) is ErrorCode.NONE
