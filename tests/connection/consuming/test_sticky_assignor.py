"""Kafka's cooperative-sticky assignor: balanced, sticky, and never two owners."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qanat.connection.assignors import decode_claim, decode_subscription, encode_claim, encode_subscription
from qanat.connection.consuming.sticky_assignor import Claim, assign_cooperatively, assign_sticky
from qanat.model.ids import TopicPartition


def at(*numbers: int) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in numbers]


def test_a_new_member_gets_nothing_until_the_owner_has_given_back() -> None:
    claims = {"a": Claim(["t"], at(0, 1, 2, 3), 1), "b": Claim(["t"])}
    first = assign_cooperatively(claims, {"t": 4})
    second = assign_cooperatively({"a": Claim(["t"], first["a"], 2), "b": Claim(["t"], [], 2)}, {"t": 4})

    assert first == {"a": at(0, 1), "b": []}
    assert second == {"a": at(0, 1), "b": at(2, 3)}


def test_of_two_claims_the_later_generation_wins() -> None:
    claims = {"a": Claim(["t"], at(0, 1), 1), "b": Claim(["t"], at(1), 2)}

    assert assign_sticky(claims, {"t": 2}) == {"a": at(0), "b": at(1)}


def test_two_claims_of_one_generation_are_none() -> None:
    claims = {"a": Claim(["t"], at(0), 1), "b": Claim(["t"], at(0), 1)}

    assert assign_cooperatively(claims, {"t": 1}) == {"a": [], "b": []}


TOPICS = st.lists(st.sampled_from("tuv"), unique=True)
OWNED = st.lists(st.builds(TopicPartition, st.sampled_from("tuv"), st.integers(0, 9)), unique=True)
CLAIMS = st.dictionaries(st.text("abcde", min_size=1), st.builds(Claim, TOPICS, OWNED, st.integers(-1, 3)), min_size=1)
SIZES = st.dictionaries(st.sampled_from("tuvw"), st.integers(1, 9))


@given(CLAIMS, SIZES)
def test_every_wanted_partition_has_one_owner_who_wants_it(claims: dict[str, Claim], sizes: dict[str, int]) -> None:
    assigned = assign_sticky(claims, sizes)
    wanted = {topic for claim in claims.values() for topic in claim.topics}
    everything = [TopicPartition(topic, n) for topic in sorted(sizes) if topic in wanted for n in range(sizes[topic])]

    assert sorted(one for some in assigned.values() for one in some) == everything
    assert all(one.topic in claims[member].topics for member, some in assigned.items() for one in some)


@given(st.lists(OWNED, min_size=1, max_size=4), st.integers(1, 9))
def test_members_with_one_subscription_differ_by_one_at_most(owned: list[list[TopicPartition]], size: int) -> None:
    claims = {f"m{index}": Claim(["t"], some, index) for index, some in enumerate(owned)}
    counts = [len(some) for some in assign_sticky(claims, {"t": size}).values()]

    assert max(counts) - min(counts) <= 1


@given(CLAIMS, SIZES)
def test_nobody_gets_what_another_member_claims_with_the_same_right(
    claims: dict[str, Claim], sizes: dict[str, int]
) -> None:
    for member, some in assign_cooperatively(claims, sizes).items():
        for one in some:
            rivals = [other for other, claim in claims.items() if other != member and one in claim.owned]
            assert all(claims[rival].generation < claims[member].generation for rival in rivals)


@given(CLAIMS, SIZES)
def test_a_second_rebalance_changes_nothing_more(claims: dict[str, Claim], sizes: dict[str, int]) -> None:
    assigned = assign_sticky(claims, sizes)
    settled = {member: Claim(claims[member].topics, some, 9) for member, some in assigned.items()}

    assert assign_cooperatively(settled, sizes) == assigned


def test_claims_make_the_round_trip_and_old_subscriptions_claim_nothing() -> None:
    claim = Claim(["t", "u"], at(0, 2), 7)

    assert decode_claim(encode_claim(claim)) == claim
    assert decode_subscription(encode_claim(claim)) == ["t", "u"]
    assert decode_claim(encode_subscription(["t"])) == Claim(["t"], [], -1)
