"""Assignors: everything is assigned once, evenly, and with as few moves as can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.groups.assignors.assignor import AssignedMember, Assignment, Assignor
from qanat.groups.assignors.range import RangeAssignor
from qanat.groups.assignors.simple import SimpleAssignor
from qanat.groups.assignors.uniform import UniformAssignor
from qanat.model.ids import TopicPartition

TOPICS = ("a", "b", "c", "d")
ASSIGNORS: list[Assignor] = [UniformAssignor(), RangeAssignor()]

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12), max_size=4)
subscriptions = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(7)]),
    st.lists(st.sampled_from((*TOPICS, "gone")), max_size=5).map(tuple),
    max_size=7,
)


def members_of(topics: Mapping[str, tuple[str, ...]], current: Assignment | None = None) -> dict[str, AssignedMember]:
    held = current or {}
    return {name: AssignedMember(wanted, held.get(name, ())) for name, wanted in topics.items()}


def wanted_partitions(topics: dict[str, tuple[str, ...]], sizes: dict[str, int]) -> list[TopicPartition]:
    asked = {topic for wanted in topics.values() for topic in wanted}
    return sorted(TopicPartition(topic, number) for topic in asked for number in range(sizes.get(topic, 0)))


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda one: one.name)
@given(topics=subscriptions, sizes=counts)
def test_every_wanted_partition_goes_to_one_subscriber(
    assignor: Assignor, topics: dict[str, tuple[str, ...]], sizes: dict[str, int]
) -> None:
    assigned = assignor.assign(members_of(topics), sizes)

    assert list(assigned) == sorted(topics)
    assert sorted(at for held in assigned.values() for at in held) == wanted_partitions(topics, sizes)
    assert all(at.topic in topics[member] for member, held in assigned.items() for at in held)
    backwards = dict(reversed(list(topics.items())))
    assert assignor.assign(members_of(backwards), dict(reversed(list(sizes.items())))) == assigned


@given(count=st.integers(1, 8), sizes=counts)
def test_uniform_is_even_where_all_want_the_same(count: int, sizes: dict[str, int]) -> None:
    topics = {f"m{number}": TOPICS for number in range(count)}
    held = [len(found) for found in UniformAssignor().assign(members_of(topics), sizes).values()]

    assert max(held) - min(held) <= 1


@given(topics=subscriptions, sizes=counts)
def test_uniform_leaves_no_move_that_would_help(topics: dict[str, tuple[str, ...]], sizes: dict[str, int]) -> None:
    assigned = UniformAssignor().assign(members_of(topics), sizes)

    for member, held in assigned.items():
        for at in held:
            others = [len(assigned[other]) for other in topics if at.topic in topics[other] and other != member]
            assert all(size + 1 >= len(held) for size in others)


@given(topics=subscriptions, sizes=counts)
def test_uniform_moves_nothing_when_nothing_has_changed(
    topics: dict[str, tuple[str, ...]], sizes: dict[str, int]
) -> None:
    first = UniformAssignor().assign(members_of(topics), sizes)

    assert UniformAssignor().assign(members_of(topics, first), sizes) == first


@given(count=st.integers(1, 6), sizes=counts)
def test_uniform_moves_only_what_a_newcomer_gets(count: int, sizes: dict[str, int]) -> None:
    before = {f"m{number}": TOPICS for number in range(count)}
    first = UniformAssignor().assign(members_of(before), sizes)
    after = {**before, "newcomer": TOPICS}
    second = UniformAssignor().assign(members_of(after, first), sizes)

    assert all(set(second[member]) <= set(first[member]) for member in before)


@given(count=st.integers(2, 6), sizes=counts)
def test_uniform_moves_only_what_a_member_left_behind(count: int, sizes: dict[str, int]) -> None:
    before = {f"m{number}": TOPICS for number in range(count)}
    first = UniformAssignor().assign(members_of(before), sizes)
    after = {name: topics for name, topics in before.items() if name != "m0"}
    second = UniformAssignor().assign(members_of(after, first), sizes)

    assert all(set(first[member]) <= set(second[member]) for member in after)


@given(count=st.integers(1, 7), size=st.integers(0, 12))
def test_range_gives_the_same_numbers_of_both_topics_to_one_member(count: int, size: int) -> None:
    topics = {f"m{number}": ("a", "b") for number in range(count)}
    for held in RangeAssignor().assign(members_of(topics), {"a": size, "b": size}).values():
        first = [at.partition for at in held if at.topic == "a"]
        assert first == [at.partition for at in held if at.topic == "b"]
        assert first == list(range(first[0], first[0] + len(first))) if first else True


def test_range_gives_the_first_members_one_more() -> None:
    assigned = RangeAssignor().assign(members_of({"x": ("a",), "y": ("a",), "z": ("a",)}), {"a": 5})

    assert {member: [at.partition for at in held] for member, held in assigned.items()} == {
        "x": [0, 1],
        "y": [2, 3],
        "z": [4],
    }


def test_range_goes_by_the_lasting_names_of_static_members() -> None:
    members = {"b-1": AssignedMember(("a",), instance_id="one"), "a-2": AssignedMember(("a",), instance_id="two")}

    assert RangeAssignor().assign(members, {"a": 2}) == {
        "a-2": (TopicPartition("a", 1),),
        "b-1": (TopicPartition("a", 0),),
    }


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from(["t", "u", "v"]), max_size=3), max_size=8),
    st.fixed_dictionaries({}, optional={"t": st.integers(1, 9), "u": st.integers(1, 9), "v": st.integers(1, 9)}),
)
def test_simple_leaves_no_partition_alone_and_no_member_idle(
    wanted: dict[str, set[str]], counts: dict[str, int]
) -> None:
    assignor = SimpleAssignor()
    members = {name: AssignedMember(tuple(sorted(topics))) for name, topics in wanted.items()}
    given_ = assignor.assign(members, counts)

    read = {topic for topics in wanted.values() for topic in topics if topic in counts}
    partitions = {TopicPartition(topic, number) for topic in read for number in range(counts[topic])}
    assert {at for row in given_.values() for at in row} == partitions
    for name, row in given_.items():
        assert all(at.topic in wanted[name] for at in row)
        assert {at.topic for at in row} or not any(topic in counts for topic in wanted[name])
    settled = {name: AssignedMember(member.topics, given_[name]) for name, member in members.items()}
    assert assignor.assign(settled, counts) == given_, "who asks again keeps what it has"


@pytest.mark.parametrize(("member_count", "partition_count"), [(1, 5), (2, 5), (5, 5), (7, 3), (200, 8), (3, 100)])
def test_simple_divides_evenly(member_count: int, partition_count: int) -> None:
    members = {f"m{number}": AssignedMember(("t",)) for number in range(member_count)}
    given_ = SimpleAssignor().assign(members, {"t": partition_count})

    loads = [len(row) for row in given_.values()]
    crews = Counter(at for row in given_.values() for at in row)
    assert max(loads) - min(loads) <= 1
    assert max(crews.values()) - min(crews.values()) <= 1
    assert len(crews) == partition_count


def test_simple_moves_little_when_somebody_leaves() -> None:
    assignor, members = SimpleAssignor(), {name: AssignedMember(("t",)) for name in "abc"}
    before = assignor.assign(members, {"t": 9})
    settled = {name: AssignedMember(("t",), before[name]) for name in "ab"}
    after = assignor.assign(settled, {"t": 9})

    assert all(at in after[name] for name in "ab" for at in before[name])
