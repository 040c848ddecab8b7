"""The checklist's corner cases C50 to C56, for groups of the new protocol."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.groups.consumers import Consumer, beat, group_of, join, numbers
from tests.groups.shell import DAY, SECOND, Shell

from qanat.groups.consumer.group import ConsumerGroupState
from qanat.groups.consumer.records import (
    ConsumerGroupRecord,
    ConsumerTombstone,
    CurrentAssignmentRecord,
    MemberState,
    RecordKind,
    TargetAssignmentRecord,
)
from qanat.groups.replies import AssignmentReply, CommitReply, FetchReply
from qanat.groups.requests import (
    CommitOffsets,
    CommitTransactionOffsets,
    ConsumerHeartbeat,
    FetchOffsets,
    OffsetToCommit,
)
from qanat.groups.settings import GroupSettings
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition


def told(shell: Shell, request: ConsumerHeartbeat) -> AssignmentReply:
    return shell.ask(request, AssignmentReply)


def commit(shell: Shell, member_id: str, epoch: int, *, topic: str = "orders", metadata: str = "") -> ErrorCode:
    offsets = (OffsetToCommit(topic, 0, 7, metadata=metadata),)
    return shell.ask(CommitOffsets("g", offsets, member_id, epoch), CommitReply).partitions[0].error


def committed(shell: Shell) -> int:
    return shell.ask(FetchOffsets("g", (TopicPartition("orders", 0),)), FetchReply).offsets[0].offset


def settled(shell: Shell, *members: Consumer, rounds: int = 4) -> None:
    """Let members follow the group until nothing is left to do."""
    for _ in range(rounds):
        for member in members:
            member.let_go()
            member.hear(told(shell, member.next_beat()))
    assert group_of(shell).state is ConsumerGroupState.STABLE


def test_c50_a_reload_keeps_epochs_assignments_and_offsets_and_moves_nobody() -> None:
    shell, first, second = Shell(), Consumer("a", "orders"), Consumer("b", "orders")
    settled(shell, first, second)
    assert commit(shell, "a", first.epoch) is ErrorCode.NONE
    before, read = group_of(shell).as_values(), dict(first.reads)
    written = len(shell.log)

    shell.crash()
    for member in (first, second):
        assert told(shell, beat(member.member_id, member.epoch)).error is ErrorCode.NONE

    assert group_of(shell).as_values() == before
    assert len(shell.log) == written, "nothing has changed"
    assert (first.reads, committed(shell)) == (read, 7)


def test_c50_a_member_hears_of_its_partitions_when_that_is_durable_and_not_before() -> None:
    shell = Shell(is_slow=True)
    call = shell.send(join("a"))
    assert not call.is_answered
    shell.crash()
    assert "g" not in shell.shard.ledger.consumers
    call = shell.send(join("a"))
    shell.flush()
    assert numbers(call.reply(AssignmentReply).assignment) == list(range(8))


def test_c51_a_static_member_that_bounces_moves_nothing() -> None:
    shell, other = Shell(), Consumer("b", "orders")
    static = Consumer("a", "orders", instance_id="one")
    settled(shell, static, other)
    epoch, read = group_of(shell).epoch, numbers(static.reads)

    told(shell, beat("a", -2, instance_id="one"))
    shell.advance(30 * SECOND)
    told(shell, other.next_beat())
    back = told(shell, join("a2", instance_id="one"))

    assert (back.member_epoch, numbers(back.assignment)) == (epoch, read)
    assert group_of(shell).epoch == epoch
    assert told(shell, beat("b", epoch)).assignment is None


def test_c51_a_static_member_that_does_not_come_back_is_given_up_with_its_session() -> None:
    shell, other = Shell(), Consumer("b", "orders")
    settled(shell, Consumer("a", "orders", instance_id="one"), other)
    told(shell, beat("a", -2, instance_id="one"))
    for _ in range(16):
        shell.advance(3 * SECOND)
        other.hear(told(shell, other.next_beat()))
    assert list(group_of(shell).members) == ["b"]
    assert len(other.reads) == 8


def test_c51_a_second_one_under_a_name_in_use_is_refused_and_a_successor_fences_the_first() -> None:
    shell = Shell()
    told(shell, join("a", instance_id="one"))
    assert told(shell, join("b", instance_id="one")).error is ErrorCode.UNRELEASED_INSTANCE_ID
    told(shell, beat("a", -2, instance_id="one"))
    assert told(shell, join("b", instance_id="one")).error is ErrorCode.NONE
    assert told(shell, beat("a", 1, instance_id="one")).error is ErrorCode.FENCED_INSTANCE_ID
    assert told(shell, beat("a", -1, instance_id="one")).error is ErrorCode.FENCED_INSTANCE_ID
    assert commit(shell, "a", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    shell.crash()
    assert told(shell, beat("b", 1, instance_id="one")).error is ErrorCode.NONE


def test_c51_a_static_member_that_was_fenced_joins_again_under_its_own_id_at_once() -> None:
    shell = Shell()
    told(shell, join("a", instance_id="one"))
    assert told(shell, beat("a", 9, instance_id="one")).error is ErrorCode.FENCED_MEMBER_EPOCH
    back = told(shell, join("a", instance_id="one"))

    assert (back.error, back.member_epoch, numbers(back.assignment)) == (ErrorCode.NONE, 1, list(range(8)))


def test_c51_a_static_member_that_comes_back_finds_its_place_in_a_full_group() -> None:
    shell = Shell(GroupSettings(group_consumer_max_size=1))
    told(shell, join("a", instance_id="one"))
    told(shell, beat("a", -2, instance_id="one"))
    assert told(shell, join("b", instance_id="two")).error is ErrorCode.GROUP_MAX_SIZE_REACHED

    assert told(shell, join("a2", instance_id="one")).error is ErrorCode.NONE


@pytest.mark.parametrize("member_id", ["a", "a2"])
def test_c51_the_records_of_a_static_member_that_comes_back_are_those_that_kafka_writes(member_id: str) -> None:
    shell = Shell()
    told(shell, join("a", instance_id="one"))
    told(shell, beat("a", -2, instance_id="one"))
    before = group_of(shell).current_of("a")
    written = len(shell.records)
    told(shell, join(member_id, instance_id="one"))

    removed = [RecordKind.CURRENT_ASSIGNMENT, RecordKind.TARGET_ASSIGNMENT, RecordKind.MEMBER]
    member = group_of(shell).members[member_id]
    assert (member.member_id, member.instance_id) == (member_id, "one")
    assert shell.records[written:] == [
        *(ConsumerTombstone("g", kind, "a") for kind in removed),
        member,
        TargetAssignmentRecord("g", member_id, before.assigned),
        CurrentAssignmentRecord("g", member_id, 0, 0, assigned=before.assigned),
        CurrentAssignmentRecord("g", member_id, 1, 0, assigned=before.assigned),
    ]


def test_c52_a_zombie_of_an_old_epoch_is_refused_whatever_it_asks() -> None:
    shell, first, second = Shell(), Consumer("a", "orders"), Consumer("b", "orders")
    settled(shell, first)
    old = first.epoch
    settled(shell, first, second)

    assert first.epoch > old
    assert told(shell, beat("a", old)).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert told(shell, beat("a", first.epoch + 1)).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert commit(shell, "a", old) is ErrorCode.STALE_MEMBER_EPOCH
    asked = FetchOffsets("g", (TopicPartition("orders", 0),), member_id="a", member_epoch=old)
    assert shell.ask(asked, FetchReply).error is ErrorCode.STALE_MEMBER_EPOCH
    in_transaction = CommitTransactionOffsets("g", 1, 0, (OffsetToCommit("orders", 0, 1),), "a", old)
    assert shell.ask(in_transaction, CommitReply).partitions[0].error is ErrorCode.ILLEGAL_GENERATION


def test_c52_a_member_that_was_given_up_is_unknown_and_may_begin_anew() -> None:
    shell, other = Shell(), Consumer("b", "orders")
    settled(shell, Consumer("a", "orders"), other)
    for _ in range(16):
        shell.advance(3 * SECOND)
        other.hear(told(shell, other.next_beat()))
    assert told(shell, beat("a", 2)).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(shell, "a", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert told(shell, join("a")).error is ErrorCode.NONE


def test_c52_who_missed_an_answer_is_let_back_in_and_who_reads_what_it_should_not_is_fenced() -> None:
    shell, first = Shell(), Consumer("a", "orders")
    settled(shell, first)
    owned = tuple(first.reads)
    told(shell, beat("a", 1, topics=("orders", "payments")))
    again = told(shell, beat("a", 1, topics=("orders", "payments"), owned=owned))
    assert (again.error, again.member_epoch) == (ErrorCode.NONE, 2)
    foreign = (*owned, owned[0]._replace(partition=99))
    assert told(shell, beat("a", 1, owned=foreign)).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_c53_commits_for_what_a_member_is_letting_go_of_count_until_it_has() -> None:
    shell, first = Shell(), Consumer("a", "orders")
    settled(shell, first)
    told(shell, join("b"))
    first.hear(told(shell, first.next_beat()))
    current = group_of(shell).current_of("a")
    assert (current.state, current.epoch) == (MemberState.UNREVOKED, 1)
    assert commit(shell, "a", 1) is ErrorCode.NONE
    assert told(shell, beat("b", 2)).assignment is None, "nothing is free before it is let go of"

    first.let_go()
    first.hear(told(shell, first.next_beat()))
    assert commit(shell, "a", 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(shell, "a", 2) is ErrorCode.NONE
    assert numbers(told(shell, beat("b", 2)).assignment) == [4, 5, 6, 7]


def test_c53_a_member_whose_target_shrinks_while_it_lets_go_has_one_epoch_for_each_step() -> None:
    """So its commits for what it is to revoke next still count, and those of the step before do not."""
    shell, first = Shell(), Consumer("a", "orders")
    settled(shell, first)
    told(shell, join("b"))
    first.hear(told(shell, first.next_beat()))
    assert (first.epoch, numbers(first.told)) == (1, [0, 1, 2, 3])
    told(shell, join("c"))
    first.let_go()
    reply = told(shell, first.next_beat())

    assert (reply.member_epoch, group_of(shell).current_of("a").state) == (2, MemberState.UNREVOKED)
    assert (commit(shell, "a", 1), commit(shell, "a", 2)) == (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.NONE)


def test_c53_a_member_that_has_already_let_go_is_not_asked_to() -> None:
    shell, first = Shell(), Consumer("a", "orders")
    settled(shell, first)
    told(shell, join("b"))
    kept = tuple(first.reads)[:4]
    reply = told(shell, beat("a", 1, owned=kept))

    assert (reply.member_epoch, reply.assignment) == (2, kept)
    assert numbers(told(shell, beat("b", 2)).assignment) == [4, 5, 6, 7]


def test_c54_a_member_that_does_not_let_go_is_out_after_its_rebalance_timeout() -> None:
    shell, first = Shell(), Consumer("a", "orders")
    settled(shell, first)
    told(shell, join("b"))
    for _ in range(20):
        if "a" in group_of(shell).members:
            told(shell, beat("a", 1))
        told(shell, beat("b", group_of(shell).current_of("b").epoch))
        shell.advance(3 * SECOND + 1)
    assert list(group_of(shell).members) == ["b"]
    told(shell, beat("b", group_of(shell).current_of("b").epoch))
    assert len(group_of(shell).current_of("b").assigned) == 8


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_c54_a_crash_gives_nobody_who_lets_go_more_than_its_timeout_again(is_reloaded: bool) -> None:
    shell, first = Shell(), Consumer("a", "orders")
    settled(shell, first)
    told(shell, join("b"))
    told(shell, beat("a", 1))
    if is_reloaded:
        shell.crash()
    for _ in range(25):
        if "a" in group_of(shell).members:
            told(shell, beat("a", 1))
        shell.advance(3 * SECOND)
    assert "a" not in group_of(shell).members


def test_c54_when_all_members_die_at_once_the_offsets_stay_for_seven_days() -> None:
    shell = Shell()
    settled(shell, Consumer("a", "orders"), Consumer("b", "orders"))
    assert commit(shell, "a", 2) is ErrorCode.NONE
    shell.advance(60 * SECOND)
    assert group_of(shell).state is ConsumerGroupState.EMPTY
    shell.advance(6 * DAY)
    assert committed(shell) == 7
    shell.advance(2 * DAY)
    assert committed(shell) == -1
    assert "g" not in shell.shard.ledger.consumers
    assert shell.shard.ledger == shell.replayed()


@pytest.mark.long
def test_c55_a_thousand_members_join_and_nobody_gets_more_than_its_share() -> None:
    shell = Shell(GroupSettings(group_consumer_max_size=1_000))
    shell.topics.make("orders", 250)
    for number in range(1_000):
        assert told(shell, join(f"m{number:04}")).error is ErrorCode.NONE
    assert told(shell, join("one too many")).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    target = group_of(shell).targets
    assert sorted(len(target[f"m{number:04}"]) for number in range(1_000)) == [0] * 750 + [1] * 250


def test_c55_the_records_of_a_join_are_in_proportion_to_what_moves() -> None:
    shell, members = Shell(), [Consumer(f"m{number}", "orders") for number in range(8)]
    settled(shell, *members, rounds=10)
    before = len(shell.records)
    told(shell, beat("m0", members[0].epoch))
    assert len(shell.records) == before, "a heartbeat that changes nothing writes nothing"
    told(shell, join("m8"))
    kinds = [type(record).__name__ for record in shell.records[before:]]
    assert kinds.count("TargetAssignmentRecord") == 1, "eight have one each: the ninth gets nothing, and nobody moves"


def test_c56_unknown_topics_and_long_metadata_fail_alone_and_nobody_commits_in_between() -> None:
    shell = Shell()
    told(shell, join("a"))
    assert commit(shell, "a", 1, topic="missing") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(shell, "a", 1, metadata="x" * 4_097) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(shell, "a", 1, metadata="x" * 4_096) is ErrorCode.NONE
    assert commit(shell, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    told(shell, beat("a", -1))
    assert commit(shell, "", -1) is ErrorCode.NONE


def test_c56_offsets_in_a_transaction_count_with_its_end_whoever_the_group_belongs_to() -> None:
    shell = Shell()
    told(shell, join("a"))
    request = CommitTransactionOffsets("g", 5, 0, (OffsetToCommit("orders", 0, 9),), "a", 1)
    assert shell.ask(request, CommitReply).partitions[0].error is ErrorCode.NONE
    stable = FetchOffsets("g", (TopicPartition("orders", 0),), require_stable=True, member_id="a", member_epoch=1)
    assert shell.ask(stable, FetchReply).offsets[0].error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    shell.end_transaction(5, is_commit=True)
    shell.crash()
    assert committed(shell) == 9


def test_epochs_grow_with_members_subscriptions_and_topics_and_with_nothing_else() -> None:
    shell, member = Shell(), Consumer("a", "orders")
    settled(shell, member)

    def grown(change: object = None) -> int:
        before = group_of(shell).epoch
        told(shell, beat("a", group_of(shell).current_of("a").epoch, **(change or {})))  # type: ignore[arg-type]
        return group_of(shell).epoch - before

    assert grown() == 0
    assert grown({"rack_id": "r1"}) == 0
    assert grown({"topics": ("orders",)}) == 0
    assert grown({"topics": ("payments", "orders")}) == 1
    assert grown({"topics": ("orders", "payments")}) == 0
    shell.topics.make("unrelated", 3)
    assert grown() == 0
    shell.topics.make("orders", 9)
    assert grown() == 1
    shell.topics.delete("payments")
    assert grown() == 1
    shell.topics.make("payments", 8)
    assert grown() == 1, "a topic under an old name is another topic"


def test_the_epoch_grows_with_a_member_that_reads_nothing() -> None:
    shell = Shell()
    told(shell, join("a"))
    reply = told(shell, join("b", topics=()))

    assert (reply.member_epoch, reply.assignment, group_of(shell).epoch) == (2, (), 2)


def test_the_records_of_a_first_member_are_those_that_kafka_writes() -> None:
    shell = Shell()
    told(shell, join("a"))
    kinds = [type(record).__name__ for record in shell.records]
    assert kinds == [
        "ConsumerMemberRecord",
        "ConsumerGroupRecord",
        "TargetAssignmentRecord",
        "TargetEpochRecord",
        "CurrentAssignmentRecord",
    ]
    assert isinstance(shell.records[1], ConsumerGroupRecord)
    assert shell.records[1].epoch == 1
    assert isinstance(shell.records[4], CurrentAssignmentRecord)
    assert shell.records[4].state is MemberState.STABLE


def test_an_expression_stands_for_what_all_who_use_it_may_see() -> None:
    shell = Shell()
    shell.topics.make("secret", 1)

    def sees(*names: str) -> Callable[[str], bool]:
        return lambda topic: topic in names

    both, orders = sees("orders", "payments"), sees("orders")
    joining = join("a", expression=".*", visibility=both, topics=None)
    assert told(shell, joining).error is ErrorCode.NONE
    assert group_of(shell).expressions[".*"].topics == ("orders", "payments")

    assert told(shell, join("b", expression=".*", visibility=orders, topics=None)).error is ErrorCode.NONE
    assert group_of(shell).expressions[".*"].topics == ("orders",)

    # After a load nobody knows what a silent member may see: nothing is added for it.
    shell.crash()
    shell.topics.make("later", 1)
    epoch = group_of(shell).current_of("a").epoch
    told(shell, beat("a", epoch, visibility=sees("orders", "later")))
    assert group_of(shell).expressions[".*"].topics == ("orders",)
    told(shell, beat("b", group_of(shell).current_of("b").epoch, visibility=sees("orders", "later")))
    assert group_of(shell).expressions[".*"].topics == ("later", "orders")
