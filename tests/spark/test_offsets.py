"""Offsets, limits and splits: the arithmetic of micro-batches."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.model.ids import TopicPartition
from qanat.spark.offsets import (
    OffsetRange,
    OffsetsError,
    from_json,
    lag,
    parse,
    parse_assignment,
    ranges,
    split,
    to_json,
)
from qanat.spark.reads.trigger_rows import cut_by_rows

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

positions = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 5)),
    st.tuples(st.integers(0, 1000), st.integers(0, 1000)),
    max_size=8,
)


def test_a_position_is_written_as_sparks_connector_writes_it() -> None:
    assert to_json({B0: 3, A1: 7, A0: 23}) == {"a": {"0": 23, "1": 7}, "b": {"0": 3}}
    assert from_json(json.loads(json.dumps(to_json({A0: 1, B0: 2}))), "x") == {A0: 1, B0: 2}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid JSON"),
        ("[1]", "must look like"),
        ('{"a": 3}', "needs an offset for each partition"),
        ('{"a": {"x": 3}}', "is not a partition of topic a"),
        ('{"a": {"-1": 3}}', "is not a partition of topic a"),
        ('{"a": {"0": "3"}}', "a-0 needs a whole number"),
        ('{"a": {"0": 1.5}}', "a-0 needs a whole number"),
        ('{"a": {"0": true}}', "a-0 needs a whole number"),
        ('{"a": {"99999999999": 3}}', "is not a partition of topic a"),
    ],
)
def test_what_is_no_position_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(OffsetsError, match=reason):
        parse(text, "option startingOffsets")


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 0}', '{"a": ["x"]}', '{"a": []}', "{}"])
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(OffsetsError, match="option assign"):
        parse_assignment(text, "option assign")


@given(positions, st.integers(1, 3000))
def test_a_limit_is_used_up_and_never_passed(pairs: dict[TopicPartition, tuple[int, int]], most: int) -> None:
    start = {at: min(pair) for at, pair in pairs.items()}
    end = {at: max(pair) for at, pair in pairs.items()}
    cut = cut_by_rows(start, end, most)

    assert lag(start, cut) == min(most, lag(start, end))
    assert all(start[at] <= cut[at] <= end[at] for at in end)


@given(positions, st.none() | st.integers(1, 50), st.none() | st.integers(1, 200))
def test_splits_cover_every_offset_once(
    pairs: dict[TopicPartition, tuple[int, int]], least: int | None, most: int | None
) -> None:
    whole = ranges({at: min(pair) for at, pair in pairs.items()}, {at: max(pair) for at, pair in pairs.items()})
    pieces = split(whole, least, most)

    offsets = [(one.at, offset) for one in pieces for offset in range(one.start, one.end)]
    assert offsets == [(one.at, offset) for one in whole for offset in range(one.start, one.end)]
    assert most is None or all(one.size <= most for one in pieces)


def test_a_single_partition_is_split_as_often_as_asked() -> None:
    assert split([OffsetRange(A0, 10, 22)], 4, None) == [
        OffsetRange(A0, first, first + 3) for first in (10, 13, 16, 19)
    ]


def test_splits_go_where_the_records_are() -> None:
    pieces = split([OffsetRange(A0, 0, 90), OffsetRange(B0, 0, 10)], 10, None)

    assert [one.at for one in pieces].count(A0) == 9
