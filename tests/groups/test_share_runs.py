"""Ranges of records in one state: how they are overlaid, split and joined."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given as drawn
from hypothesis import strategies as st
from tests.groups.share_records import fetch, partition, say

from qanat.groups.share.partition import ArchivingRange, Read, Span, Take
from qanat.groups.share.record_states import AcknowledgeType, RecordState, StateBatch, overlaid
from qanat.groups.share.runs import Cause, Run, Runs

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState

BATCHES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.sampled_from((0, 2, 4)), st.integers(0, 2)))


def apart(drawn_batches: list[tuple[int, int, int, int]]) -> list[StateBatch]:
    """Batches in order: each so many offsets behind the one before, of so many records."""
    found, end = [], 0
    for gap, size, state, count in drawn_batches:
        found.append(StateBatch(end + gap, end + gap + size - 1, state, count))
        end += gap + size
    return found


def by_offset(batches: list[StateBatch]) -> dict[int, tuple[int, int]]:
    return {
        offset: (batch.state, batch.delivery_count)
        for batch in batches
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }


@drawn(BATCHES, BATCHES, st.integers(0, 20))
def test_what_was_said_last_of_a_record_holds(
    before: list[tuple[int, int, int, int]], after: list[tuple[int, int, int, int]], start: int
) -> None:
    below, above = apart(before), apart(after)
    found = overlaid(below, above, start)
    expected = {at: one for at, one in (by_offset(below) | by_offset(above)).items() if at >= start}
    assert by_offset(found) == expected
    assert all(one.last_offset < next_one.first_offset for one, next_one in pairwise(found))


def test_records_before_the_first_run_are_in_none() -> None:
    runs = Runs(5)
    runs.append(Run(5, 9, AVAILABLE))

    assert [(run.first, run.last) for run in runs.between(3, 6)] == [(5, 6)]


def test_records_that_do_not_exist_are_one_run_however_that_was_found() -> None:
    share = partition()
    fetch(share, "a", Span(0, 9))
    say(share, "a", 5, 9, GAP)
    share.acquire("a", Read(10, [Span(10, 14, is_wanted=False)], 15), Take(1), 0)

    assert [batch for batch, _ in share.runs()] == [StateBatch(0, 4, ACQUIRED, 1), StateBatch(5, 14, ARCHIVED, 0)]


def test_dead_letters_of_one_cause_are_one_range_before_and_after_a_restart() -> None:
    share = partition(3, (StateBatch(3, 4, ARCHIVING, 1), StateBatch(5, 5, AVAILABLE, 0)), has_dead_letters=True)
    fetch(share, "a", Span(5, 5))
    say(share, "a", 5, 5, REJECT)

    assert share.archiving() == (ArchivingRange(3, 5, 1, Cause.REJECTED),)


def test_runs_are_joined_around_every_record_of_an_acknowledgement() -> None:
    share = partition()
    fetch(share, "a", Span(0, 9))
    say(share, "a", 9, 9, ACCEPT)
    kinds = [ACCEPT if offset in (2, 8) else RENEW for offset in range(1, 9)]
    say(share, "a", 1, 8, *kinds)

    finished = [(batch.first_offset, batch.last_offset) for batch, _ in share.runs() if batch.state == ACKNOWLEDGED]
    assert finished == [(2, 2), (8, 9)]
