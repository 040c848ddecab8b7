"""The lag of all groups of a coordinator, pass after pass."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.groups.lag import lag_book
from qanat.groups.lag.lag_book import LagBook, Position
from qanat.groups.lag.reports import GroupLag, TopicLag
from qanat.model.ids import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def one_pass(
    book: LagBook, now_ms: int, ends: dict[TopicPartition, int], groups: dict[str, dict[TopicPartition, int]]
) -> None:
    for at, end in ends.items():
        book.observe_end(at, "id", end, now_ms)
    for group, positions in groups.items():
        rows = [Position(at, offset, now_ms) for at, offset in positions.items()]
        book.observe_group(group, "classic", rows, now_ms)
    book.end_pass()


def test_lag_is_summed_over_partitions_and_the_slowest_counts_in_time() -> None:
    book = LagBook()
    one_pass(book, 0, {A0: 0, A1: 0, B0: 0}, {})
    one_pass(book, 0, {A0: 0, A1: 0, B0: 0}, {})
    one_pass(book, 10_000, {A0: 100, A1: 10, B0: 0}, {"g": {A0: 49, A1: 10, B0: 0}})

    topics = [TopicLag("a", 51, 5.0), TopicLag("b", 0, 0.0)]
    assert book.lags() == [GroupLag("g", "classic", 51, 5.0, True, "ok", topics)]
    assert [(one.topic, one.partition, one.records) for one in book.partitions("g")] == [
        ("a", 0, 51),
        ("a", 1, 0),
        ("b", 0, 0),
    ]


def test_a_group_that_was_not_mentioned_is_forgotten() -> None:
    book = LagBook()
    one_pass(book, 0, {A0: 5}, {"g": {A0: 1}, "h": {A0: 2}})
    one_pass(book, 1, {A0: 5}, {"h": {A0: 2}})

    assert (book.lag("g"), book.history("g"), book.partitions("g")) == (None, [], [])
    assert [one.group for one in book.lags()] == ["h"]


def test_a_partition_whose_leader_is_silent_keeps_its_end() -> None:
    book = LagBook()
    one_pass(book, 0, {A0: 5}, {"g": {A0: 1}})
    book.keep_end(A0)
    one_pass(book, 1000, {}, {"g": {A0: 3}})

    assert [one.records for one in book.lags()] == [2]


def test_a_partition_that_is_gone_has_no_lag() -> None:
    book = LagBook()
    one_pass(book, 0, {A0: 5}, {"g": {A0: 1}})
    one_pass(book, 1000, {}, {"g": {A0: 1}})

    assert book.partitions("g") == []
    assert [one.records for one in book.lags()] == [0]


def test_a_topic_created_again_has_a_new_past() -> None:
    book = LagBook()
    one_pass(book, 0, {A0: 5}, {"g": {A0: 1}})
    book.observe_end(A0, "another", 9, 5000)
    one_pass(book, 5000, {}, {"g": {A0: 1}})
    row = book.partitions("g")[0]

    assert (row.end, row.seconds, row.is_exact) == (9, 0.0, False)


def test_a_queue_counts_what_is_left_and_not_what_follows() -> None:
    book = LagBook()
    book.observe_end(A0, "id", 100, 0)
    book.observe_group("q", "share", [Position(A0, 10, None, left=3)], 0)
    book.end_pass()

    assert [one.records for one in book.lags()] == [3]


@given(st.lists(st.dictionaries(st.integers(0, 20), st.integers(0, 30), max_size=8), max_size=40))
def test_memory_stays_within_its_bound(passes: list[dict[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lag_book, "ENDS_MAX", 60)
        patch.setattr(lag_book, "POINTS_MAX", 200)
        book, ends = LagBook(), {TopicPartition("t", number): 0 for number in range(10)}
        for number, moved in enumerate(passes):
            for at in ends:
                ends[at] += moved.get(at.partition, 0)
            one_pass(book, number * 10_000, ends, {f"g{one}": dict.fromkeys(ends, 0) for one in range(5)})

    assert book.points_kept <= 60 + 200


@given(
    st.integers(1, 500),
    st.integers(1, 60),
    st.integers(2, 60),
)
def test_a_reader_that_is_so_many_seconds_behind_a_steady_writer_is_so_reported(
    rate: int, behind_s: int, passes: int
) -> None:
    book = LagBook()
    for number in range(passes + 1):
        now_ms = number * 10_000
        end = rate * number * 10
        one_pass(book, now_ms, {A0: end}, {"g": {A0: max(end - rate * behind_s, 0)}})
    lag = book.lag("g")

    assert lag is not None
    assert lag.records == rate * min(behind_s, passes * 10)
    assert abs(lag.seconds - min(behind_s, passes * 10)) <= 1.0
