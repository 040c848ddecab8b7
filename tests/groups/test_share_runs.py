"""Ranges of records in one state: how they are overlaid, split and joined."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
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


def runs_of(*states: RecordState) -> Runs:
    """Runs of five records each, from offset 5 on."""
    runs = Runs(5)
    for state in states:
        runs.append(Run(runs.end_offset, runs.end_offset + 4, state))
    return runs


def bounds(runs: Iterable[Run]) -> list[tuple[int, int]]:
    return [(run.first, run.last) for run in runs]


def test_no_record_is_in_runs_that_have_just_been_made() -> None:
    runs = Runs(5)

    assert (runs.start_offset, runs.end_offset, list(runs)) == (5, 5, [])


@pytest.mark.parametrize(
    ("first", "last", "whole", "cut"),
    [
        (3, 4, [], []),
        (3, 6, [(5, 9)], [(5, 6)]),
        (5, 9, [(5, 9)], [(5, 9)]),
        (9, 10, [(5, 9), (10, 14)], [(9, 9), (10, 10)]),
        (12, 13, [(10, 14)], [(12, 13)]),
        (14, 20, [(10, 14)], [(14, 14)]),
        (15, 20, [], []),
    ],
)
def test_runs_between_two_offsets_are_found_whole_and_cut(
    first: int, last: int, whole: list[tuple[int, int]], cut: list[tuple[int, int]]
) -> None:
    runs = runs_of(AVAILABLE, ACQUIRED)
    assert bounds(runs.overlapping(first, last)) == whole
    assert bounds(runs.between(first, last)) == cut

    assert [offset for run in runs for offset in range(run.first, run.last + 1)] == list(range(5, 15))


def test_no_run_is_split_for_no_records() -> None:
    runs = runs_of(AVAILABLE, ACQUIRED)
    assert runs.between(7, 6) == []

    assert bounds(runs) == [(5, 9), (10, 14)]


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_a_run_that_is_like_its_neighbours_is_joined_with_them(changed: int) -> None:
    runs = runs_of(*(ACQUIRED if number == changed else AVAILABLE for number in range(3)))
    (run,) = runs.between(5 + 5 * changed, 9 + 5 * changed)
    run.state = AVAILABLE
    runs.settle(run.first, run.last)

    assert bounds(runs) == [(5, 19)]


def test_runs_before_an_offset_are_forgotten_and_the_end_never_goes_back() -> None:
    runs = runs_of(AVAILABLE, ACQUIRED)
    found = []
    for offset in (4, 5, 7, 10, 15, 20):
        runs.forget_before(offset)
        found.append((bounds(runs), runs.start_offset, runs.end_offset))

    both, second = [(5, 9), (10, 14)], [(10, 14)]
    assert found == [
        (both, 5, 15),
        (both, 5, 15),
        ([(7, 9), (10, 14)], 7, 15),
        (second, 10, 15),
        ([], 15, 15),
        ([], 20, 20),
    ]


def test_a_dead_letter_keeps_its_cause_when_its_neighbour_is_finished() -> None:
    share = partition(3, (StateBatch(3, 6, ARCHIVING, 5),), has_dead_letters=True)
    share.finish_archiving(4, 4)

    worn = Cause.DELIVERED_TOO_OFTEN
    assert share.archiving() == (ArchivingRange(3, 3, 5, worn), ArchivingRange(5, 6, 5, worn))


def test_dead_letters_of_two_causes_are_two_ranges() -> None:
    share = partition(has_dead_letters=True, delivery_count_limit=1)
    fetch(share, "a", Span(0, 1))
    say(share, "a", 0, 1, REJECT, RELEASE)

    assert [one.cause for one in share.archiving()] == [Cause.REJECTED, Cause.DELIVERED_TOO_OFTEN]


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
