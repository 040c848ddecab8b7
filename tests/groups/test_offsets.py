"""Offsets: who may commit, fetch and delete them, transactions, and how they expire."""

from __future__ import annotations

from tests.groups import consumers
from tests.groups.shell import DAY, SECOND, Shell, subscription

from qanat.groups.classic.states import GroupState
from qanat.groups.committing import OFFSETS_AT_ONCE
from qanat.groups.records import GroupTombstone, OffsetTombstone
from qanat.groups.replies import (
    AssignmentReply,
    CommitReply,
    DeleteGroupReply,
    DeleteOffsetsReply,
    FetchReply,
    JoinReply,
)
from qanat.groups.requests import (
    CommitOffsets,
    CommitTransactionOffsets,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    FetchOffsets,
    OffsetToCommit,
    Protocol,
)
from qanat.groups.settings import GroupSettings
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import KEPT_OFFSET, TopicPartition

ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("payments", 0)
QUIET = GroupSettings(group_initial_rebalance_delay_ms=0, group_max_session_timeout_ms=20 * DAY)


def commit(shell: Shell, partition: TopicPartition, offset: int, *, retention_ms: int = -1) -> ErrorCode:
    offsets = (OffsetToCommit(partition.topic, partition.partition, offset),)
    reply = shell.ask(CommitOffsets("g", offsets, retention_ms=retention_ms), CommitReply)
    return reply.partitions[0].error


def commit_as(shell: Shell, member_id: str, epoch: int, *partitions: TopicPartition) -> ErrorCode:
    """Commit offset 1 in each partition as a member of the generation, or of the epoch."""
    offsets = tuple(OffsetToCommit(at.topic, at.partition, 1) for at in partitions)
    reply = shell.ask(CommitOffsets("g", offsets, member_id, epoch), CommitReply)
    assert len({one.error for one in reply.partitions}) == 1, reply
    return reply.partitions[0].error


def commit_in_transaction(
    shell: Shell, partition: TopicPartition, offset: int, *, member_id: str = "", generation_id: int = -1
) -> ErrorCode:
    offsets = (OffsetToCommit(partition.topic, partition.partition, offset),)
    request = CommitTransactionOffsets("g", 7, 0, offsets, member_id, generation_id)
    return shell.ask(request, CommitReply).partitions[0].error


def fetch(shell: Shell, partition: TopicPartition, *, require_stable: bool = False) -> tuple[int, ErrorCode]:
    reply = shell.ask(FetchOffsets("g", (partition,), require_stable), FetchReply)
    return reply.offsets[0].offset, reply.offsets[0].error


def reader(shell: Shell, *topics: str) -> JoinReply:
    """A stable group with one member that reads these topics and never times out."""
    call = shell.join(protocols=(Protocol("range", subscription(*topics)),), session_timeout_ms=20 * DAY)
    shell.advance(0)
    member = call.reply(JoinReply)
    shell.sync_all([member])
    return member


def test_partitions_without_an_offset_are_at_minus_one_and_all_means_those_with_one() -> None:
    shell = Shell()
    commit(shell, ORDERS, 5)
    assert fetch(shell, PAYMENTS) == (-1, ErrorCode.NONE)
    reply = shell.ask(FetchOffsets("g"), FetchReply)
    assert [(one.topic, one.offset) for one in reply.offsets] == [("orders", 5)]
    assert shell.ask(FetchOffsets("unknown"), FetchReply) == FetchReply("unknown")


def test_a_generation_of_an_unknown_group_is_refused_in_words_that_the_client_knows() -> None:
    shell = Shell()
    offsets = (OffsetToCommit("orders", 0, 1),)
    new = shell.ask(CommitOffsets("g", offsets, "m", 3), CommitReply)
    old = shell.ask(CommitOffsets("g", offsets, "m", 3, knows_group_id_not_found=False), CommitReply)
    assert new.partitions[0].error is ErrorCode.GROUP_ID_NOT_FOUND
    assert old.partitions[0].error is ErrorCode.ILLEGAL_GENERATION


def test_a_commit_is_as_good_as_a_heartbeat() -> None:
    shell = Shell()
    (member,) = shell.stable()
    for _ in range(5):
        shell.advance(8 * SECOND)
        assert commit_as(shell, member.member_id, 1, ORDERS) is ErrorCode.NONE
    assert shell.shard.groups["g"].state is GroupState.STABLE


def test_offsets_of_topics_that_are_read_cannot_be_deleted() -> None:
    shell = Shell(QUIET)
    commit(shell, ORDERS, 1)
    commit(shell, PAYMENTS, 1)
    reader(shell, "orders")
    reply = shell.ask(DeleteOffsets("g", (ORDERS, PAYMENTS, TopicPartition("payments", 5))), DeleteOffsetsReply)
    none = ErrorCode.NONE
    assert [one.error for one in reply.partitions] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, none, none]
    assert shell.records[-1] == OffsetTombstone("g", "payments", 0)
    assert (fetch(shell, ORDERS)[0], fetch(shell, PAYMENTS)[0]) == (1, -1)


def test_groups_that_are_no_consumers_must_be_empty_for_their_offsets_to_be_deleted() -> None:
    shell = Shell()
    shell.join(protocol_type="connect")
    reply = shell.ask(DeleteOffsets("g", (ORDERS,)), DeleteOffsetsReply)
    assert reply.error is ErrorCode.NON_EMPTY_GROUP


def test_only_an_empty_group_is_deleted_and_its_offsets_with_it() -> None:
    shell = Shell(QUIET)
    commit(shell, ORDERS, 1)
    member = reader(shell, "orders")
    assert shell.ask(DeleteGroup("g"), DeleteGroupReply).error is ErrorCode.NON_EMPTY_GROUP
    shell.advance(20 * DAY)
    assert member.member_id not in shell.shard.groups["g"].members
    assert shell.ask(DeleteGroup("g"), DeleteGroupReply).error is ErrorCode.NONE
    assert shell.records[-2:] == [OffsetTombstone("g", "orders", 0), GroupTombstone("g")]
    shell.crash()
    assert shell.shard.groups == {}


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    shell = Shell()
    commit(shell, ORDERS, 1)
    commit(shell, PAYMENTS, 2)
    deleted_ms = shell.now.wall_ms
    shell._append(None, shell.shard.forget_deleted("g", [ORDERS], deleted_ms, shell.now))
    assert fetch(shell, ORDERS)[0] == -1
    shell.advance(1)
    commit(shell, ORDERS, 3)
    shell._append(None, shell.shard.forget_deleted("g", [ORDERS], deleted_ms, shell.now))
    assert fetch(shell, ORDERS)[0] == 3, "it was committed in another topic under the same name"
    assert fetch(shell, PAYMENTS)[0] == 2


def test_offsets_of_a_group_that_never_had_members_age_from_their_commit() -> None:
    shell = Shell()
    commit(shell, ORDERS, 1)
    shell.advance(6 * DAY)
    commit(shell, PAYMENTS, 1)
    shell.advance(2 * DAY)
    assert (fetch(shell, ORDERS)[0], fetch(shell, PAYMENTS)[0]) == (-1, 1)


def test_an_offset_is_kept_to_the_end_of_its_retention_and_not_longer() -> None:
    shell = Shell(GroupSettings(offsets_retention_check_interval_ms=10 * SECOND, offsets_retention_minutes=1))
    commit(shell, ORDERS, 1)
    commit(shell, PAYMENTS, 1, retention_ms=40 * SECOND)
    kept = []
    for _ in range(6):
        shell.advance(10 * SECOND)
        kept.append((fetch(shell, ORDERS)[0], fetch(shell, PAYMENTS)[0]))

    assert kept == [(1, 1)] * 3 + [(1, -1)] * 2 + [(-1, -1)]


def test_offsets_of_consumers_age_only_where_the_topic_is_not_read_any_more() -> None:
    shell = Shell(QUIET)
    commit(shell, ORDERS, 1)
    commit(shell, PAYMENTS, 1)
    reader(shell, "orders")
    shell.advance(8 * DAY)
    assert (fetch(shell, ORDERS)[0], fetch(shell, PAYMENTS)[0]) == (1, -1)


def test_offsets_do_not_age_during_a_rebalance() -> None:
    """A member that is about to join may read any topic."""
    shell = Shell(QUIET)
    commit(shell, PAYMENTS, 1)
    reader(shell, "orders")
    shell.advance(7 * DAY - 60 * SECOND)
    coming = shell.join(protocols=(Protocol("range", subscription("payments")),), session_timeout_ms=20 * DAY)
    shell.advance(60 * SECOND - 1)
    assert not coming.is_answered, "it waits for the other member"
    shell.advance(1)

    assert fetch(shell, PAYMENTS)[0] == 1


def test_offsets_of_the_new_protocol_age_only_where_the_topic_is_not_read_any_more() -> None:
    shell = Shell()
    shell.client_sessions_ms["c"] = 20 * DAY
    shell.ask(consumers.join("a", "orders"), AssignmentReply)
    assert commit_as(shell, "a", 1, ORDERS, PAYMENTS) is ErrorCode.NONE
    shell.advance(8 * DAY)

    assert (fetch(shell, ORDERS)[0], fetch(shell, PAYMENTS)[0]) == (1, -1)


def test_offsets_do_not_age_where_nobody_knows_what_is_read() -> None:
    shell = Shell(QUIET)
    commit(shell, ORDERS, 1)
    call = shell.join(protocols=(Protocol("range", b"?"),), session_timeout_ms=20 * DAY)
    shell.advance(0)
    shell.sync_all([call.reply(JoinReply)])
    shell.advance(8 * DAY)
    assert fetch(shell, ORDERS)[0] == 1


def test_an_offset_committed_to_an_empty_group_ages_from_its_commit() -> None:
    shell = Shell()
    (member,) = shell.stable()
    assert commit_as(shell, member.member_id, 1, ORDERS) is ErrorCode.NONE
    shell.advance(6 * DAY)
    commit(shell, PAYMENTS, 1)
    shell.advance(2 * DAY)
    assert (fetch(shell, ORDERS)[0], fetch(shell, PAYMENTS)[0]) == (-1, 1)


def test_an_offset_that_is_to_be_kept_outlives_all_others_and_goes_with_its_group() -> None:
    shell = Shell()
    kept = OffsetToCommit("orders", 0, 17, metadata=KEPT_OFFSET)
    shell.ask(CommitTransactionOffsets("g", 7, 0, (kept,)), CommitReply)
    shell.end_transaction(7, is_commit=True)
    commit(shell, PAYMENTS, 1)
    shell.advance(8 * DAY)
    assert (fetch(shell, ORDERS)[0], fetch(shell, PAYMENTS)[0]) == (17, -1)
    shell.crash()
    shell.advance(800 * DAY)
    assert fetch(shell, ORDERS)[0] == 17
    assert shell.ask(DeleteGroup("g"), DeleteGroupReply).error is ErrorCode.NONE
    assert fetch(shell, ORDERS)[0] == -1


def test_old_clients_choose_the_retention_themselves() -> None:
    shell = Shell()
    commit(shell, ORDERS, 1, retention_ms=DAY)
    shell.advance(DAY - 60 * SECOND)
    assert fetch(shell, ORDERS)[0] == 1
    shell.crash()
    shell.advance(20 * 60 * SECOND)
    assert fetch(shell, ORDERS)[0] == -1


def test_offsets_in_a_transaction_count_when_it_commits() -> None:
    shell = Shell()
    commit(shell, ORDERS, 1)
    assert commit_in_transaction(shell, ORDERS, 2) is ErrorCode.NONE
    assert fetch(shell, ORDERS) == (1, ErrorCode.NONE)
    assert fetch(shell, ORDERS, require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    shell.crash()
    assert fetch(shell, ORDERS, require_stable=True)[1] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    shell.end_transaction(7, is_commit=True)
    assert fetch(shell, ORDERS, require_stable=True) == (2, ErrorCode.NONE)
    shell.crash()
    assert fetch(shell, ORDERS) == (2, ErrorCode.NONE)


def test_offsets_in_an_aborted_transaction_are_forgotten() -> None:
    shell = Shell()
    commit_in_transaction(shell, ORDERS, 2)
    shell.end_transaction(7, is_commit=False)
    assert fetch(shell, ORDERS, require_stable=True) == (-1, ErrorCode.NONE)


def test_of_a_plain_commit_and_one_in_a_transaction_the_later_record_counts() -> None:
    shell = Shell()
    commit_in_transaction(shell, ORDERS, 2)
    commit(shell, ORDERS, 3)
    shell.end_transaction(7, is_commit=True)
    assert fetch(shell, ORDERS) == (3, ErrorCode.NONE)


def test_an_open_transaction_keeps_its_group_and_a_deleted_group_stays_deleted_when_it_ends() -> None:
    shell = Shell()
    commit_in_transaction(shell, ORDERS, 2)
    shell.advance(8 * DAY)
    assert "g" in shell.shard.groups
    shell.ask(DeleteGroup("g"), DeleteGroupReply)
    shell.end_transaction(7, is_commit=True)
    assert fetch(shell, ORDERS)[0] == -1
    assert shell.shard.groups == {}


def test_an_open_transaction_keeps_the_offset_that_it_may_replace() -> None:
    shell = Shell()
    commit(shell, ORDERS, 1)
    assert commit_in_transaction(shell, ORDERS, 2) is ErrorCode.NONE
    shell.advance(8 * DAY)
    shell.end_transaction(7, is_commit=True)

    assert fetch(shell, ORDERS)[0] == 2


def test_an_open_transaction_of_a_group_of_the_new_protocol_keeps_the_offset_that_it_may_replace() -> None:
    shell = Shell()
    shell.client_sessions_ms["c"] = 20 * DAY
    shell.ask(consumers.join("a", "orders"), AssignmentReply)
    assert commit_as(shell, "a", 1, PAYMENTS) is ErrorCode.NONE
    assert commit_in_transaction(shell, PAYMENTS, 2, member_id="a", generation_id=1) is ErrorCode.NONE
    shell.advance(8 * DAY)
    shell.end_transaction(7, is_commit=True)

    assert fetch(shell, PAYMENTS)[0] == 2


def test_a_deleted_topic_takes_the_offsets_of_open_transactions_along() -> None:
    shell = Shell()
    assert commit_in_transaction(shell, ORDERS, 2) is ErrorCode.NONE
    shell._append(None, shell.shard.forget_deleted("g", [ORDERS], shell.now.wall_ms, shell.now))
    shell.end_transaction(7, is_commit=True)

    assert fetch(shell, ORDERS)[0] == -1


def test_c40_a_transaction_of_a_stale_generation_or_member_is_refused() -> None:
    shell = Shell()
    (member,) = shell.stable()
    assert commit_in_transaction(shell, ORDERS, 1, member_id=member.member_id, generation_id=1) is ErrorCode.NONE
    stale = commit_in_transaction(shell, ORDERS, 1, member_id=member.member_id, generation_id=0)
    assert stale is ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(shell, ORDERS, 1, member_id="m", generation_id=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(shell, ORDERS, 1) is ErrorCode.NONE, "producers before KIP-447 name no member"


def test_a_group_without_members_or_offsets_goes_at_the_next_look() -> None:
    shell = Shell()
    shell.stable()
    shell.advance(20 * 60 * SECOND)
    assert shell.shard.groups == {}
    assert shell.records[-1] == GroupTombstone("g")


def test_a_group_with_members_stays_without_offsets() -> None:
    shell = Shell(QUIET)
    shell.client_sessions_ms["c"] = 20 * DAY
    member = reader(shell, "orders")
    shell.ask(
        ConsumerHeartbeat("new", "a", 0, "u", None, None, SECOND, ("orders",), owned=(), client_id="c"), AssignmentReply
    )
    shell.advance(DAY)

    assert list(shell.shard.groups["g"].members) == [member.member_id]
    assert list(shell.shard.ledger.consumers["new"].members) == ["a"]


def test_a_group_stays_for_a_member_that_has_its_id_and_has_not_come_back_with_it() -> None:
    shell = Shell(QUIET)
    named = shell.join(needs_member_id=True, session_timeout_ms=DAY).reply(JoinReply)
    assert named.error is ErrorCode.MEMBER_ID_REQUIRED
    shell.advance(20 * 60 * SECOND)
    call = shell.join(named.member_id, needs_member_id=True)
    shell.advance(0)

    assert call.reply(JoinReply).error is ErrorCode.NONE


def test_offsets_of_consumers_with_an_unreadable_subscription_are_not_deleted() -> None:
    shell = Shell()
    commit(shell, ORDERS, 5)
    call = shell.join(protocols=(Protocol("range", b"rubbish"),))
    shell.advance(0)
    shell.sync_all([call.reply(JoinReply)])
    reply = shell.ask(DeleteOffsets("g", (ORDERS,)), DeleteOffsetsReply)

    assert [one.error for one in reply.partitions] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert fetch(shell, ORDERS) == (5, ErrorCode.NONE)


def test_offsets_of_the_new_protocol_are_deleted_where_no_member_reads_the_topic() -> None:
    shell = Shell()
    for member_id, topic in (("a", "orders"), ("b", "invoices")):
        shell.send(consumers.join(member_id, topic))
    assert commit_as(shell, "b", 2, ORDERS, PAYMENTS) is ErrorCode.NONE
    reply = shell.ask(DeleteOffsets("g", (ORDERS, PAYMENTS)), DeleteOffsetsReply)

    assert [one.error for one in reply.partitions] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert (fetch(shell, ORDERS)[0], fetch(shell, PAYMENTS)[0]) == (1, -1)


def test_offsets_of_a_topic_that_is_not_there_are_not_deleted_by_request() -> None:
    """As in Kafka: a metadata image that lags behind does not lead to a tombstone."""
    shell = Shell()
    commit(shell, ORDERS, 5)
    shell.topics.delete("orders")
    written = len(shell.log)
    reply = shell.ask(DeleteOffsets("g", (ORDERS, TopicPartition("payments", 8))), DeleteOffsetsReply)

    assert [one.error for one in reply.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert (len(shell.log), fetch(shell, ORDERS)[0]) == (written, 5)


def test_the_offsets_of_all_groups_are_counted() -> None:
    shell = Shell()
    for group_id, partitions in (("g", (ORDERS, PAYMENTS)), ("h", (ORDERS,))):
        offsets = tuple(OffsetToCommit(at.topic, at.partition, 5) for at in partitions)
        shell.ask(CommitOffsets(group_id, offsets), CommitReply)

    assert shell.shard.ledger.offsets.count == 3


def test_a_fetch_of_very_many_offsets_names_them_first() -> None:
    """The caller then asks for them piece by piece, so that others have their turn."""
    shell = Shell()
    partitions = [TopicPartition("orders", number) for number in range(OFFSETS_AT_ONCE + 1)]
    shell.topics.make("orders", len(partitions))
    for some in (partitions[:-1], partitions[-1:]):
        offsets = tuple(OffsetToCommit(at.topic, at.partition, 5) for at in some)
        shell.ask(CommitOffsets("g", offsets), CommitReply)
        reply = shell.ask(FetchOffsets("g"), FetchReply)
        if len(some) > 1:
            assert (len(reply.offsets), len(reply.unread)) == (OFFSETS_AT_ONCE, 0)

    assert reply == FetchReply("g", unread=tuple(partitions))
