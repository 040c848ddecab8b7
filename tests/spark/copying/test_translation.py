"""Offset translation, and the ledger that stores it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from qanat.model.ids import TopicPartition
from qanat.spark.copying.copy_task import stretches
from qanat.spark.copying.ledger import RUNS_AT_ONCE, Copy, Ledger, copy_entry, map_entries, start_entry
from qanat.spark.copying.translation import PartitionMap, Run, placed

COPY = Copy("b.orders", "id-2", "orders", ("paris",))


@given(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=8), min_size=1, max_size=5))
def test_every_record_is_found_at_its_new_place(batches: list[list[int]]) -> None:
    """Batches of old offsets with gaps, each of which takes one offset more at the target, for its marker."""
    known, pairs = PartitionMap(), []
    old, new = 0, 0
    for gaps in batches:
        offsets = []
        for gap in gaps:
            old += gap
            offsets.append(old)
        pairs += [(offset, new + index) for index, offset in enumerate(offsets)]
        for run in placed(stretches(np.array(offsets)), [(new, len(offsets))]):
            known.add(run)
        new += len(offsets) + 1

    for position in range(old + 3):
        expected = next((to for offset, to in pairs if offset >= position), pairs[-1][1] + 1)
        assert known.translate(position) == expected
    assert (known.position, known.rows) == (pairs[-1][0] + 1, len(pairs))


def test_nothing_copied_translates_to_nothing() -> None:
    assert PartitionMap().translate(5) is None
    assert PartitionMap().position == 0


def test_a_map_that_is_read_twice_is_the_same() -> None:
    known = PartitionMap()
    for run in (Run(0, 0, 5), Run(0, 0, 5), Run(3, 3, 4), Run(9, 8, 1)):
        known.add(run)

    assert (known.rows, len(known), known.translate(6), known.translate(7)) == (8, 2, 6, 8)


def test_a_ledger_is_the_sum_of_its_entries() -> None:
    runs = [Run(2 * number, number, 1) for number in range(2 * RUNS_AT_ONCE + 1)]
    notes = [copy_entry(COPY), *map_entries(COPY, 3, runs)]
    assert len(notes) == 4
    ledger = Ledger()
    for note in notes:
        ledger.apply(note)

    assert ledger.copies["b.orders", "id-2"] == COPY
    assert ledger.positions([COPY]) == {TopicPartition("orders", 3): 4 * RUNS_AT_ONCE + 1}
    assert ledger.map_of(COPY, 3).translate(2 * RUNS_AT_ONCE) == RUNS_AT_ONCE


def test_entries_of_a_topic_that_was_recreated_do_not_count() -> None:
    ledger = Ledger()
    for note in (copy_entry(COPY), *map_entries(COPY, 0, [Run(0, 0, 9)])):
        ledger.apply(note)
    anew = Copy(COPY.topic, "id-3", COPY.source, COPY.route)

    assert ledger.positions([anew]) == {}
    assert ledger.map_of(anew, 0).rows == 0


def test_a_copy_that_begins_later_knows_where() -> None:
    ledger = Ledger()
    for note in (copy_entry(COPY), start_entry(COPY, 0, 70), start_entry(COPY, 1, 40)):
        ledger.apply(note)
    for note in map_entries(COPY, 1, [Run(44, 0, 2)]):
        ledger.apply(note)

    assert ledger.positions([COPY]) == {TopicPartition("orders", 0): 70, TopicPartition("orders", 1): 46}
