"""One mirrored partition: every kind of answer, and the order of acts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qanat.edge.mirror import (
    Answered,
    Append,
    AppendBatches,
    Batch,
    Begin,
    EpochEnd,
    Gap,
    GapLedger,
    GoOnAt,
    OnGap,
    Position,
    RaiseEpoch,
    RecordGap,
    Refresh,
    RestartAt,
    Skip,
    Step,
    Stop,
    Truncate,
    Wait,
    acts,
    begins_at_zero,
    epoch_to_compare,
    next_step,
)

OWN = Position(0, 10, 3)


def after(
    answered: Answered, *batches: Batch, own: Position = OWN, ours: EpochEnd | None = None, on_gap: OnGap = OnGap.STOP
) -> Step:
    return next_step(own, ours, answered, batches, on_gap)


def test_batches_that_continue_the_log_are_appended() -> None:
    assert after(Answered(0, 20), Batch(10, 12, 3), Batch(12, 20, 4)) == Append(2, 4)


def test_nothing_above_the_high_watermark_is_appended() -> None:
    assert after(Answered(0, 15), Batch(10, 12, 3), Batch(12, 20, 4)) == Append(1, 3)


def test_a_batch_across_the_end_shows_that_the_parent_has_another_history() -> None:
    across = Answered(log_start=9, high_watermark=20)

    assert after(across, Batch(8, 12, 4)) == Truncate(8)
    assert after(across, Batch(8, 12, 4), own=Position(9, 10, 3)) == Truncate(9)
    assert after(across, Batch(8, 12, 2)) == Wait(is_behind=True)  # Ours is the later one.
    assert after(Answered(9, 11), Batch(8, 12, 4)) == Wait()  # It is not committed.


def test_a_batch_of_an_earlier_epoch_than_ours_is_not_appended() -> None:
    assert after(Answered(0, 20), Batch(10, 12, 2)) == Wait(is_behind=True)


def test_a_parent_judges_nothing_that_lies_in_a_gap_of_its_own() -> None:
    gap = Gap(4, 8)
    assert [epoch_to_compare(offset, 3, (gap,)) for offset in (4, 5, 8, 9)] == [3, -1, -1, 3]
    # Its epoch 1 ended somewhere in the gap: what of ours lies there stays.
    parted = Answered(0, 20, EpochEnd(1, 8), (gap,))
    assert after(parted, ours=EpochEnd(1, 5)) == Truncate(8)
    assert after(parted, ours=EpochEnd(1, 5), own=Position(0, 8, 3)) == Wait(is_behind=True)
    assert after(replace(parted, gaps=()), ours=EpochEnd(1, 5)) == Truncate(5)


def test_a_parent_that_has_nothing_new_is_waited_for() -> None:
    assert after(Answered(0, 10)) == Wait()


def test_a_parent_that_lacks_records_is_behind_and_nothing_is_cut() -> None:
    assert after(Answered(0, 8)) == Wait(is_behind=True)
    parted = Answered(0, 8, EpochEnd(3, 8))
    assert after(parted, ours=EpochEnd(3, 10)) == Wait(is_behind=True)


def test_a_log_is_cut_where_the_parent_has_committed_other_records() -> None:
    parted = Answered(0, 12, EpochEnd(3, 8))
    assert after(parted, ours=EpochEnd(3, 10)) == Truncate(8)


def test_a_log_with_an_epoch_that_the_parent_lacks_is_cut_to_its_own_earlier_epoch() -> None:
    parted = Answered(0, 12, EpochEnd(2, 9))
    assert after(parted, ours=EpochEnd(1, 4)) == Truncate(4)


def test_a_parent_that_begins_in_a_later_epoch_cannot_judge_what_is_before() -> None:
    parted = Answered(6, 12, EpochEnd(-1, 6))
    assert after(parted, ours=EpochEnd(-1, -1)) == Truncate(6)


def test_a_log_of_later_epochs_only_is_cut_to_its_start() -> None:
    parted = Answered(0, 12, EpochEnd(1, 8))
    assert after(parted, own=Position(5, 10, 3), ours=EpochEnd(-1, -1)) == Truncate(5)


def test_a_log_that_never_had_a_record_begins_where_the_parent_begins() -> None:
    assert after(Answered(40, 50), own=Position(0, 0)) == Begin(40)


@pytest.mark.parametrize(
    ("on_gap", "step"),
    [(OnGap.STOP, Stop(Gap(0, 40))), (OnGap.SKIP, Skip(Gap(0, 40))), (OnGap.REFRESH, Refresh(Gap(0, 40)))],
)
def test_a_log_that_has_begun_and_is_empty_lacks_all_before_the_parents_start(on_gap: OnGap, step: Step) -> None:
    """It mirrored an empty partition, or what it had was cut off."""
    assert after(Answered(40, 50), own=Position(0, 0, has_begun=True), on_gap=on_gap) == step


def test_that_a_log_begins_at_zero_is_stored_with_the_first_answer_only() -> None:
    def begins(own: Position, answered: Answered, *batches: Batch) -> bool:
        return begins_at_zero(own, answered, batches)

    fresh = Position(0, 0)
    assert begins(fresh, Answered(0, 0))
    assert begins(fresh, Answered(3, 10), Batch(0, 5, 1))  # The parent's log starts in the middle of a batch.
    assert not begins(fresh, Answered(40, 50))
    assert not begins(Position(0, 0, has_begun=True), Answered(0, 0))
    assert not begins(OWN, Answered(0, 20))


def test_a_log_that_was_cut_to_nothing_begins_at_the_batch_across_its_end() -> None:
    assert after(Answered(0, 50), Batch(8, 12, 4), own=Position(10, 10)) == Begin(8)


@pytest.mark.parametrize(
    ("on_gap", "step"),
    [(OnGap.STOP, Stop(Gap(10, 40))), (OnGap.SKIP, Skip(Gap(10, 40))), (OnGap.REFRESH, Refresh(Gap(10, 40)))],
)
def test_a_gap_has_its_exact_range_and_is_met_as_the_operator_chose(on_gap: OnGap, step: Step) -> None:
    assert after(Answered(40, 50), on_gap=on_gap) == step


def test_a_gap_ends_where_the_first_batch_begins() -> None:
    assert after(Answered(41, 50), Batch(40, 45, 4)) == Stop(Gap(10, 40))
    assert after(Answered(11, 20), Batch(10, 15, 4)) == Append(1, 4)


def test_a_gap_of_the_parent_is_one_of_ours_as_far_as_we_lack_it() -> None:
    answered = Answered(0, 60, None, (Gap(2, 5), Gap(8, 40), Gap(70, 80)))
    assert after(answered, Batch(40, 50, 4)) == Append(1, 4, (Gap(10, 40),))


def test_a_gap_is_recorded_before_it_is_skipped() -> None:
    gap = Gap(10, 40)
    assert acts(Skip(gap)) == (RecordGap(gap), GoOnAt(40))
    assert acts(Refresh(gap)) == (RecordGap(gap), RestartAt(40))
    assert acts(Append(1, 4, (gap,))) == (RecordGap(gap), RaiseEpoch(4), AppendBatches(1))


def test_gaps_are_joined_and_known_ones_need_not_be_stored() -> None:
    ledger = GapLedger()
    assert ledger.record(Gap(10, 20))
    assert ledger.record(Gap(20, 30))
    assert ledger.record(Gap(50, 60))
    assert not ledger.record(Gap(12, 28))
    assert ledger.gaps == (Gap(10, 30), Gap(50, 60))


def test_gaps_beyond_the_end_of_the_log_are_forgotten() -> None:
    ledger = GapLedger((Gap(10, 30), Gap(50, 60)))
    assert ledger.truncate(40)
    assert ledger.gaps == (Gap(10, 30),)
    assert not ledger.truncate(40)


def test_a_log_that_begins_again_inside_a_gap_ends_the_gap_there() -> None:
    """All that came after the gap was replaced, by a batch that begins before its end."""
    ledger = GapLedger((Gap(15, 134),))
    assert ledger.truncate(133)
    assert ledger.gaps == (Gap(15, 133),)
