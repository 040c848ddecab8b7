"""Joining, syncing, leaving: every rule and every error that is not a corner case with a number."""

from __future__ import annotations

import pytest
from tests.groups.shell import RANGE, SECOND, STICKY, Shell

from qanat.groups.classic.states import GroupState
from qanat.groups.replies import (
    CommitReply,
    DeleteGroupReply,
    DeleteOffsetsReply,
    DescribeReply,
    FetchReply,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    ListReply,
    SyncReply,
)
from qanat.groups.requests import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    FetchOffsets,
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetToCommit,
    Protocol,
    SyncGroup,
)
from qanat.groups.settings import GroupSettings
from qanat.groups.timers import Timer, TimerKind
from qanat.model.error_codes import ErrorCode


def state(shell: Shell) -> GroupState:
    return shell.shard.groups["g"].state


def test_a_new_member_is_told_its_id_and_comes_back_with_it() -> None:
    shell = Shell()
    told = shell.join(needs_member_id=True).reply(JoinReply)
    assert told == JoinReply(ErrorCode.MEMBER_ID_REQUIRED, "c-1")
    call = shell.join(told.member_id, needs_member_id=True)
    shell.advance(0)
    assert call.reply(JoinReply).member_id == "c-1"


def test_an_id_that_nobody_comes_back_with_is_forgotten_and_holds_nobody_up() -> None:
    shell = Shell()
    (member,) = shell.stable()
    told = shell.join(needs_member_id=True).reply(JoinReply)
    waiting = shell.join(member.member_id)
    assert not waiting.is_answered
    shell.advance(10 * SECOND)
    assert waiting.reply(JoinReply).generation_id == 2
    assert shell.join(told.member_id).reply(JoinReply).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_initial_delay_is_prolonged_while_members_keep_coming_up_to_the_rebalance_timeout() -> None:
    shell = Shell(GroupSettings())
    first = shell.join(rebalance_timeout_ms=8 * SECOND)
    for _ in range(3):
        shell.advance(2 * SECOND)
        shell.join()
        assert not first.is_answered
    shell.advance(2 * SECOND)
    assert first.reply(JoinReply).generation_id == 1
    assert len(first.reply(JoinReply).members) == 4


def test_a_lone_member_waits_for_the_initial_delay_once() -> None:
    shell = Shell(GroupSettings())
    call = shell.join()
    shell.advance(2_999)
    assert not call.is_answered
    shell.advance(1)
    assert call.is_answered


def test_the_protocol_is_one_that_all_know_and_most_prefer() -> None:
    shell = Shell()
    calls = [shell.join(protocols=protocols) for protocols in ((RANGE, STICKY), (STICKY, RANGE), (STICKY, RANGE))]
    shell.advance(0)
    assert {call.reply(JoinReply).protocol_name for call in calls} == {"sticky"}


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", (RANGE,)), ("consumer", (Protocol("other", b""),)), ("consumer", ())],
)
def test_a_member_that_has_no_protocol_in_common_is_refused(
    protocol_type: str, protocols: tuple[Protocol, ...]
) -> None:
    shell = Shell()
    shell.stable()
    reply = shell.join(protocol_type=protocol_type, protocols=protocols).reply(JoinReply)
    assert reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert state(shell) is GroupState.STABLE


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", (RANGE,)), ("consumer", ())])
def test_a_refused_first_join_leaves_no_group(protocol_type: str, protocols: tuple[Protocol, ...]) -> None:
    shell = Shell()
    reply = shell.join(protocol_type=protocol_type, protocols=protocols).reply(JoinReply)
    assert reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (shell.shard.groups, shell.log) == ({}, [])


@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001])
def test_session_timeouts_have_bounds(session_timeout_ms: int) -> None:
    reply = Shell().join(session_timeout_ms=session_timeout_ms).reply(JoinReply)
    assert reply.error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_names_that_would_not_fit_a_record_are_refused() -> None:
    shell = Shell()
    assert shell.join(client_id="x" * 8_001).reply(JoinReply).error is ErrorCode.INVALID_REQUEST
    assert shell.join(group_id="x" * 8_001).reply(JoinReply).error is ErrorCode.INVALID_GROUP_ID


def test_a_full_group_turns_newcomers_away_but_not_a_static_member_that_returns() -> None:
    shell = Shell(GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=2))
    shell.stable(2, instance_ids=("a", "b"))
    assert shell.join().reply(JoinReply).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shell.join(instance_id="b").reply(JoinReply).error is ErrorCode.NONE


def test_a_group_that_outgrew_its_limit_rebalances_after_a_reload_and_the_first_get_the_places() -> None:
    shell = Shell()
    members = shell.stable(3)
    shell.settings = GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=2)
    shell.crash()
    assert state(shell) is GroupState.PREPARING_REBALANCE
    calls = [shell.join(member.member_id) for member in members]
    assert calls[2].reply(JoinReply).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [call.reply(JoinReply).error for call in calls[:2]] == [ErrorCode.NONE] * 2


def test_members_that_do_not_rejoin_in_time_are_out() -> None:
    shell = Shell()
    first, second = shell.stable(2)
    call = shell.join(first.member_id)
    for _ in range(12):
        shell.advance(5 * SECOND)
        shell.send(Heartbeat("g", second.member_id, second.generation_id))
    assert call.reply(JoinReply).generation_id == 2
    assert list(shell.shard.groups["g"].members) == [first.member_id]


def test_a_static_member_that_does_not_rejoin_keeps_its_place_until_it_misses_the_sync_as_well() -> None:
    shell = Shell()
    calls = [shell.join(instance_id=name, rebalance_timeout_ms=5 * SECOND) for name in ("a", "b")]
    shell.advance(0)
    first, second = (call.reply(JoinReply) for call in calls)
    shell.sync_all([first, second])
    again = shell.join(first.member_id, instance_id="a", rebalance_timeout_ms=5 * SECOND)
    shell.advance(5 * SECOND)
    assert [member.instance_id for member in again.reply(JoinReply).members] == ["a", "b"]
    shell.sync_all([again.reply(JoinReply)])
    assert list(shell.shard.groups["g"].members) == [first.member_id, second.member_id]
    shell.advance(5 * SECOND)
    assert list(shell.shard.groups["g"].members) == [first.member_id]


def test_a_static_successor_is_expected_to_sync_in_its_predecessors_place() -> None:
    shell = Shell()
    calls = [shell.join(instance_id=name, session_timeout_ms=600 * SECOND) for name in ("a", "b")]
    shell.advance(0)
    shell.sync_all([calls[0].reply(JoinReply)])  # b never asks for its assignment,
    shell.join(instance_id="b", session_timeout_ms=600 * SECOND)  # comes back, and does not ask either.
    shell.advance(60 * SECOND)
    assert list(shell.shard.groups["g"].static_members) == ["a"]


def test_a_newcomer_whose_client_is_gone_is_given_up_while_it_waits() -> None:
    """Five minutes, as in Kafka: else clients that time out and join anew would fill the group."""
    shell = Shell()
    call = shell.join(rebalance_timeout_ms=600 * SECOND)
    shell.advance(0)
    member = call.reply(JoinReply)
    shell.sync_all([member])
    newcomer = shell.join()
    for _ in range(60):
        shell.advance(5 * SECOND)
        shell.send(Heartbeat("g", member.member_id, 1))
    assert newcomer.reply(JoinReply).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(shell.shard.groups["g"].members) == [member.member_id]


def test_a_followers_rejoin_without_news_gets_the_present_generation() -> None:
    shell = Shell()
    _, follower = shell.stable(2)
    reply = shell.join(follower.member_id).reply(JoinReply)
    assert (reply.generation_id, reply.members, state(shell)) == (1, (), GroupState.STABLE)


def test_a_leader_that_lost_its_reply_gets_it_again() -> None:
    shell = Shell()
    call = shell.join()
    shell.advance(0)
    first = call.reply(JoinReply)
    assert shell.join(first.member_id).reply(JoinReply) == first


def test_a_request_that_is_overtaken_is_answered() -> None:
    shell = Shell()
    first, _ = shell.stable(2)
    overtaken = shell.join(first.member_id)
    shell.join(first.member_id)
    assert overtaken.reply(JoinReply).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_whoever_waits_for_an_assignment_is_told_when_another_comes() -> None:
    shell = Shell()
    joins = [shell.join(), shell.join()]
    shell.advance(0)
    follower = joins[1].reply(JoinReply)
    waiting = shell.send(SyncGroup("g", follower.member_id, 1))
    shell.join()
    assert waiting.reply(SyncReply).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert shell.ask(SyncGroup("g", follower.member_id, 1), SyncReply).error is ErrorCode.REBALANCE_IN_PROGRESS
    beat = shell.ask(Heartbeat("g", follower.member_id, 1), HeartbeatReply)
    assert beat.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_leaves_while_it_waits_is_answered() -> None:
    shell = Shell()
    joins = [shell.join(), shell.join()]
    shell.advance(0)
    follower = joins[1].reply(JoinReply)
    waiting = shell.send(SyncGroup("g", follower.member_id, 1))
    shell.send(LeaveGroup("g", (LeavingMember(follower.member_id),)))
    assert waiting.reply(SyncReply).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("protocol_type", "protocol_name"), [("connect", None), (None, "sticky")])
def test_a_sync_under_another_protocol_is_refused(protocol_type: str | None, protocol_name: str | None) -> None:
    shell = Shell()
    (member,) = shell.stable()
    request = SyncGroup("g", member.member_id, 1, None, protocol_type, protocol_name)
    assert shell.ask(request, SyncReply).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_members_leave_together_and_each_has_its_own_outcome() -> None:
    shell = Shell()
    first, second = shell.stable(2, instance_ids=("a", "b"))
    pending = shell.join(needs_member_id=True).reply(JoinReply).member_id
    leaving = (
        LeavingMember("", "a", "the operator said so"),
        LeavingMember(second.member_id),
        LeavingMember(pending),
        LeavingMember("nobody"),
        LeavingMember("", "z"),
    )
    reply = shell.ask(LeaveGroup("g", leaving), LeaveReply)
    none, unknown = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
    assert [one.error for one in reply.members] == [none, none, none, unknown, unknown]
    assert state(shell) is GroupState.EMPTY
    assert first.member_id not in shell.shard.groups["g"].members


def test_a_pending_member_that_leaves_disturbs_nobody() -> None:
    shell = Shell()
    shell.stable()
    pending = shell.join(needs_member_id=True).reply(JoinReply).member_id
    shell.send(LeaveGroup("g", (LeavingMember(pending),)))
    assert state(shell) is GroupState.STABLE


def test_the_group_without_a_name_holds_offsets_only() -> None:
    shell = Shell()
    invalid = ErrorCode.INVALID_GROUP_ID
    assert shell.join(group_id="").reply(JoinReply).error is invalid
    assert shell.ask(SyncGroup("", "m", 1), SyncReply).error is invalid
    assert shell.ask(Heartbeat("", "m", 1), HeartbeatReply).error is invalid
    assert shell.ask(LeaveGroup("", ()), LeaveReply).error is invalid
    assert shell.ask(DeleteOffsets("", ()), DeleteOffsetsReply).error is invalid
    assert shell.ask(DescribeGroup(""), DescribeReply).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert shell.ask(DeleteGroup(""), DeleteGroupReply).error is ErrorCode.GROUP_ID_NOT_FOUND
    commit = shell.ask(CommitOffsets("", (OffsetToCommit("orders", 0, 3),)), CommitReply)
    assert commit.partitions[0].error is ErrorCode.NONE
    assert shell.ask(FetchOffsets(""), FetchReply).offsets[0].offset == 3


def test_requests_about_a_group_that_does_not_exist() -> None:
    shell = Shell()
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.join("m").reply(JoinReply) == JoinReply(unknown, "m")
    assert shell.ask(SyncGroup("g", "m", 1), SyncReply).error is unknown
    assert shell.ask(Heartbeat("g", "m", 1), HeartbeatReply).error is unknown
    left = shell.ask(LeaveGroup("g", (LeavingMember("m"),)), LeaveReply)
    assert (left.error, left.members[0].error) == (ErrorCode.NONE, unknown)
    described = shell.ask(DescribeGroup("g"), DescribeReply)
    assert (described.error, described.state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert shell.ask(DeleteGroup("g"), DeleteGroupReply).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert shell.ask(DeleteOffsets("g", ()), DeleteOffsetsReply).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_described_with_its_subscriptions_once_it_is_stable() -> None:
    shell = Shell()
    call = shell.join()
    described = shell.ask(DescribeGroup("g"), DescribeReply)
    assert (described.state, described.protocol_name) == ("PreparingRebalance", "")
    assert described.members[0].metadata == b""
    shell.advance(0)
    shell.sync_all([call.reply(JoinReply)])
    described = shell.ask(DescribeGroup("g"), DescribeReply)
    assert (described.state, described.protocol_type, described.protocol_name) == ("Stable", "consumer", "range")
    member = described.members[0]
    assert (member.metadata, member.assignment, member.client_host) == (RANGE.metadata, b"c-1", "/127.0.0.1")


def test_groups_are_listed_by_state_and_type() -> None:
    shell = Shell()
    shell.stable(group_id="g")
    shell.send(CommitOffsets("simple", (OffsetToCommit("orders", 0, 1),)))

    def listed(*, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[tuple[str, str]]:
        return [(one.group_id, one.state) for one in shell.ask(ListGroups(states, types), ListReply).groups]

    assert listed() == [("g", "Stable"), ("simple", "Empty")]
    assert listed(states=("STABLE",)) == [("g", "Stable")]
    assert listed(types=("Classic",)) == listed()
    assert listed(types=("consumer",)) == []


def test_a_static_leader_that_does_not_come_back_is_replaced_by_a_member_that_does() -> None:
    shell = Shell()
    members = shell.stable(2, instance_ids=("a", "b"))
    follower = next(one for one in members if one.member_id != one.leader_id)
    call = shell.join(follower.member_id, instance_id="b" if follower is members[1] else "a", protocols=(STICKY, RANGE))
    assert not call.is_answered
    shell.advance(9 * SECOND)
    other = next(one for one in members if one is not follower)
    for _ in range(7):
        shell.send(Heartbeat("g", other.member_id, other.generation_id))
        shell.advance(9 * SECOND)
    reply = call.reply(JoinReply)

    assert reply.leader_id == reply.member_id == follower.member_id
    assert len(reply.members) == 2, "the static member stays, until its session ends"


def alive_for(shell: Shell, duration_ms: int, *members: JoinReply) -> None:
    """Let time pass while members send heartbeats."""
    for _ in range(0, duration_ms, 5 * SECOND):
        for one in members:
            shell.send(Heartbeat("g", one.member_id, one.generation_id))
        shell.advance(5 * SECOND)


def test_a_rebalance_that_no_static_member_has_joined_waits_for_another_timeout() -> None:
    shell = Shell()
    members = shell.stable(2, instance_ids=("a", "b"))
    shell.join()
    (newcomer,) = set(shell.shard.groups["g"].members) - {one.member_id for one in members}
    shell.send(LeaveGroup("g", (LeavingMember(newcomer),)))
    alive_for(shell, 60 * SECOND, *members)
    assert state(shell) is GroupState.PREPARING_REBALANCE
    joined = shell.join(members[1].member_id, instance_id="b")
    alive_for(shell, 55 * SECOND, members[0])
    assert not joined.is_answered
    alive_for(shell, 5 * SECOND, members[0])

    assert joined.reply(JoinReply).leader_id == members[1].member_id
    assert len(joined.reply(JoinReply).members) == 2


def test_an_id_whose_place_was_taken_is_refused_and_holds_up_no_other_member() -> None:
    shell = Shell(GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=2))
    (member,) = shell.stable()
    pending = shell.join(needs_member_id=True).reply(JoinReply).member_id
    calls = [shell.join(), shell.join(member.member_id)]
    assert not any(call.is_answered for call in calls)
    assert shell.join(pending).reply(JoinReply).error is ErrorCode.GROUP_MAX_SIZE_REACHED

    assert [call.reply(JoinReply).generation_id for call in calls] == [2, 2]
    assert not shell.shard.groups["g"].pending_members
    assert Timer(TimerKind.SESSION, "g", pending) not in shell.shard._state.timers


def test_changed_settings_count_from_the_next_request_on() -> None:
    shell = Shell()
    shell.stable()
    shell.shard.apply_settings(GroupSettings(group_max_size=1))

    assert shell.join().reply(JoinReply).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_group_that_is_deleted_expects_no_pending_member_any_more() -> None:
    shell = Shell()
    pending = shell.join(needs_member_id=True).reply(JoinReply).member_id
    assert Timer(TimerKind.SESSION, "g", pending) in shell.shard._state.timers
    assert shell.ask(DeleteGroup("g"), DeleteGroupReply).error is ErrorCode.NONE

    assert Timer(TimerKind.SESSION, "g", pending) not in shell.shard._state.timers
