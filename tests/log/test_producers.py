"""Idempotent producers and open transactions, without a file in sight."""

from __future__ import annotations

import pytest
from tests.log.batches import LIMIT, NOW, Writer, append, batch, marker, new_log, reopened, truncate

from qanat.log.admission import admit
from qanat.log.partition_log import PartitionLog
from qanat.log.producer_snapshots import decode_snapshot, encode_snapshot
from qanat.log.producers import BATCHES_REMEMBERED, Producers, ProducerState
from qanat.log.settings import LogSettings
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import (
    CoordinatorFencedError,
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
)
from qanat.wire.batch_header import BatchHeader, read_header

DAY = 24 * 60 * 60 * 1000
LAST = 2**31 - 1


def header(sequence: int, count: int = 1, epoch: int = 0, *, is_transactional: bool = False) -> BatchHeader:
    return read_header(batch(count, writer=Writer(7, epoch, sequence), is_transactional=is_transactional))


def written(producers: Producers, *headers: BatchHeader, at: int = 0) -> Producers:
    """Check and record one batch after the other."""
    for one in headers:
        assert producers.check(one) is None
        producers.record(one, at, NOW)
        at += one.last_offset_delta + 1
    return producers


def end(producers: Producers, at: int, *, epoch: int = 0, is_commit: bool = True, producer_id: int = 7) -> None:
    content = marker(producer_id, epoch, at=at, is_commit=is_commit)
    producers.replay(read_header(content), content, NOW)


def test_a_retry_of_any_of_the_last_five_gets_the_offsets_it_got_before() -> None:
    batches = [header(sequence, count=2) for sequence in range(0, 12, 2)]
    producers = written(Producers(), *batches)
    for number, repeated in list(enumerate(batches))[-BATCHES_REMEMBERED:]:
        found = producers.check(repeated)
        assert found is not None
        assert (found.base_offset, found.last_offset) == (2 * number, 2 * number + 1)


def test_a_retry_of_an_older_batch_is_out_of_order() -> None:
    producers = written(Producers(), *[header(sequence) for sequence in range(6)])
    with pytest.raises(OutOfOrderSequenceError, match="sequence 0 where 6 is next") as caught:
        producers.check(header(0))
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(("sequence", "count"), [(4, 2), (5, 1), (4, 3)])
def test_a_batch_that_overlaps_a_written_one_is_no_retry(sequence: int, count: int) -> None:
    producers = written(Producers(), header(0, 3), header(3, 3))
    with pytest.raises(OutOfOrderSequenceError):
        producers.check(header(sequence, count))


def test_a_gap_is_refused() -> None:
    with pytest.raises(OutOfOrderSequenceError, match="sequence 5 where 3 is next"):
        written(Producers(), header(0, 3)).check(header(5))


def test_sequences_wrap_between_batches() -> None:
    producers = written(Producers(), header(LAST, 1), header(0, 2))
    found = producers.check(header(LAST, 1))
    assert found is not None
    assert found.base_sequence == LAST


def test_sequences_wrap_inside_a_batch() -> None:
    producers = written(Producers(), header(LAST - 1, 5), header(3, 2), at=10)
    found = producers.check(header(LAST - 1, 5))
    assert found is not None
    assert (found.base_sequence, found.last_sequence, found.base_offset) == (LAST - 1, 2, 10)
    with pytest.raises(OutOfOrderSequenceError):
        producers.check(header(LAST, 5))


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert Producers().check(header(1234)) is None


def test_a_fenced_producer_is_refused_even_with_sequence_zero() -> None:
    producers = written(Producers(), header(0, epoch=3))
    with pytest.raises(InvalidProducerEpochError, match="epoch 2 was fenced: epoch 3") as caught:
        producers.check(header(0, epoch=2))
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_starts_at_zero() -> None:
    producers = written(Producers(), header(0), header(1))
    with pytest.raises(OutOfOrderSequenceError, match="sequence 2 where 0 is next"):
        producers.check(header(2, epoch=1))
    written(producers, header(0, epoch=1), at=2)
    assert producers.check(header(1, epoch=1)) is None


def test_a_batch_of_an_older_epoch_is_never_taken_for_a_retry() -> None:
    producers = written(Producers(), header(0), header(0, epoch=1))
    found = producers.check(header(0, epoch=1))
    assert found is not None
    assert found.base_offset == 1
    with pytest.raises(InvalidProducerEpochError):
        producers.check(header(0))


def test_a_marker_with_a_higher_epoch_fences_the_producer_and_restarts_its_sequence() -> None:
    producers = written(Producers(), header(0, is_transactional=True), header(1, is_transactional=True))
    end(producers, 2, epoch=1, is_commit=False)
    with pytest.raises(InvalidProducerEpochError):
        producers.check(header(0, is_transactional=True))
    with pytest.raises(InvalidProducerEpochError):
        producers.check(header(2, is_transactional=True))
    with pytest.raises(OutOfOrderSequenceError):
        producers.check(header(2, epoch=1, is_transactional=True))
    assert producers.check(header(0, epoch=1, is_transactional=True)) is None


def test_a_marker_that_is_there_already_is_not_asked_for_twice() -> None:
    producers = written(Producers(), header(0, is_transactional=True))
    assert producers.check_marker(7, 0, 0)
    end(producers, at=1)
    assert not producers.check_marker(7, 0, 0)
    assert producers.check_marker(7, 0, 1), "another coordinator must leave its epoch"
    assert not producers.check_marker(7, 0, 1, transaction_version=2)
    assert producers.check_marker(7, 1, 0), "a higher epoch fences"


def gated() -> Producers:
    producers = Producers()
    producers.requires_verification = True
    return producers


def test_a_transaction_opens_only_where_it_was_announced_and_confirmed() -> None:
    producers = gated()
    first = header(0, is_transactional=True)
    with pytest.raises(InvalidTransactionStateError):
        producers.check(first)
    verification = producers.begin_verification(7)
    with pytest.raises(InvalidTransactionStateError):
        producers.check(first)
    assert producers.complete_verification(7, 0, verification)
    written(producers, first, header(1, is_transactional=True))
    assert producers.check(first) is not None, "a retry is one, before and after"
    end(producers, at=2)
    with pytest.raises(InvalidTransactionStateError):
        producers.check(header(2, is_transactional=True))
    assert producers.check(header(2)) is None


def test_a_marker_that_comes_before_the_confirmation_or_the_write_takes_the_announcement_back() -> None:
    for is_confirmed in (False, True):
        producers = gated()
        verification = producers.begin_verification(7)
        assert not is_confirmed or producers.complete_verification(7, 0, verification)
        end(producers, at=0)
        assert is_confirmed or not producers.complete_verification(7, 0, verification)
        with pytest.raises(InvalidTransactionStateError):
            producers.check(header(0, is_transactional=True))


def test_an_announcement_makes_a_marker_worth_writing_again() -> None:
    producers = gated()
    end(producers, at=0)
    assert not producers.check_marker(7, 0, 0)
    assert producers.complete_verification(7, 0, producers.begin_verification(7))
    assert producers.check_marker(7, 0, 0)


def test_our_own_batches_in_a_transaction_have_no_sequence() -> None:
    producers = Producers()
    own = read_header(batch(writer=Writer(7, 0, -1), is_transactional=True))
    written(producers, own, own)
    assert producers.is_open(7, 0)
    assert not producers.is_open(7, 1)
    end(producers, at=2, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        producers.check(own)


def test_a_marker_with_the_same_epoch_lets_the_sequence_go_on() -> None:
    producers = written(Producers(), header(0, is_transactional=True))
    end(producers, 1)
    assert producers.check(header(1, is_transactional=True)) is None
    retried = producers.check(header(0, is_transactional=True))
    assert retried is not None
    assert retried.base_offset == 0


def test_a_marker_of_an_older_epoch_is_refused() -> None:
    with pytest.raises(InvalidProducerEpochError):
        written(Producers(), header(0, epoch=2, is_transactional=True)).check_marker(7, 1, 0)


def test_a_replaced_coordinator_may_not_end_transactions() -> None:
    producers = written(Producers(), header(0, is_transactional=True))
    content = marker(7, at=1, coordinator_epoch=5, is_commit=True)
    producers.replay(read_header(content), content, NOW)
    producers.check_marker(7, 0, 5)
    producers.check_marker(7, 0, 6)
    with pytest.raises(CoordinatorFencedError, match="coordinator epoch 4: 5 is current") as caught:
        producers.check_marker(7, 0, 4)
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_any_coordinator_may_end_what_an_unknown_producer_left() -> None:
    Producers().check_marker(7, 0, 0)


def test_a_plain_write_inside_an_open_transaction_is_refused() -> None:
    producers = written(Producers(), header(0, is_transactional=True))
    with pytest.raises(InvalidTransactionStateError) as caught:
        producers.check(header(1))
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE
    end(producers, 1)
    assert producers.check(header(1)) is None


def test_the_first_unstable_offset_is_that_of_the_oldest_open_transaction() -> None:
    producers = written(Producers(), header(0, is_transactional=True), at=5)
    other = read_header(batch(writer=Writer(8), is_transactional=True))
    producers.record(other, 3, NOW)
    assert producers.first_unstable_offset(100) == 3
    end(producers, 9, producer_id=8)
    assert producers.first_unstable_offset(100) == 5
    end(producers, 10)
    assert producers.first_unstable_offset(100) is None


def test_a_decision_counts_only_once_it_is_replicated() -> None:
    producers = written(Producers(), header(0, is_transactional=True), at=5)
    end(producers, 6)
    assert producers.first_unstable_offset(5) == 5
    assert producers.first_unstable_offset(6) == 5, "the marker itself is at 6 and not yet below the high watermark"
    assert producers.first_unstable_offset(7) is None


def test_a_marker_without_a_transaction_holds_nothing_back() -> None:
    producers = Producers()
    end(producers, 3)
    assert producers.first_unstable_offset(0) is None
    assert len(producers) == 1


def test_a_silent_producer_is_forgotten_and_taken_back_at_any_sequence() -> None:
    producers = written(Producers(), header(0))
    assert producers.expire(NOW + DAY, DAY) == 0
    assert producers.expire(NOW + DAY + 1, DAY) == 1
    assert producers.check(header(41)) is None


def test_a_producer_with_an_open_transaction_is_never_forgotten() -> None:
    producers = written(Producers(), header(0, is_transactional=True))
    assert producers.expire(NOW + 100 * DAY, DAY) == 0
    end(producers, 1)
    assert producers.expire(NOW + 100 * DAY, DAY) == 1


def test_what_an_aborted_transaction_leaves_in_the_index_is_what_kafka_writes() -> None:
    producers = written(Producers(), header(0, is_transactional=True), at=5)
    producers.record(read_header(batch(writer=Writer(8), is_transactional=True)), 3, NOW)
    content = marker(7, at=9, is_commit=False)
    completed = producers.replay(read_header(content), content, NOW)
    assert completed is not None
    assert tuple(completed.as_aborted()) == (7, 5, 9, 3)


def test_control_batches_of_other_kinds_change_nothing() -> None:
    producers = written(Producers(), header(0, is_transactional=True))
    before = encode_snapshot(producers)
    content = bytearray(marker(7, at=1, is_commit=True))
    content[-8:] = b"\xff" * 8
    assert producers.replay(read_header(content), bytes(content), NOW) is None
    assert encode_snapshot(producers) == before


# C30 in a log: the answer is the same after everything that may happen to the memory of it.


def retries_are_recognised(log_after: PartitionLog, up_to: int = 8) -> None:
    for sequence in range(up_to - BATCHES_REMEMBERED, up_to):
        again = append(log_after, batch(writer=Writer(7, 0, sequence)))
        assert (again.base_offset, again.is_duplicate) == (sequence, True)
    with pytest.raises(OutOfOrderSequenceError):
        append(log_after, batch(writer=Writer(7, 0, up_to - BATCHES_REMEMBERED - 1)))
    assert append(log_after, batch(writer=Writer(7, 0, up_to))).base_offset == up_to


@pytest.mark.parametrize("segment_bytes", [100, 300, 100_000])
def test_retries_are_recognised_in_a_log_and_after_it_is_opened_again(segment_bytes: int) -> None:
    log = new_log(segment_bytes=segment_bytes)
    for sequence in range(8):
        append(log, batch(writer=Writer(7, 0, sequence)))
    retries_are_recognised(reopened(log))
    retries_are_recognised(log)


@pytest.mark.parametrize("segment_bytes", [100, 300, 100_000])
def test_retries_are_recognised_after_a_truncation(segment_bytes: int) -> None:
    log = new_log(segment_bytes=segment_bytes)
    for sequence in range(12):
        append(log, batch(writer=Writer(7, 0, sequence)))
    truncate(log, 8)
    retries_are_recognised(reopened(log))
    retries_are_recognised(log)


def test_retries_are_recognised_after_a_snapshot_was_written_and_read() -> None:
    producers = written(Producers(), *[header(sequence, count=3) for sequence in range(0, 24, 3)])
    loaded = decode_snapshot(encode_snapshot(producers))
    assert loaded is not None
    assert loaded.states == producers.states
    for sequence in range(9, 24, 3):
        assert loaded.check(header(sequence, count=3)) == producers.check(header(sequence, count=3)) is not None
    with pytest.raises(OutOfOrderSequenceError):
        loaded.check(header(6, count=3))


def test_a_duplicate_waits_for_the_flush_of_the_first_copy() -> None:
    log = new_log()
    content = admit(batch(writer=Writer(7)), LogSettings(), NOW, LIMIT)
    assert log.append(content, 0, NOW).is_flush_due
    assert log.append(content, 0, NOW).is_flush_due
    truncate(log, 1)
    assert not log.append(content, 0, NOW).is_flush_due


def test_a_transaction_that_began_with_the_very_first_record_is_open_after_a_snapshot() -> None:
    producers = written(Producers(), header(0, is_transactional=True))
    restored = decode_snapshot(encode_snapshot(producers))

    assert restored is not None
    assert restored.is_open(7, 0)
    assert restored.first_unstable_offset(1) == producers.first_unstable_offset(1) == 0


def test_a_transaction_that_began_with_the_very_first_record_gets_its_marker() -> None:
    producers = written(Producers(), header(0, is_transactional=True))

    with pytest.raises(InvalidProducerEpochError):
        producers.check_marker(7, 0, 0, 2)  # Of the transaction before: this one is open, in the same epoch.
    assert producers.check_marker(7, 0, 0, 0), "it is open, and would hang without one"
    end(producers, 1)
    assert not producers.check_marker(7, 0, 0, 0), "the same marker once more is written once"


@pytest.mark.parametrize("at", [0, 5])
def test_a_transaction_stays_open_from_its_first_record_on_however_many_follow(at: int) -> None:
    producers = written(Producers(), *(header(number, is_transactional=True) for number in range(3)), at=at)

    assert producers.first_unstable_offset(at + 3) == at, "readers of committed records stop before all of it"
    assert producers.states[7].transaction_first_offset == at


def test_a_gated_partition_lets_plain_records_of_a_producer_in() -> None:
    producers = Producers()
    producers.requires_verification = True

    assert producers.check(header(0)) is None
    with pytest.raises(InvalidTransactionStateError):
        producers.check(header(0, is_transactional=True))


def test_an_announcement_is_used_up_by_the_first_record_of_its_transaction() -> None:
    producers = Producers()
    producers.requires_verification = True
    verification = producers.begin_verification(7)
    assert producers.complete_verification(7, 0, verification)
    written(producers, header(0, is_transactional=True))
    end(producers, 1)

    assert not producers.complete_verification(7, 0, verification), "it was ended before we heard"
    with pytest.raises(InvalidTransactionStateError):
        producers.check(header(1, is_transactional=True))


def test_who_hears_late_that_a_transaction_was_confirmed_goes_on_where_another_write_has_begun_it() -> None:
    producers = Producers()
    verification = producers.begin_verification(7)
    assert producers.complete_verification(7, 0, verification)
    written(producers, header(0, is_transactional=True))

    assert producers.complete_verification(7, 0, verification) is True


def test_the_producer_with_the_first_id_is_one_like_all_others() -> None:
    content = batch(writer=Writer(0, 0, 0), is_transactional=True)
    producers = Producers()
    producers.replay(read_header(content), content, NOW)

    assert producers.is_open(0, 0)


def test_an_ended_transaction_says_up_to_where_the_log_is_stable_with_it() -> None:
    producers = Producers()
    for number, producer_id in enumerate((7, 8, 9)):
        content = batch(writer=Writer(producer_id, 0, 0), is_transactional=True)
        producers.record(read_header(content), number, NOW)
    ends = []
    for at, producer_id in ((3, 8), (4, 7), (5, 9)):
        content = marker(producer_id, 0, at=at, is_commit=True)
        ends.append(producers.replay(read_header(content), content, NOW))

    assert [one.last_stable_offset for one in ends if one is not None] == [0, 2, 6]


def test_the_next_sequence_of_a_producer_is_known_by_its_epoch() -> None:
    producers = written(Producers(), header(3, 2))

    assert producers.next_sequence(7, 0) == 5
    assert producers.next_sequence(7, 1) == 0, "a new epoch begins with its first"
    assert producers.next_sequence(8, 0) is None


def test_open_transactions_are_counted_and_those_that_are_silent() -> None:
    producers = written(Producers(), header(0, is_transactional=True))

    assert producers.open_transactions() == 1
    assert producers.open_transactions(NOW) == 0, "it was used at that very time"
    assert producers.open_transactions(NOW + 1) == 1
    end(producers, 1)
    assert producers.open_transactions() == producers.open_transactions(NOW + 1) == 0


def test_a_late_confirmation_in_another_epoch_does_not_count_for_a_transaction_that_has_begun() -> None:
    producers = gated()
    verification = producers.begin_verification(7)
    assert producers.complete_verification(7, 0, verification)
    written(producers, header(0, is_transactional=True))

    assert producers.complete_verification(7, 0, verification)
    assert not producers.complete_verification(7, 1, verification)


def test_a_marker_that_raised_the_epoch_is_not_asked_for_by_the_next_coordinator() -> None:
    producers = written(Producers(), header(0, is_transactional=True))
    end(producers, 1, epoch=1, is_commit=False)

    assert not producers.check_marker(7, 1, 1), "the epoch came with that very marker"
    written(producers, header(0, epoch=1), at=2)
    assert producers.check_marker(7, 1, 1), "the epoch has batches of its own"


@pytest.mark.parametrize("version", [0, 2])
def test_a_producer_that_no_coordinator_has_ended_a_transaction_of_gets_a_marker(version: int) -> None:
    producers = written(Producers(), header(0))
    assert producers.check_marker(7, 0, 0, version)


def test_a_marker_counts_as_a_sign_of_life() -> None:
    producers = written(Producers(), header(0, is_transactional=True))
    content = marker(7, at=1, is_commit=True)
    producers.replay(read_header(content), content, NOW + DAY)

    assert producers.expire(NOW + 2 * DAY, DAY) == 0
    assert producers.expire(NOW + 2 * DAY + 1, DAY) == 1


def test_states_are_equal_where_all_that_a_producer_is_judged_by_is() -> None:
    def state(*headers: BatchHeader) -> ProducerState:
        return written(Producers(), *headers).states[7]

    assert state(header(0)) == state(header(0))
    assert state(header(0)) != state(header(0), header(1))
    assert state(header(0)) != state(header(0, epoch=1))
    assert state(header(0)) != state(header(0, is_transactional=True))
