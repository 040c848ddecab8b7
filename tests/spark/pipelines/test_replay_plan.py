"""The plan of a replay: its topics and its steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.model.ids import TopicPartition
from qanat.spark.lake.commits import Commit, Contents, LakeFile, TopicState
from qanat.spark.pipelines.bundled.replay import PIPELINE
from qanat.spark.pipelines.bundled.replay_plan import restored, selected, steps
from qanat.spark.pipelines.bundled.replay_settings import SETTINGS, parse_settings
from qanat.spark.pipelines.document import PipelineError


def a_file(topic: str, partition: int, first: int, last: int, earliest: int = 0, latest: int = 0) -> LakeFile:
    path = f"topic={topic}/{partition}-{first}-{last}"
    return LakeFile(path, topic, partition, first, last, last - first + 1, 100, earliest, latest)


def wanted(**given: str):  # type: ignore[no-untyped-def]
    return parse_settings({**{one.name: one.default for one in SETTINGS}, **given})


FILES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 30)), max_size=12)


@given(FILES, st.integers(0, 70), st.integers(1, 40))
def test_steps_cover_every_offset_once_and_in_order(
    files: list[tuple[int, int, int]], position: int, limit: int
) -> None:
    lake = [a_file("orders", partition, first, first + more) for partition, first, more in files]
    at = TopicPartition("orders", 0)
    plan = steps(lake, {at: position}, limit)

    covered: dict[TopicPartition, list[int]] = {}
    for step in plan:
        for window in step:
            covered.setdefault(window.at, []).extend(range(window.first, window.end))
            inside = {offset for one in window.files for offset in range(one.first, one.last + 1)}
            assert inside & set(range(window.first, window.end))
    for number in range(3):
        place = TopicPartition("orders", number)
        there = {offset for one in lake if one.partition == number for offset in range(one.first, one.last + 1)}
        needed = {offset for offset in there if number or offset >= position}
        assert needed <= set(covered.get(place, []))
        assert covered.get(place, []) == sorted(set(covered.get(place, [])))


def test_what_is_done_already_is_not_counted_as_left() -> None:
    left = steps([a_file("orders", 0, 0, 99)], {TopicPartition("orders", 0): 60}, 20)

    assert [(window.first, window.end, window.rows) for step in left for window in step] == [
        (60, 80, 20),
        (80, 100, 20),
    ]


def lake_contents() -> tuple[Contents, Commit]:
    contents = Contents()
    commit = Commit(
        number=0,
        cause="batch",
        taken_at=500,
        add=[a_file("orders", 0, 0, 9, 100, 200), a_file("orders", 4, 0, 9, 300, 400), a_file("bills", 0, 0, 1, 0, 0)],
        topics={"orders": TopicState("a", 3, settings={"retention.ms": "5"}), "bills": TopicState("b", 1)},
    )
    contents.apply(commit)
    return contents, commit


def test_files_are_chosen_by_topic_and_time() -> None:
    contents, _ = lake_contents()

    def chosen(**given: str) -> list[tuple[str, int]]:
        return [(one.topic, one.partition) for one in selected(contents, wanted(**given))]

    assert chosen() == [("orders", 0), ("orders", 4), ("bills", 0)]
    assert chosen(topics="orders", until="250") == [("orders", 0)]
    assert chosen(pattern="o.*", **{"from": "250"}) == [("orders", 4)]
    assert chosen(until="0") == [("bills", 0)]


def test_topics_are_restored_as_they_were() -> None:
    contents, then = lake_contents()
    plan = wanted(prefix="r.", rename="bills=invoices", override="retention.ms=7,cleanup.policy=compact")
    found = restored(contents, then, plan, selected(contents, plan))

    assert [(one.source, one.topic, one.partitions) for one in found] == [
        ("bills", "invoices", 1),
        ("orders", "r.orders", 5),
    ]
    assert found[1].settings == {"retention.ms": "7", "cleanup.policy": "compact"}
    assert found[1].restore_settings["retention.ms"] == "-1"
    assert found[1].has_restore_settings(found[1].restore_settings)
    assert not found[1].has_restore_settings(found[1].settings)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topics": "ordres"}, "has no topic ordres; did you mean orders?"),
        ({"pattern": "x.*"}, r"has no topic that matches x\.\*"),
        ({"rename": "bills=orders"}, "bills and orders would both become orders"),
    ],
)
def test_topics_that_are_not_in_the_lake_are_refused(given: dict[str, str], message: str) -> None:
    contents, then = lake_contents()
    with pytest.raises(PipelineError, match=message):
        restored(contents, then, wanted(**given), selected(contents, wanted(**given)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"until": "yesterday"}, "until 'yesterday' is not a point in time: write 2026-11-15T10:30:00"),
        ({"until": "2026-01-01", "from": "2026-01-02"}, "until 2026-01-01 is before from 2026-01-02"),
        ({"verify": "maybe"}, "verify is 'maybe', but must be true or false"),
        ({"groups": "("}, "is not a regular expression"),
        ({"rename": "orders"}, "should read old=new"),
        ({"rename": "a=x,b=x"}, "gives two topics the same name"),
        ({"prefix": "a b"}, "there cannot be a topic"),
        ({"override": "retention.ms"}, "should read name=value"),
        ({"limit": "many"}, "limit is 'many', but must be a whole number above 0"),
        ({"untill": "5"}, "pipeline replay has no setting untill; did you mean until?"),
        ({"topics": "a", "pattern": "b"}, "give topics or pattern, not both"),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        PIPELINE.check(given)
