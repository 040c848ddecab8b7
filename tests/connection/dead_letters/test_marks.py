"""Marks of redriven letters: no letter is forgotten, none is marked that was not redriven."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.connection.dead_letters.marks import NOTE_BYTES_MAX, Mark, MarkTooLongError, UnreadableMarkError

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=25)


@given(RANGES, st.integers(0, 30))
def test_a_mark_covers_what_was_added_and_survives_its_note(ranges: list[tuple[int, int]], start: int) -> None:
    mark, model = Mark(), set[int]()
    for first, length in ranges:
        mark.add(first, first + length)
        model |= set(range(first, first + length))
    assert [offset for offset in range(100) if mark.covers(offset)] == sorted(model)
    again = Mark.read(mark.first_offset, mark.note())
    assert again == mark
    again.begin_at(start)
    assert [offset for offset in range(100) if again.covers(offset)] == sorted(model | set(range(start)))


def test_letters_in_order_need_no_note() -> None:
    mark = Mark()
    for offset in range(50_000):
        mark.add(offset, offset + 1)
    assert (mark.first_offset, mark.note()) == (50_000, "")


def test_a_mark_of_every_second_letter_of_ten_thousand_fits() -> None:
    mark = Mark(0, [(2 * number + 1, 2 * number + 2) for number in range(5_000)])
    assert len(mark.note()) < 200
    assert Mark.read(0, mark.note()) == mark


def test_a_mark_that_does_not_fit_says_so() -> None:
    chance = Random(7)
    mark, at = Mark(), 1
    for _ in range(20_000):
        at += chance.randrange(1, 200)
        mark.add(at, at + 1)
        at += 2
    with pytest.raises(MarkTooLongError, match="more than a mark can hold"):
        mark.note()
    assert NOTE_BYTES_MAX == 4096


@pytest.mark.parametrize("note", ["other", "redrive1:", "redrive1:~~~~", "redrive1:0000000", "redrive1:\u00e9"])
def test_a_foreign_note_is_refused(note: str) -> None:
    with pytest.raises(UnreadableMarkError, match="none of a redrive"):
        Mark.read(3, note)
