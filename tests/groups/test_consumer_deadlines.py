"""Deadlines in groups of the new protocol: of revocations, and of the joins and syncs of classic members."""

from __future__ import annotations

from tests.groups.consumers import ClassicConsumer, Consumer, beat, group_of, join, numbers
from tests.groups.shell import SECOND, Shell, subscription

from qanat.groups.consumer.records import MemberState
from qanat.groups.replies import AssignmentReply, HeartbeatReply, JoinReply, SyncReply
from qanat.groups.requests import ConsumerHeartbeat, Heartbeat, Protocol, SyncGroup
from qanat.groups.timers import Timer, TimerKind
from qanat.model.error_codes import ErrorCode

ORDERS = Protocol("range", subscription("orders"))
STEP = 5 * SECOND
"""Between two heartbeats: half of a classic member's session."""


def told(shell: Shell, request: ConsumerHeartbeat) -> AssignmentReply:
    return shell.ask(request, AssignmentReply)


def owning(*partitions: int) -> Protocol:
    """A cooperative consumer's subscription to `orders`, version 1, with the partitions that it has."""
    owned = b"\0\0\0\1" + b"\0\6orders" + len(partitions).to_bytes(4, "big")
    return Protocol(
        "range", b"\0\1" + ORDERS.metadata[2:] + owned + b"".join(one.to_bytes(4, "big") for one in partitions)
    )


def classic_group(shell: Shell) -> ClassicConsumer:
    """A stable classic group with one member that reads everything."""
    member = ClassicConsumer(ORDERS)
    for _ in range(3):
        call = member.act(shell)
        shell.advance(0)
        member.hear(call.replies[0], shell)
    assert len(member.reads) == 8
    return member


def classic_beat(shell: Shell, member: ClassicConsumer) -> ErrorCode:
    return shell.ask(Heartbeat("g", member.member_id, member.generation_id), HeartbeatReply).error


def test_a_member_that_has_let_go_in_time_stays() -> None:
    shell, first, second = Shell(), Consumer("a", "orders"), Consumer("b", "orders")
    errors = []
    for _ in range(20):
        for member in (first, second):
            member.let_go()
            reply = told(shell, member.next_beat())
            errors.append(reply.error)
            member.hear(reply)
        shell.advance(STEP)

    assert set(errors) == {ErrorCode.NONE}
    assert (len(first.reads), len(second.reads)) == (4, 4)


def test_a_static_member_that_leaves_for_a_while_need_not_let_go_meanwhile() -> None:
    shell, static = Shell(), Consumer("a", "orders", instance_id="one")
    static.hear(told(shell, static.next_beat()))
    told(shell, join("b"))
    for _ in range(10):
        told(shell, beat("a", 1, instance_id="one"))
        told(shell, beat("b", 2))
        shell.advance(STEP)
    assert group_of(shell).current_of("a").state is MemberState.UNREVOKED
    told(shell, beat("a", -2, instance_id="one"))
    shell.advance(4 * STEP)  # Its time for the revocation would be over; its session is not.
    back = told(shell, join("a2", instance_id="one"))

    assert (back.error, back.member_epoch, numbers(back.assignment)) == (ErrorCode.NONE, 2, [0, 1, 2, 3])
    assert group_of(shell).epoch == 2, "nobody was removed"


def test_a_classic_member_that_joins_and_syncs_in_time_stays() -> None:
    shell = Shell()
    old, new = classic_group(shell), Consumer("zz", "orders")
    errors = []
    for _ in range(20):
        new.let_go()
        new.hear(told(shell, new.next_beat()))
        for _ in range(3):
            reply = old.act(shell).replies[0]
            assert isinstance(reply, HeartbeatReply | JoinReply | SyncReply)
            errors.append(reply.error)
            old.hear(reply, shell)
        shell.advance(STEP)

    assert set(errors) == {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}
    assert (len(old.reads), len(new.reads)) == (4, 4)


def test_a_classic_member_that_joins_and_does_not_sync_is_out_after_its_rebalance_timeout() -> None:
    shell = Shell()
    old = classic_group(shell)
    told(shell, join("zz"))
    assert classic_beat(shell, old) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = shell.join(old.member_id, protocols=(ORDERS,)).reply(JoinReply)
    old.generation_id = joined.generation_id
    errors = []
    for _ in range(13):
        told(shell, beat("zz", group_of(shell).current_of("zz").epoch))
        errors.append(classic_beat(shell, old))
        shell.advance(STEP)

    assert errors == [ErrorCode.NONE] * 12 + [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_classic_member_has_its_whole_rebalance_timeout_for_the_join_after_a_revocation() -> None:
    shell = Shell()
    old = classic_group(shell)
    told(shell, join("zz"))
    assert classic_beat(shell, old) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = shell.join(old.member_id, protocols=(owning(*range(8)),)).reply(JoinReply)
    assert group_of(shell).current_of(old.member_id).state is MemberState.UNREVOKED
    old.generation_id = joined.generation_id
    assert shell.ask(SyncGroup("g", old.member_id, old.generation_id), SyncReply).error is ErrorCode.NONE
    errors = []
    for _ in range(13):
        shell.advance(STEP)
        told(shell, beat("zz", group_of(shell).current_of("zz").epoch))
        errors.append(classic_beat(shell, old))

    # It is asked 5 seconds after its join, and out 60 seconds after that.
    assert errors == [ErrorCode.REBALANCE_IN_PROGRESS] * 12 + [ErrorCode.UNKNOWN_MEMBER_ID]


def test_nothing_is_kept_of_members_that_have_left() -> None:
    shell, first = Shell(), Consumer("a", "orders")
    first.hear(told(shell, first.next_beat()))
    told(shell, join("b", visibility=lambda topic: True))
    told(shell, first.next_beat())
    assert group_of(shell).current_of("a").state is MemberState.UNREVOKED
    for member_id in ("a", "b"):
        told(shell, beat(member_id, -1))
    state = shell.shard._state

    assert state.visibilities == {}
    assert len(state.timers) == 1
    assert Timer(TimerKind.RETENTION) in state.timers
