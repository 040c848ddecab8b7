"""Members of classic groups: limits that are just kept, repeated requests, returns of static members, reloads."""

from __future__ import annotations

import pytest
from tests.groups.shell import RANGE, SECOND, STICKY, Shell, subscription

from qanat.groups.classic.group import ClassicGroup
from qanat.groups.classic.joining import LONGEST_NAME
from qanat.groups.classic.states import GroupState
from qanat.groups.records import GroupMetadataRecord, MemberMetadata
from qanat.groups.replies import (
    AssignmentReply,
    CommitReply,
    DeleteOffsetsReply,
    DescribeReply,
    FetchReply,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    SyncReply,
)
from qanat.groups.requests import (
    CommitOffsets,
    ConsumerHeartbeat,
    DeleteOffsets,
    DescribeGroup,
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


def leave(shell: Shell, member_id: str) -> None:
    reply = shell.ask(LeaveGroup("g", (LeavingMember(member_id),)), LeaveReply)
    assert [one.error for one in reply.members] == [ErrorCode.NONE]


def state(shell: Shell) -> GroupState:
    return shell.shard.groups["g"].state


def deletion_error(shell: Shell, topic: str) -> ErrorCode:
    reply = shell.ask(DeleteOffsets("g", (TopicPartition(topic, 0),)), DeleteOffsetsReply)
    return reply.partitions[0].error


def test_an_id_that_was_handed_out_is_for_a_dynamic_member() -> None:
    shell = Shell()
    told = shell.join(needs_member_id=True).reply(JoinReply)
    assert shell.join(told.member_id, instance_id="i").reply(JoinReply).error is ErrorCode.UNKNOWN_MEMBER_ID
    call = shell.join(told.member_id)
    shell.advance(0)

    assert (call.reply(JoinReply).error, call.reply(JoinReply).generation_id) == (ErrorCode.NONE, 1)


def test_a_static_member_needs_no_id_before_it_joins() -> None:
    shell = Shell()
    call = shell.join(instance_id="i", needs_member_id=True)
    shell.advance(0)

    assert call.reply(JoinReply).error is ErrorCode.NONE


@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_the_bounds_of_session_timeouts_are_allowed(session_timeout_ms: int) -> None:
    shell = Shell()
    call = shell.join(session_timeout_ms=session_timeout_ms)
    shell.advance(0)

    assert call.reply(JoinReply).error is ErrorCode.NONE


@pytest.mark.parametrize(("length", "is_valid"), [(LONGEST_NAME, True), (LONGEST_NAME + 1, False)])
@pytest.mark.parametrize("field", ["client_id", "instance_id", "protocol_type", "protocols"])
def test_each_name_of_a_member_has_at_most_so_many_characters(field: str, length: int, is_valid: bool) -> None:
    shell = Shell()
    name = "x" * length
    call = shell.join(**{field: (RANGE, Protocol(name, b"")) if field == "protocols" else name})  # type: ignore[arg-type]
    shell.advance(0)

    assert call.reply(JoinReply).error is (ErrorCode.NONE if is_valid else ErrorCode.INVALID_REQUEST)


def test_a_member_that_repeats_its_join_keeps_its_place_in_a_full_group() -> None:
    shell = Shell(GroupSettings(group_max_size=1))
    told = shell.join(needs_member_id=True).reply(JoinReply)
    first, second = shell.join(told.member_id), shell.join(told.member_id)
    assert first.reply(JoinReply).error is ErrorCode.REBALANCE_IN_PROGRESS
    shell.advance(3 * SECOND)

    assert second.reply(JoinReply).error is ErrorCode.NONE


@pytest.mark.parametrize(("asked_ms", "counts_ms"), [(-1, 10 * SECOND), (0, 10 * SECOND), (1, 1), (2, 2)])
def test_a_member_without_a_rebalance_timeout_has_its_session_timeout_for_it(asked_ms: int, counts_ms: int) -> None:
    shell = Shell()
    call = shell.join(rebalance_timeout_ms=asked_ms)
    shell.advance(0)
    shell.sync_all([call.reply(JoinReply)])
    record = shell.records[-1]

    assert isinstance(record, GroupMetadataRecord)
    assert [one.rebalance_timeout_ms for one in record.members] == [counts_ms]


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", (RANGE,)), ("consumer", ())])
def test_a_member_without_protocols_does_not_join_a_group_that_is_empty(
    protocol_type: str, protocols: tuple[Protocol, ...]
) -> None:
    shell = Shell()
    (member,) = shell.stable()
    leave(shell, member.member_id)
    reply = shell.join(protocol_type=protocol_type, protocols=protocols).reply(JoinReply)

    assert reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# Static members that return


def test_a_static_member_that_returns_brings_its_new_timeout() -> None:
    shell = Shell()
    shell.stable(instance_ids=("i",))
    back = shell.join(instance_id="i", session_timeout_ms=30 * SECOND).reply(JoinReply)
    shell.advance(30 * SECOND - 1)
    beat = shell.ask(Heartbeat("g", back.member_id, back.generation_id), HeartbeatReply)

    assert beat.error is ErrorCode.NONE


def test_a_static_member_that_returns_with_another_first_choice_causes_a_rebalance() -> None:
    shell = Shell()
    shell.stable(instance_ids=("i",))
    back = shell.join(instance_id="i", protocols=(STICKY, RANGE)).reply(JoinReply)

    assert (back.generation_id, back.protocol_name) == (2, "sticky")


def test_a_static_member_that_returns_brings_its_new_topics() -> None:
    shell = Shell()
    shell.topics.make("bills", 1)
    shell.stable(instance_ids=("i",))
    assert deletion_error(shell, "orders") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    shell.join(instance_id="i", protocols=(Protocol("range", subscription("bills")),))

    assert deletion_error(shell, "orders") is ErrorCode.NONE
    assert deletion_error(shell, "bills") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_a_static_member_that_returns_before_the_assignment_causes_another_rebalance() -> None:
    shell = Shell()
    joins = [shell.join(instance_id=instance_id) for instance_id in ("i", "j")]
    shell.advance(0)
    one, _ = (call.reply(JoinReply) for call in joins)
    back = shell.join(instance_id="j")
    assert state(shell) is GroupState.PREPARING_REBALANCE
    again = shell.join(one.member_id, instance_id="i")

    assert [call.reply(JoinReply).generation_id for call in (back, again)] == [2, 2]


def test_a_static_leader_that_returned_stays_the_leader_when_all_join_again() -> None:
    shell = Shell()
    _, follower = shell.stable(2, instance_ids=("i", "j"))
    leader = shell.join(instance_id="i").reply(JoinReply)
    assert leader.leader_id == leader.member_id
    joins = [shell.join(one.member_id, instance_id=name) for one, name in ((leader, "i"), (follower, "j"))]

    assert [call.reply(JoinReply).leader_id for call in joins] == [leader.member_id] * 2


# Sync, leave and the join phase


def test_a_sync_that_is_repeated_while_the_leader_assigns_is_answered() -> None:
    shell = Shell()
    joins = [shell.join() for _ in range(2)]
    shell.advance(0)
    leader, follower = (call.reply(JoinReply) for call in joins)
    request = SyncGroup("g", follower.member_id, follower.generation_id)
    first, second = shell.send(request), shell.send(request)
    assert first.reply(SyncReply).error is ErrorCode.REBALANCE_IN_PROGRESS
    shell.send(SyncGroup("g", leader.member_id, 1, assignments=((follower.member_id, b"all"),)))

    assert second.reply(SyncReply).assignment == b"all"


def test_a_sync_that_names_the_protocol_of_the_group_is_answered_and_one_before_there_is_any_waits() -> None:
    shell = Shell(GroupSettings())
    told = shell.join(needs_member_id=True).reply(JoinReply)
    shell.join(told.member_id)

    def sync_error(generation_id: int) -> ErrorCode:
        request = SyncGroup("g", told.member_id, generation_id, protocol_type="consumer", protocol_name="range")
        return shell.ask(request, SyncReply).error

    assert sync_error(0) is ErrorCode.REBALANCE_IN_PROGRESS
    shell.advance(3 * SECOND)
    assert sync_error(1) is ErrorCode.NONE


def test_a_rebalance_goes_on_when_the_pending_member_that_it_waits_for_leaves() -> None:
    shell = Shell()
    (member,) = shell.stable()
    told = shell.join(needs_member_id=True).reply(JoinReply)
    waiting = shell.join(member.member_id)
    assert not waiting.is_answered
    leave(shell, told.member_id)

    assert waiting.reply(JoinReply).generation_id == 2


def test_a_group_whose_last_member_leaves_is_empty_at_once_though_another_is_pending() -> None:
    shell = Shell()
    (member,) = shell.stable()
    shell.join(needs_member_id=True)
    leave(shell, member.member_id)
    shell.advance(0)

    assert state(shell) is GroupState.EMPTY


def test_the_initial_delay_is_not_prolonged_beyond_the_rebalance_timeout_and_counts_once() -> None:
    shell = Shell(GroupSettings())
    first = shell.join(rebalance_timeout_ms=3 * SECOND)
    shell.advance(SECOND)
    second = shell.join(rebalance_timeout_ms=3 * SECOND)
    shell.advance(2 * SECOND)
    members = [call.reply(JoinReply) for call in (first, second)]
    shell.sync_all(members)
    again = shell.join(members[0].member_id, rebalance_timeout_ms=3 * SECOND)
    shell.advance(3 * SECOND)

    assert again.reply(JoinReply).generation_id == 2
    assert len(again.reply(JoinReply).members) == 1


# Reloads


def test_an_empty_group_keeps_its_type_over_a_reload() -> None:
    shell = Shell()
    (member,) = shell.stable()
    leave(shell, member.member_id)
    before = shell.ask(DescribeGroup("g"), DescribeReply)
    assert before.protocol_type == "consumer"
    shell.load()

    assert shell.ask(DescribeGroup("g"), DescribeReply) == before


def test_a_reload_knows_which_topics_the_members_read() -> None:
    shell = Shell()
    shell.topics.make("bills", 1)
    shell.stable()
    shell.load()

    assert deletion_error(shell, "orders") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert deletion_error(shell, "bills") is ErrorCode.NONE


def test_a_member_of_a_reloaded_group_outlives_its_session_while_its_join_waits() -> None:
    shell = Shell()
    leader, follower = shell.stable(2)
    shell.load()
    waiting = shell.join(leader.member_id)
    for _ in range(3):
        shell.advance(5 * SECOND)
        shell.ask(Heartbeat("g", follower.member_id, 1), HeartbeatReply)
    assert not waiting.is_answered
    shell.join(follower.member_id)

    assert len(waiting.reply(JoinReply).members) == 2


def test_a_record_that_names_a_member_or_an_instance_twice_restores_the_first() -> None:
    members = tuple(
        MemberMetadata(member_id, instance_id, client_id, "/", 1, 1, b"", b"")
        for member_id, instance_id, client_id in (("a", None, "1"), ("a", None, "2"), ("b", "i", "3"), ("c", "i", "4"))
    )
    group = ClassicGroup.restored("g", GroupMetadataRecord("g", "consumer", 1, "range", "a", 0, members), 0)

    assert [(one.member_id, one.client_id) for one in group.members.values()] == [("a", "1"), ("b", "3")]
    assert group.static_members == {"i": "b"}


# What a group reads


def test_a_consumer_group_without_members_reads_nothing() -> None:
    shell = Shell()
    (member,) = shell.stable()
    leave(shell, member.member_id)
    assert deletion_error(shell, "orders") is ErrorCode.NONE
    shell.load()

    assert deletion_error(shell, "orders") is ErrorCode.NONE


def test_offsets_of_a_group_that_is_not_of_consumers_stay_while_it_has_members() -> None:
    """Its metadata may look like a subscription, and says nothing about what it reads."""
    shell = Shell()
    half_an_hour_ms = 30 * 60 * SECOND
    call = shell.join(protocol_type="connect", session_timeout_ms=half_an_hour_ms)
    shell.advance(0)
    member = call.reply(JoinReply)
    shell.sync_all([member])
    committing = CommitOffsets("g", (OffsetToCommit("payments", 0, 7),), member.member_id, member.generation_id)
    assert shell.ask(committing, CommitReply).partitions[0].error is ErrorCode.NONE
    for _ in range(8 * 48 + 20):
        shell.advance(half_an_hour_ms - 1)
        beat = shell.ask(Heartbeat("g", member.member_id, member.generation_id), HeartbeatReply)
        assert beat.error is ErrorCode.NONE

    assert [one.offset for one in shell.ask(FetchOffsets("g"), FetchReply).offsets] == [7]


def test_an_empty_instance_id_is_refused_by_groups_of_both_protocols() -> None:
    """It would be taken for the name of every member without one."""
    classic, consumers = Shell(), Shell()
    classic.join()
    consumers.ask(ConsumerHeartbeat("g", "a", 0, "u", rebalance_timeout_ms=1, topics=("t",), owned=()), AssignmentReply)

    for shell in (classic, consumers, Shell()):
        assert shell.join(instance_id="").reply(JoinReply).error is ErrorCode.INVALID_REQUEST
