"""The checklist's corner cases of idempotence and transactions, C30 to C42, by number.

What a partition's log does by itself is tested in `tests/log` at length; here it is once for each number. C43, the
copy under kill -9, is in `tests/exactly_once`.
"""

from __future__ import annotations

import pytest
from tests.groups.shell import Shell as GroupShell
from tests.log.batches import (
    LIMIT,
    NOW,
    Writer,
    append,
    batch,
    compact,
    new_log,
    pairs_of,
    reopened,
    replicate,
    stored,
)
from tests.transactions.shell import MINUTE, SECOND, A, B, Shell, Written, at_epoch, who

from qanat.groups.replies import CommitReply, FetchReply
from qanat.groups.requests import CommitTransactionOffsets, FetchOffsets, OffsetToCommit
from qanat.log.producer_snapshots import decode_snapshot
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import CoordinatorFencedError, InvalidProducerEpochError, OutOfOrderSequenceError
from qanat.model.ids import TopicPartition
from qanat.transactions.decisions import Markers
from qanat.transactions.record_codec import decode_record, encode_record
from qanat.transactions.records import EPOCH_PER_TRANSACTION, LAST_EPOCH, TransactionRecord, TransactionTombstone
from qanat.transactions.replies import DescribeReply, ListReply, ProducerReply
from qanat.transactions.requests import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ListTransactions,
)
from qanat.transactions.settings import TransactionSettings
from qanat.transactions.states import TransactionState

NEW = EPOCH_PER_TRANSACTION
DAY = 24 * 60 * MINUTE


# C30 to C33: the partition's side


def test_c30_a_retry_of_one_of_the_last_five_batches_gets_its_offset_also_after_a_crash() -> None:
    log = new_log()
    for sequence in range(8):
        append(log, batch(writer=Writer(7, 0, sequence)))
    for one in (log, reopened(log)):
        for sequence in range(3, 8):
            appended = append(one, batch(writer=Writer(7, 0, sequence)))
            assert (appended.base_offset, appended.is_duplicate) == (sequence, True)
        with pytest.raises(OutOfOrderSequenceError):
            append(one, batch(writer=Writer(7, 0, 2)))
        assert one.end_offset == 8


def test_c31_sequences_wrap_also_inside_a_batch() -> None:
    log = new_log()
    append(log, batch(2, writer=Writer(8, 0, 2**31 - 2)))
    append(log, batch(3, writer=Writer(8, 0, 0)))
    append(log, batch(4, writer=Writer(9, 0, 2**31 - 2)))
    assert append(log, batch(writer=Writer(9, 0, 2))).is_duplicate is False


@pytest.mark.parametrize("content", [b"", b"\0", b"\0" * 40, b"\xff" * 200])
def test_c32_a_snapshot_that_is_none_is_not_believed(content: bytes) -> None:
    assert decode_snapshot(content) is None


def test_c32_a_producer_with_an_open_transaction_never_expires_and_one_that_did_is_taken_again() -> None:
    log = new_log()
    append(log, batch(writer=Writer(7, 0, 0), is_transactional=True))
    append(log, batch(writer=Writer(8, 0, 0)))
    assert log.producers.expire(NOW + 100 * DAY, DAY) == 1
    append(log, batch(writer=Writer(8, 0, 5)))
    assert log.producers.is_open(7, 0)


def test_c33_sequence_0_of_a_fenced_producer_is_refused() -> None:
    log = new_log()
    append(log, batch(writer=Writer(7, 1, 0)))
    with pytest.raises(InvalidProducerEpochError):
        append(log, batch(writer=Writer(7, 0, 0)))


def test_c33_a_producer_that_lost_its_state_goes_on_with_the_next_epoch() -> None:
    shell = Shell()
    first = shell.begin()
    again = who(shell.init(first))
    assert again == (first.producer_id, first.producer_epoch + 1)
    assert shell.init(first) == ProducerReply(ErrorCode.NONE, *again), "a retry, whose answer got lost"
    assert shell.add(first, A) is ErrorCode.PRODUCER_FENCED


# C34: who a producer is


def test_c34_the_second_of_two_instances_fences_the_first() -> None:
    shell = Shell()
    first, second = shell.begin(), shell.begin()
    assert second == (first.producer_id, first.producer_epoch + 1)
    assert shell.add(first, A) is ErrorCode.PRODUCER_FENCED
    assert shell.end(first).error is ErrorCode.PRODUCER_FENCED
    assert shell.init(first).error is ErrorCode.PRODUCER_FENCED
    assert shell.add(second, A) is ErrorCode.NONE


def test_c34_a_new_instance_aborts_what_the_old_one_left_open() -> None:
    shell = Shell()
    first = shell.begin()
    assert shell.add(first, A) is ErrorCode.NONE
    assert shell.produce(first, A, 0, "x") is ErrorCode.NONE
    assert shell.init() == ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)
    second = shell.begin()
    assert second.producer_epoch == first.producer_epoch + 2
    assert shell.partition(A).aborted == ["x"]
    assert shell.produce(first, A, 1, "y") is ErrorCode.PRODUCER_FENCED


def test_c34_a_stale_instance_that_says_who_it_was_does_not_abort_its_successors_transaction() -> None:
    shell = Shell()
    first, second = shell.begin(), shell.begin()
    assert shell.add(second, A) is ErrorCode.NONE
    assert shell.init(first).error is ErrorCode.PRODUCER_FENCED
    assert shell.record().state is TransactionState.ONGOING


def test_c34_used_up_epochs_lead_to_a_new_producer_id_and_its_retry_to_the_same() -> None:
    shell = Shell()
    last = at_epoch(shell, LAST_EPOCH - 1)
    fresh = who(shell.init(last))
    assert fresh.producer_id != last.producer_id
    assert fresh.producer_epoch == 0
    assert shell.init(last) == ProducerReply(ErrorCode.NONE, *fresh)
    shell.load()
    assert shell.init(last).error is ErrorCode.PRODUCER_FENCED, "what a crash forgets is refused, never guessed"


def test_c34_fencing_the_last_epoch_ends_in_a_new_producer_id() -> None:
    shell = Shell()
    last = at_epoch(shell, LAST_EPOCH - 1)
    assert shell.add(last, A) is ErrorCode.NONE
    fresh = shell.begin()
    assert shell.partition(A).markers == [Written(last.producer_id, LAST_EPOCH, False)]
    assert (fresh.producer_id != last.producer_id, fresh.producer_epoch) == (True, 0)


def test_c34_a_timeout_aborts_and_fences() -> None:
    shell = Shell()
    first = shell.begin()
    assert shell.add(first, A) is ErrorCode.NONE
    assert shell.produce(first, A, 0, "x") is ErrorCode.NONE
    shell.advance(MINUTE - 1)
    assert shell.record().state is TransactionState.ONGOING
    shell.advance(1)
    assert shell.record().state is TransactionState.COMPLETE_ABORT
    assert shell.partition(A).aborted == ["x"]
    for version in (0, NEW):
        for is_commit in (True, False):
            assert shell.end(first, is_commit=is_commit, version=version).error is ErrorCode.PRODUCER_FENCED
    assert shell.produce(first, A, 1, "y") is ErrorCode.PRODUCER_FENCED


def test_c34_a_timeout_may_not_be_longer_than_allowed() -> None:
    shell = Shell(TransactionSettings(transaction_max_timeout_ms=MINUTE))
    for timeout_ms in (0, -1, MINUTE + 1):
        assert shell.init(timeout_ms=timeout_ms).error is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert shell.init(timeout_ms=MINUTE).error is ErrorCode.NONE


# C35, C36: late requests


def test_c35_a_write_to_a_partition_that_was_not_added_is_refused() -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.produce(one, A, 0, "x") is ErrorCode.TRANSACTION_ABORTABLE
    assert shell.add(one, A) is ErrorCode.NONE
    assert shell.produce(one, B, 0, "x") is ErrorCode.TRANSACTION_ABORTABLE
    assert shell.produce(one, A, 0, "x") is ErrorCode.NONE


def test_c35_a_late_write_after_the_abort_is_refused() -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.add(one, A) is ErrorCode.NONE
    assert shell.end(one, is_commit=False).error is ErrorCode.NONE
    assert shell.produce(one, A, 0, "late") is ErrorCode.TRANSACTION_ABORTABLE
    assert shell.partition(A).open == {}


def test_c35_version_2_a_late_write_of_transaction_n_is_not_taken_into_n_plus_1() -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.produce(one, A, 0, "x", version=NEW) is ErrorCode.NONE
    two = who(shell.end_2(one))
    assert two == (one.producer_id, one.producer_epoch + 1)
    assert shell.produce(two, A, 0, "y", version=NEW) is ErrorCode.NONE
    assert shell.produce(one, A, 1, "late", version=NEW) is ErrorCode.PRODUCER_FENCED
    with pytest.raises(InvalidProducerEpochError):
        shell.partition(A).write(one, 1, "late")


def test_c35_version_2_a_late_end_of_transaction_n_does_not_touch_n_plus_1() -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.produce(one, A, 0, "x", version=NEW) is ErrorCode.NONE
    two = who(shell.end_2(one))
    assert shell.produce(two, A, 0, "y", version=NEW) is ErrorCode.NONE
    for is_commit in (True, False):
        assert shell.end_2(one, is_commit=is_commit).error is ErrorCode.PRODUCER_FENCED
    assert shell.record().state is TransactionState.ONGOING


@pytest.mark.parametrize("is_commit", [True, False])
def test_c35_version_2_a_retry_with_the_same_verdict_is_accepted_and_with_the_other_refused(is_commit: bool) -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.produce(one, A, 0, "x", version=NEW) is ErrorCode.NONE
    ended = shell.end_2(one, is_commit=is_commit)
    assert shell.end_2(one, is_commit=is_commit) == ended
    assert shell.end_2(one, is_commit=not is_commit).error is ErrorCode.INVALID_TXN_STATE
    shell.load()
    assert shell.end_2(one, is_commit=is_commit) == ended
    assert len(shell.partition(A).markers) == 1


def test_c35_version_2_a_retry_while_the_markers_are_written_waits() -> None:
    shell = Shell(is_slow=True)
    shell.is_slow = False
    one = shell.begin()
    assert shell.produce(one, A, 0, "x", version=NEW) is ErrorCode.NONE
    shell.is_slow = True
    first = shell.send(EndTransaction("t", *one, True, NEW))
    retry = shell.send(EndTransaction("t", *one, True, NEW))
    other = shell.send(EndTransaction("t", *one, False, NEW))
    add = shell.send(AddPartitions("t", one.producer_id, one.producer_epoch + 1, (A,), NEW))
    shell.flush()
    assert first.reply(ProducerReply).error is ErrorCode.NONE
    assert retry.reply(ProducerReply).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert other.reply(ProducerReply).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert add.replies[0].error is ErrorCode.CONCURRENT_TRANSACTIONS  # type: ignore[union-attr]


def test_c35_version_2_the_end_of_the_last_epoch_leads_to_a_new_producer_id() -> None:
    shell = Shell()
    last = at_epoch(shell, LAST_EPOCH - 1)
    assert shell.produce(last, A, 0, "x", version=NEW) is ErrorCode.NONE
    ended = shell.end_2(last)
    fresh = who(ended)
    assert (fresh.producer_id != last.producer_id, fresh.producer_epoch) == (True, 0)
    assert shell.partition(A).markers == [Written(last.producer_id, LAST_EPOCH, True)]
    assert shell.end_2(last) == ended, "a retry"
    assert shell.end_2(last, is_commit=False).error is ErrorCode.INVALID_TXN_STATE
    assert shell.produce(fresh, A, 0, "y", version=NEW) is ErrorCode.NONE


def test_c35_version_2_what_was_never_begun_can_be_aborted_but_not_committed() -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.end_2(one).error is ErrorCode.INVALID_TXN_STATE
    two = who(shell.end_2(one, is_commit=False))
    assert two.producer_epoch == one.producer_epoch + 1
    three = who(shell.end_2(two, is_commit=False))
    assert three.producer_epoch == two.producer_epoch + 1
    assert shell.end_2(three).error is ErrorCode.INVALID_TXN_STATE


def test_c35_classic_verdicts_are_answered_again_and_never_changed() -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.end(one).error is ErrorCode.INVALID_TXN_STATE
    assert shell.add(one, A) is ErrorCode.NONE
    assert shell.end(one) == ProducerReply(ErrorCode.NONE, *one)
    assert shell.end(one) == ProducerReply(ErrorCode.NONE, *one)
    assert shell.end(one, is_commit=False).error is ErrorCode.INVALID_TXN_STATE


def test_c36_a_marker_with_the_epoch_of_the_open_transaction_is_an_old_one_in_version_2() -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.produce(one, A, 0, "x", version=NEW) is ErrorCode.NONE
    two = who(shell.end_2(one))
    assert shell.produce(two, A, 0, "y", version=NEW) is ErrorCode.NONE
    late = Markers("t", two.producer_id, two.producer_epoch, False, NEW, (A,))
    with pytest.raises(InvalidProducerEpochError):
        shell.partition(A).mark(late, 0)
    assert shell.partition(A).open == {two.producer_id: ["y"]}


def test_c36_the_same_marker_once_more_is_written_once() -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.produce(one, A, 0, "x", version=NEW) is ErrorCode.NONE
    two = who(shell.end_2(one))
    for coordinator_epoch in (0, 1):
        shell.partition(A).mark(Markers("t", *two, True, NEW, (A,)), coordinator_epoch)
    assert shell.partition(A).markers == [Written(*two, True)]


# C37, C38: nothing stays open


def test_c37_an_abandoned_transaction_is_seen_and_ends_with_its_timeout_whatever_dies() -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.add(one, A) is ErrorCode.NONE
    assert shell.produce(one, A, 0, "x") is ErrorCode.NONE
    shell.advance(20 * SECOND)
    listed = shell.ask(ListTransactions(("Ongoing",), frozenset(), 10 * SECOND), ListReply).records
    assert [record.transactional_id for record in listed] == ["t"]
    assert shell.ask(ListTransactions(("Ongoing",), frozenset(), 20 * SECOND), ListReply).records == ()
    shell.load(is_failover=True)
    shell.advance(40 * SECOND)
    assert shell.partition(A).aborted == ["x"]
    assert shell.partition(A).producers.first_unstable_offset(99) is None


def test_c37_a_clock_that_jumps_neither_ends_a_transaction_early_nor_keeps_it_for_ever() -> None:
    for jump_ms in (-DAY, DAY):
        shell = Shell()
        assert shell.add(shell.begin(), A) is ErrorCode.NONE
        shell.wall_ms += jump_ms
        shell.advance(MINUTE - 1)
        assert shell.record().state is TransactionState.ONGOING
        shell.wall_ms -= 2 * jump_ms
        shell.load()
        shell.advance(MINUTE)
        assert shell.record().state is TransactionState.COMPLETE_ABORT


def test_c37_an_operator_aborts_by_beginning_anew() -> None:
    shell = Shell()
    assert shell.add(shell.begin(), A, B) is ErrorCode.NONE
    shell.begin()
    assert [shell.partition(at).markers[-1].is_commit for at in (A, B)] == [False, False]


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", [0, NEW])
@pytest.mark.parametrize("written", [0, 1, 2])
@pytest.mark.parametrize("is_failover", [False, True])
def test_c38_a_new_coordinator_finishes_with_the_same_verdict(
    is_commit: bool, version: int, written: int, is_failover: bool
) -> None:
    """Whether it died before the first marker, between two, or after the last one."""
    shell = Shell()
    one = shell.begin()
    for at in (A, B):
        assert shell.add(one, at, version=version) is ErrorCode.NONE
        assert shell.produce(one, at, 0, f"{at}", version=version) is ErrorCode.NONE
    shell.is_slow = True
    shell.send(EndTransaction("t", *one, is_commit, version))
    shell.flush()
    for _ in range(written):
        shell.write_marker()
    shell.is_slow = False
    shell.load(is_failover=is_failover)
    assert shell.record().state is (TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT)
    for at in (A, B):
        partition = shell.partition(at)
        assert (partition.committed, partition.aborted) == (([f"{at}"], []) if is_commit else ([], [f"{at}"]))
        assert {one.is_commit for one in partition.markers} == {is_commit}


def test_c38_a_verdict_that_was_not_durable_was_seen_nowhere_and_may_be_another() -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.add(one, A) is ErrorCode.NONE
    shell.is_slow = True
    lost = shell.send(EndTransaction("t", *one, True))
    assert shell.markers == []
    assert not lost.is_answered
    shell.is_slow = False
    shell.load()
    assert shell.record().state is TransactionState.ONGOING
    assert shell.end(one, is_commit=False).error is ErrorCode.NONE


def test_c38_an_open_transaction_survives_the_coordinator() -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.add(one, A) is ErrorCode.NONE
    shell.load(is_failover=True)
    assert shell.add(one, B) is ErrorCode.NONE
    assert shell.end(one).error is ErrorCode.NONE
    assert [len(shell.partition(at).markers) for at in (A, B)] == [1, 1]


def test_c38_a_coordinator_that_was_replaced_cannot_write_markers() -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.add(one, A) is ErrorCode.NONE
    assert shell.produce(one, A, 0, "x") is ErrorCode.NONE
    shell.load(is_failover=True)
    assert shell.end(one).error is ErrorCode.NONE
    with pytest.raises(CoordinatorFencedError):
        shell.partition(A).mark(Markers("t", *one, False, 0, (A,)), 0)


def test_c39_a_new_leader_of_a_partition_knows_the_open_transaction_from_its_copy() -> None:
    """Also several transactions at once, whose markers one leader writes."""
    leader = new_log()
    for producer_id in (7, 8):
        append(leader, batch(writer=Writer(producer_id, 0, 0), is_transactional=True))
    follower = new_log()
    follower.append_replicated(b"".join(bytes(view) for view in leader.read(0, LIMIT).views()), NOW)
    for producer_id, is_commit in ((7, True), (8, False)):
        follower.append_marker(producer_id, 0, 1, 1, NOW, is_commit=is_commit)
    replicate(follower)
    assert follower.last_stable_offset == follower.end_offset == 4
    assert [entry.producer_id for entry in follower.aborted_transactions(0, 4)] == [8]


# C40 to C42


def test_c40_offsets_of_a_stale_generation_are_refused_and_pending_ones_make_readers_wait() -> None:
    groups = GroupShell()
    (member,) = groups.stable()
    at = TopicPartition("orders", 0)

    def commit(member_id: str, generation_id: int) -> ErrorCode:
        offsets = (OffsetToCommit("orders", 0, 42),)
        request = CommitTransactionOffsets("g", 7, 0, offsets, member_id, generation_id)
        return groups.ask(request, CommitReply).partitions[0].error

    def fetch(*, require_stable: bool) -> tuple[ErrorCode, int]:
        found = groups.ask(FetchOffsets("g", (at,), require_stable), FetchReply).offsets[0]
        return found.error, found.offset

    assert commit(member.member_id, member.generation_id - 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit("somebody", member.generation_id) is ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(require_stable=True) == (ErrorCode.NONE, -1)
    assert commit(member.member_id, member.generation_id) is ErrorCode.NONE
    assert fetch(require_stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert fetch(require_stable=False) == (ErrorCode.NONE, -1)
    groups.end_transaction(7, is_commit=True)
    assert fetch(require_stable=True) == (ErrorCode.NONE, 42)


def test_c41_a_read_committed_consumer_sees_neither_the_undecided_nor_the_aborted() -> None:
    log = new_log(segment_bytes=200)
    append(log, batch(writer=Writer(7, 0, 0), is_transactional=True))
    append(log, batch(writer=Writer(8, 0, 0), is_transactional=True))
    replicate(log)
    assert log.last_stable_offset == 0
    log.append_marker(8, 0, 0, 0, NOW, is_commit=False)
    replicate(log)
    assert log.last_stable_offset == 0, "the first transaction is undecided"
    log.append_marker(7, 0, 0, 0, NOW, is_commit=True)
    replicate(log)
    assert log.last_stable_offset == 4
    for one in (log, reopened(log)):
        assert [(entry.producer_id, entry.first_offset) for entry in one.aborted_transactions(0, 4)] == [(8, 1)]
        assert one.aborted_transactions(3, 4) == []


def test_c42_the_cleaner_goes_up_to_the_oldest_open_transaction_and_keeps_markers() -> None:
    log = new_log(cleanup_policy="compact", segment_bytes=10_000)
    append(log, batch([(b"k", b"old")], writer=Writer(7, 0, 0), is_transactional=True))
    log.append_marker(7, 0, 0, 0, NOW, is_commit=True)
    append(log, batch([(b"k", b"mid")]))
    log.roll()
    opened = append(log, batch([(b"k", b"open")], writer=Writer(8, 0, 0), is_transactional=True)).base_offset
    append(log, batch([(b"k", b"newest")]))
    log.roll()
    replicate(log)
    compact(log)
    kept = [value for offset, _, value in pairs_of(log) if offset <= opened + 1]
    assert b"old" not in kept, "what lies before the open transaction is cleaned"
    assert kept[-2:] == [b"open", b"newest"], "what may yet be aborted hides nothing"
    assert [header.is_control for header, _ in stored(log)].count(True) == 1
    log.append_marker(8, 0, 0, 0, NOW, is_commit=False)
    log.roll()
    replicate(log)
    compact(log)
    assert b"open" not in [value for _, _, value in pairs_of(log)]
    assert reopened(log).last_stable_offset == reopened(log).high_watermark


# What operators see, and how ids end


def test_a_transactional_id_is_described_as_it_stands() -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.add(one, A) is ErrorCode.NONE
    found = shell.ask(DescribeTransaction("t"), DescribeReply).record
    assert found == shell.record()
    assert shell.ask(DescribeTransaction("u"), DescribeReply).error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_transactions_are_listed_by_state_producer_and_age() -> None:
    shell = Shell()
    one, two = shell.begin("one"), shell.begin("two")
    assert shell.add(one, A, transactional_id="one") is ErrorCode.NONE

    def listed(*filters: object) -> list[str]:
        reply = shell.ask(ListTransactions(*filters), ListReply)  # type: ignore[arg-type]
        return [record.transactional_id for record in reply.records]

    assert listed() == ["one", "two"]
    assert listed(("Ongoing",)) == ["one"]
    assert listed(("Empty", "Odd")) == ["two"]
    assert listed(("Odd",)) == []
    assert listed((), frozenset((two.producer_id,))) == ["two"]
    assert listed((), (), 0) == []


def test_an_id_that_nobody_uses_is_forgotten_and_an_open_transaction_is_not() -> None:
    shell = Shell(TransactionSettings(transactional_id_expiration_ms=DAY, transaction_max_timeout_ms=9 * DAY))
    shell.begin("idle")
    reply = shell.init(transactional_id="open", timeout_ms=8 * DAY)
    assert shell.add(who(reply), A, transactional_id="open") is ErrorCode.NONE
    shell.advance(DAY + 60 * MINUTE)
    assert list(shell.shard.ledger.records) == ["open"]
    assert shell.records[-1] == TransactionTombstone("idle")


@pytest.mark.parametrize("transactional_id", ["", "x" * 9_000])
def test_an_id_that_cannot_be_is_refused(transactional_id: str) -> None:
    reply = Shell().ask(InitProducer(transactional_id, MINUTE), ProducerReply)
    assert reply.error is ErrorCode.INVALID_REQUEST


def test_whoever_waits_is_told_when_the_append_fails() -> None:
    shell = Shell(is_slow=True)
    call = shell.send(InitProducer("t", MINUTE))
    shell.fail_append(ErrorCode.NOT_COORDINATOR)
    assert call.reply(ProducerReply).error is ErrorCode.NOT_COORDINATOR
    assert shell.shard.ledger.records == {}


def test_a_record_has_kafkas_bytes_and_survives_them() -> None:
    record = TransactionRecord(
        "t", 7, 3, MINUTE, TransactionState.PREPARE_COMMIT, (A, TopicPartition("u", 1), B), 5, 4, 7, 8, NEW
    )
    key, value = encode_record(record)
    assert key == bytes.fromhex("0000000174")
    assert value is not None
    assert value[:2] == b"\0\1"
    assert decode_record(key, value) == record
    assert decode_record(key, None) == TransactionTombstone("t")
    assert decode_record(b"\0\7" + key[2:], value) is None
