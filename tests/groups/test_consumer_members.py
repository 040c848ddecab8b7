"""Groups of the new protocol: expressions, assignors, members of both protocols, and what is refused."""

from __future__ import annotations

import pytest
from tests.groups.consumers import ClassicConsumer, Consumer, beat, group_of, join, numbers
from tests.groups.shell import SECOND, Shell, subscription

from qanat.groups.classic.states import GroupState
from qanat.groups.consumer.group import ConsumerGroupState
from qanat.groups.consumer.requirements import MOST_TOPICS
from qanat.groups.consumer.subscriptions import expression_error
from qanat.groups.replies import (
    AssignmentReply,
    ConsumerDescribeReply,
    DeleteGroupReply,
    JoinReply,
    ListReply,
    SyncReply,
)
from qanat.groups.requests import (
    ConsumerHeartbeat,
    DeleteGroup,
    DescribeConsumerGroup,
    ListGroups,
    Protocol,
    SyncGroup,
)
from qanat.groups.settings import GroupSettings
from qanat.model.error_codes import ErrorCode

ORDERS = Protocol("range", subscription("orders"))


def told(shell: Shell, request: ConsumerHeartbeat) -> AssignmentReply:
    return shell.ask(request, AssignmentReply)


def classic_state(shell: Shell) -> str:
    return shell.shard.groups["g"].state.value


def topics_of(shell: Shell, member_id: str) -> list[str]:
    names = {shell.topics.topic_name(at.topic_id) for at in group_of(shell).target_of(member_id)}
    return sorted(name for name in names if name is not None)


def test_an_expression_stands_for_the_topics_that_match_it_whole_and_for_new_ones_when_they_come() -> None:
    shell = Shell()
    shell.topics.make("orders-old", 1)
    reply = told(shell, join("a", topics=(), expression="orders(-new)?"))
    assert len(reply.assignment or ()) == 8
    assert topics_of(shell, "a") == ["orders"]
    shell.topics.make("orders-new", 2)
    told(shell, beat("a", 1))
    assert topics_of(shell, "a") == ["orders", "orders-new"]
    shell.topics.delete("orders")
    told(shell, beat("a", 2))
    assert topics_of(shell, "a") == ["orders-new"]
    shell.crash()
    assert topics_of(shell, "a") == ["orders-new"]


def test_an_expression_that_nobody_uses_any_more_is_forgotten() -> None:
    shell = Shell()
    told(shell, join("a", topics=(), expression="orders"))
    told(shell, join("b", topics=(), expression="pay.*"))
    assert list(group_of(shell).expressions) == ["orders", "pay.*"]
    told(shell, beat("b", 2, expression=""))
    assert list(group_of(shell).expressions) == ["orders"]
    told(shell, beat("a", -1))
    assert group_of(shell).expressions == {}


@pytest.mark.parametrize("expression", ["(", "[a", "a{2000}", "(?<=a)b", "a**", "\\8"])
def test_an_expression_that_is_none_is_refused_before_anything_is_written(expression: str) -> None:
    shell = Shell()
    reply = told(shell, join("a", topics=(), expression=expression))
    assert reply.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert reply.message is not None
    assert repr(expression) in reply.message
    assert shell.log == []


def test_an_expression_takes_time_in_proportion_to_names() -> None:
    """Python's own would take longer than the world has left for (a+)+$ and a name of 60 letters."""
    assert expression_error("(a+)+$") is None
    shell = Shell()
    shell.topics.make("a" * 60 + "b", 1)
    assert told(shell, join("a", topics=(), expression="(a+)+$")).assignment == ()


def test_the_assignor_that_most_members_want_decides() -> None:
    shell = Shell()
    told(shell, join("a", assignor="range"))
    described = shell.ask(DescribeConsumerGroup("g"), ConsumerDescribeReply)
    assert described.assignor == "range"
    for name in ("b", "c"):
        told(shell, join(name, assignor="uniform"))
    described = shell.ask(DescribeConsumerGroup("g"), ConsumerDescribeReply)
    assert (described.assignor, described.epoch, len(described.members)) == ("uniform", 3, 3)


def test_the_default_assignor_is_the_first_that_the_broker_lists() -> None:
    shell = Shell(GroupSettings(group_consumer_assignors="range"))
    told(shell, join("a"))
    assert shell.ask(DescribeConsumerGroup("g"), ConsumerDescribeReply).assignor == "range"
    assert told(shell, join("b", assignor="uniform")).error is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_groups_of_both_kinds_are_listed_by_type_and_state() -> None:
    shell = Shell()
    told(shell, join("a"))
    shell.stable(group_id="classic")

    def listed(**filters: tuple[str, ...]) -> list[tuple[str, str, str]]:
        reply = shell.ask(ListGroups(**filters), ListReply)
        return [(one.group_id, one.group_type, one.state) for one in reply.groups]

    ours, theirs = ("g", "consumer", "Stable"), ("classic", "classic", "Stable")
    assert listed() == [theirs, ours]
    assert listed(types=("Consumer",)) == [ours]
    assert listed(types=("classic",)) == [theirs]
    assert listed(types=("share",)) == []
    told(shell, join("b"))
    assert listed(states=("reconciling",)) == [("g", "consumer", "Reconciling")]


def test_a_group_is_deleted_when_it_is_empty() -> None:
    shell = Shell()
    told(shell, join("a"))
    assert shell.ask(DeleteGroup("g"), DeleteGroupReply).error is ErrorCode.NON_EMPTY_GROUP
    told(shell, beat("a", -1))
    assert shell.ask(DeleteGroup("g"), DeleteGroupReply).error is ErrorCode.NONE
    assert shell.shard.ledger.consumers == {}
    assert shell.shard.ledger == shell.replayed()


def in_turn(shell: Shell, *members: Consumer | ClassicConsumer, rounds: int = 8) -> None:
    for _ in range(rounds):
        for member in members:
            if isinstance(member, Consumer):
                member.let_go()
                member.hear(told(shell, member.next_beat()))
            else:
                call = member.act(shell)
                shell.advance(0)
                if call.is_answered:
                    member.hear(call.replies[0], shell)
        shell.advance(SECOND)


def test_a_classic_group_becomes_one_of_the_new_protocol_and_is_classic_again_in_the_end() -> None:
    shell, old, new = Shell(), ClassicConsumer(ORDERS), Consumer("zz", "orders")
    in_turn(shell, old, rounds=3)
    assert (shell.shard.groups["g"].state, len(old.reads)) == (GroupState.STABLE, 8)

    in_turn(shell, old, new)
    assert "g" not in shell.shard.groups
    assert group_of(shell).state is ConsumerGroupState.STABLE
    assert (len(old.reads), len(new.reads)) == (4, 4)
    shell.crash()
    in_turn(shell, old, new, rounds=1)
    assert (len(old.reads), len(new.reads)) == (4, 4)

    told(shell, beat("zz", -1))
    in_turn(shell, old, rounds=4)
    assert shell.shard.groups["g"].state is GroupState.STABLE
    assert len(old.reads) == 8
    assert shell.shard.ledger == shell.replayed()


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        ("bidirectional", ErrorCode.NONE),
        ("upgrade", ErrorCode.NONE),
        ("downgrade", ErrorCode.GROUP_ID_NOT_FOUND),
        ("disabled", ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_whether_a_classic_group_may_be_joined_is_for_the_policy_to_say(policy: str, error: ErrorCode) -> None:
    shell = Shell(GroupSettings(group_initial_rebalance_delay_ms=0, group_consumer_migration_policy=policy))  # type: ignore[arg-type]
    in_turn(shell, ClassicConsumer(ORDERS), rounds=3)
    assert told(shell, join("a")).error is error


def test_without_a_way_back_classic_members_stay_in_the_new_group() -> None:
    shell = Shell(GroupSettings(group_initial_rebalance_delay_ms=0, group_consumer_migration_policy="upgrade"))
    old, new = ClassicConsumer(ORDERS), Consumer("zz", "orders")
    in_turn(shell, old, new)
    told(shell, beat("zz", -1))
    in_turn(shell, old)
    assert list(group_of(shell).members) == [old.member_id]
    assert len(old.reads) == 8


def test_groups_that_are_no_consumers_are_not_joined() -> None:
    shell = Shell()
    call = shell.join(protocol_type="connect", protocols=(Protocol("default", b"opaque"),))
    shell.advance(0)
    assert call.reply(JoinReply).error is ErrorCode.NONE
    assert told(shell, join("a")).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_classic_group_whose_bytes_cannot_be_read_is_not_joined() -> None:
    shell = Shell()
    call = shell.join(protocols=(Protocol("range", b"opaque"),))
    shell.advance(0)
    joined = call.reply(JoinReply)
    shell.ask(SyncGroup("g", joined.member_id, 1, assignments=((joined.member_id, b"x"),)), SyncReply)
    assert told(shell, join("a")).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert shell.shard.groups["g"].state is GroupState.STABLE


def test_a_join_that_waits_in_a_classic_group_is_answered_when_the_group_is_taken_over() -> None:
    shell = Shell()
    in_turn(shell, ClassicConsumer(ORDERS), rounds=3)
    waiting = shell.join(protocols=(ORDERS,))
    assert not waiting.is_answered
    told(shell, join("a"))
    assert waiting.reply(JoinReply).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert shell.waiting_tickets == []


def test_an_empty_group_is_whoevers_joins_it_next() -> None:
    shell = Shell()
    told(shell, join("a"))
    told(shell, beat("a", -1))
    in_turn(shell, ClassicConsumer(ORDERS), rounds=3)
    assert classic_state(shell) == "Stable"
    shell.advance(60 * SECOND)
    assert classic_state(shell) == "Empty"
    assert numbers(told(shell, join("a")).assignment) == list(range(8))
    assert "g" not in shell.shard.groups
    assert shell.shard.ledger == shell.replayed()


def test_a_classic_member_that_is_called_and_does_not_come_is_out() -> None:
    shell, old, new = Shell(), ClassicConsumer(ORDERS), Consumer("zz", "orders")
    in_turn(shell, old, rounds=3)
    for _ in range(30):
        new.let_go()
        new.hear(told(shell, new.next_beat()))
        old.is_synced, joined = True, old.joined
        call = old.act(shell)
        old.joined = joined
        assert call.is_answered
        shell.advance(3 * SECOND)
    assert list(group_of(shell).members) == ["zz"]
    assert len(new.reads) == 8


def test_a_member_id_is_drawn_for_who_does_not_bring_one() -> None:
    shell = Shell()
    assert told(shell, join("")).error is ErrorCode.INVALID_REQUEST
    assert told(shell, join("", brings_its_id=False)).member_id == "drawn"


@pytest.mark.parametrize("name", ["group_id", "member_id", "instance_id", "rack_id"])
def test_names_that_do_not_fit_a_record_are_refused(name: str) -> None:
    shell, fields = (
        Shell(),
        {"group_id": "g", "member_id": "a", "member_epoch": 0, "unique": "u", "topics": ("orders",)},
    )
    request = ConsumerHeartbeat(**{**fields, name: "x" * 8_001}, rebalance_timeout_ms=1, owned=())  # type: ignore[arg-type]
    assert told(shell, request).error is ErrorCode.INVALID_REQUEST
    assert shell.log == []


def test_more_topics_by_name_than_a_group_can_decide_about_in_one_go_are_refused() -> None:
    def subscribed(count: int) -> ConsumerHeartbeat:
        topics = tuple(f"topic-{number}" for number in range(count))
        return ConsumerHeartbeat("g", "a", 0, "u", rebalance_timeout_ms=1, topics=topics, owned=())

    shell = Shell()
    assert told(shell, subscribed(MOST_TOPICS + 1)).error is ErrorCode.INVALID_REQUEST
    assert told(shell, subscribed(MOST_TOPICS)).error is ErrorCode.NONE


def test_a_client_with_a_session_of_its_own_is_out_when_that_ends_also_after_a_crash() -> None:
    shell = Shell()
    shell.client_sessions_ms["c"] = 30 * SECOND  # What `join` and `beat` call themselves.
    told(shell, join("a"))
    shell.advance(29 * SECOND)
    told(shell, beat("a", 1))
    shell.advance(29 * SECOND)
    assert "a" in group_of(shell).members
    shell.crash()
    shell.advance(29 * SECOND)
    assert "a" in group_of(shell).members
    shell.advance(1 * SECOND)
    assert "a" not in group_of(shell).members


@pytest.mark.parametrize(("sent_ms", "counts_ms"), [(-1, 60 * SECOND), (0, 0), (1, 1)])
def test_a_heartbeat_changes_the_rebalance_timeout_where_it_has_one(sent_ms: int, counts_ms: int) -> None:
    shell = Shell()
    told(shell, join("a"))
    told(shell, beat("a", 1, rebalance_timeout_ms=sent_ms))

    assert group_of(shell).members["a"].rebalance_timeout_ms == counts_ms


def test_a_group_whose_target_is_behind_its_epoch_is_assigning() -> None:
    shell = Shell()
    shell.send(join("a"))
    group = group_of(shell)
    states = [group.state]
    group.epoch += 1
    states.append(group.state)

    assert states == [ConsumerGroupState.STABLE, ConsumerGroupState.ASSIGNING]
