"""Offsets that do not exist, before the first and after the last."""

from __future__ import annotations

import pytest

from qanat.model.ids import TopicPartition
from qanat.spark.offsets import OffsetRange
from qanat.spark.reads.data_loss import DataLossError, within, without_lost

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_offsets_beyond_the_end_are_reported_or_moved_back() -> None:
    asked, latest = {A: 999, B: 5}, {A: 20, B: 20}

    with pytest.raises(DataLossError, match=r"endingOffsets asks for offset 999 of orders-0, which ends at 20"):
        within(asked, latest, "endingOffsets", must_fail=True)
    assert within(asked, latest, "endingOffsets", must_fail=False) == {A: 20, B: 5}
    assert within({A: 20, B: 0}, latest, "endingOffsets", must_fail=True) == {A: 20, B: 0}


def test_offsets_before_the_beginning_are_reported_or_skipped() -> None:
    wanted = [OffsetRange(A, 3, 30), OffsetRange(B, 3, 5)]

    with pytest.raises(
        DataLossError, match=r"9 offsets are no longer there: orders-0 offsets 3 to 9, orders-1 offsets 3"
    ):
        without_lost(wanted, {A: 10, B: 10}, must_fail=True)
    assert without_lost(wanted, {A: 10, B: 10}, must_fail=False) == [OffsetRange(A, 10, 30)]
