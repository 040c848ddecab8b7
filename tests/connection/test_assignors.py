"""Who of a group reads what, and how members tell each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.connection.assignors import (
    assign_range,
    assign_round_robin,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from qanat.model.errors import MalformedMessageError
from qanat.model.ids import TopicPartition


def shares(assigned: dict[str, list[TopicPartition]]) -> dict[str, list[str]]:
    return {member: [str(at) for at in partitions] for member, partitions in assigned.items()}


def test_ranges_are_neighbours_and_the_first_have_one_more() -> None:
    assigned = assign_range({"b": ["t", "u"], "a": ["t"]}, {"t": 5, "u": 1})

    assert shares(assigned) == {"a": ["t-0", "t-1", "t-2"], "b": ["t-3", "t-4", "u-0"]}


def test_turns_pass_over_who_does_not_want_a_topic() -> None:
    assigned = assign_round_robin({"b": ["t", "u"], "a": ["t"]}, {"t": 3, "u": 2, "nobody": 4})

    assert shares(assigned) == {"a": ["t-0", "t-2"], "b": ["t-1", "u-0", "u-1"]}


Assign = Callable[[dict[str, list[str]], dict[str, int]], dict[str, list[TopicPartition]]]
TOPICS = st.lists(st.sampled_from("tuv"), unique=True)


@pytest.mark.parametrize("assign", [assign_range, assign_round_robin])
@given(
    st.dictionaries(st.text("abcde", min_size=1), TOPICS, min_size=1),
    st.dictionaries(st.sampled_from("tuvw"), st.integers(1, 9)),
)
def test_every_partition_that_is_wanted_has_one_owner_who_wants_it(
    assign: Assign, subscriptions: dict[str, list[str]], sizes: dict[str, int]
) -> None:
    assigned = assign(subscriptions, sizes)
    given_out = [at for partitions in assigned.values() for at in partitions]
    wanted = {topic for topics in subscriptions.values() for topic in topics}

    assert sorted(given_out) == [TopicPartition(t, p) for t in sorted(sizes) if t in wanted for p in range(sizes[t])]
    assert all(at.topic in subscriptions[member] for member, partitions in assigned.items() for at in partitions)


def test_what_members_tell_each_other_makes_the_round_trip() -> None:
    partitions = [TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("u", 1)]

    assert decode_subscription(encode_subscription(["t", "u"])) == ["t", "u"]
    assert decode_assignment(encode_assignment(partitions)) == partitions
    assert decode_assignment(b"") == []
    with pytest.raises(MalformedMessageError):
        decode_assignment(b"\0")
