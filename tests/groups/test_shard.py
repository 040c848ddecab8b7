"""The shard as a whole: which kind of group a request goes to, what a reload starts, and what is in a decision."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.groups import consumers
from tests.groups.shell import RANGE, STICKY, Shell, Topics

from qanat.groups.assignors.range import RangeAssignor
from qanat.groups.classic.states import GroupState
from qanat.groups.replies import (
    AssignmentReply,
    CommitReply,
    DeleteGroupReply,
    FetchReply,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    SyncReply,
)
from qanat.groups.requests import (
    CommitOffsets,
    DeleteGroup,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    SyncGroup,
)
from qanat.groups.settings import GroupSettings
from qanat.groups.shard import LONGEST_GROUP_ID, GroupShard
from qanat.model.clock import Now
from qanat.model.error_codes import ErrorCode


def deserted(shell: Shell) -> None:
    """A group of the new protocol with an offset and without members."""
    shell.ask(consumers.join("a"), AssignmentReply)
    reply = shell.ask(CommitOffsets("g", (OffsetToCommit("orders", 0, 5),), "a", 1), CommitReply)
    assert reply.partitions[0].error is ErrorCode.NONE
    shell.ask(consumers.beat("a", -1), AssignmentReply)


def test_members_get_the_assignors_that_the_shard_was_given() -> None:
    shard, now = GroupShard(GroupSettings(), Topics(), {"ours": RangeAssignor()}), Now(0, 0)
    shard.start(now)
    replies = [shard.decide(consumers.join(name, assignor=name), now).reply for name in ("ours", "range")]

    errors = [reply.error for reply in replies if isinstance(reply, AssignmentReply)]
    assert errors == [ErrorCode.NONE, ErrorCode.UNSUPPORTED_ASSIGNOR]


def test_a_reload_starts_a_rebalance_in_a_group_that_is_over_its_size_and_in_no_other() -> None:
    shell = Shell(GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=2))
    shell.stable(2)
    states = []
    for size_max in (2, 1):
        shell.settings = GroupSettings(group_max_size=size_max)
        shell.load()
        states.append(shell.shard.groups["g"].state)

    assert states == [GroupState.STABLE, GroupState.PREPARING_REBALANCE]


def test_an_empty_group_of_the_new_protocol_knows_no_classic_member_and_stays_what_it_is() -> None:
    shell = Shell()
    deserted(shell)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.ask(Heartbeat("g", "a", 1), HeartbeatReply).error is unknown
    assert shell.ask(SyncGroup("g", "a", 1), SyncReply).error is unknown
    assert shell.ask(LeaveGroup("g", (LeavingMember("a"),)), LeaveReply).members[0].error is unknown

    assert list(shell.shard.ledger.consumers) == ["g"]


def test_a_refused_classic_join_leaves_a_group_that_still_has_its_offsets_and_can_be_deleted() -> None:
    shell = Shell()
    deserted(shell)
    assert shell.join(protocols=()).reply(JoinReply).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shell.ask(FetchOffsets("g"), FetchReply).offsets[0].offset == 5
    assert shell.ask(DeleteGroup("g"), DeleteGroupReply).error is ErrorCode.NONE

    assert shell.ask(FetchOffsets("g"), FetchReply).offsets == ()


@pytest.mark.parametrize(("length", "error"), [(0, ErrorCode.NONE), (1, ErrorCode.INVALID_GROUP_ID)])
def test_offsets_are_kept_under_any_id_that_fits_a_record(length: int, error: ErrorCode) -> None:
    shell = Shell()
    request = CommitOffsets("g" * (LONGEST_GROUP_ID + length), (OffsetToCommit("orders", 0, 5),))

    assert shell.ask(request, CommitReply).partitions[0].error is error


def test_a_join_that_the_same_decision_completes_is_answered_and_not_parked() -> None:
    shell = Shell()
    (member,) = shell.stable()
    request = shell.join(protocols=(STICKY,), protocol_type="other").request
    assert isinstance(request, JoinGroup)
    again = replace(request, member_id=member.member_id, protocols=(RANGE, STICKY), protocol_type="consumer")
    decision = shell.shard.decide(again, shell.now)

    assert isinstance(decision.reply, JoinReply)
    assert (decision.reply.error, decision.completed) == (ErrorCode.NONE, ())
