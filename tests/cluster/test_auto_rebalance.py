"""Auto rebalance: replicas of internal topics, and partitions onto brokers that joined."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace
from tests.cluster.images import apply, new_topic_id, registration

from qanat.cluster import keys, values
from qanat.cluster.auto_rebalance import partitions_to_spread, replicas_to_add
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import Put

OFFSETS = "__consumer_offsets"


def _join(image: MetadataImage, node_id: int, *, rack: str | None = None, can_be_followed: bool = True) -> None:
    listener = values.Listener(name="BROKERS", host="localhost", port=19092 + node_id)
    one = replace(registration(node_id), rack=rack, inter_broker=listener if can_be_followed else None)
    apply(image, [Put(keys.broker(node_id), values.encode(one))])


def _image(brokers: int, *, can_be_followed: bool = True) -> MetadataImage:
    image = MetadataImage()
    for node_id in range(brokers):
        _join(image, node_id, can_be_followed=can_be_followed)
    return image


def _topic(image: MetadataImage, name: str, *partitions: tuple[int, ...]) -> None:
    topic = values.Topic(name=name, topic_id=str(new_topic_id()), partitions=partitions)
    apply(image, [Put(keys.topic(name), values.encode(topic))])


def _carry_out(image: MetadataImage, topic: str, number: int, state: values.PartitionState) -> None:
    key = keys.partition(image.topics[topic].identity, number)
    apply(image, [Put(key, values.encode(state))])


def test_an_internal_topic_of_one_broker_gets_replicas_on_those_that_joined() -> None:
    image = _image(1)
    _topic(image, OFFSETS, *[(0,)] * 4)
    assert list(replicas_to_add(image, {OFFSETS: 3})) == []
    for node_id in (1, 2, 3):
        _join(image, node_id)

    changes = list(replicas_to_add(image, {OFFSETS: 3}))

    assert [len(change.after.target) for change in changes] == [3, 3, 3, 3]
    assert all(change.after.target[0] == 0 for change in changes)
    load = Counter(node_id for change in changes for node_id in change.after.adding)
    assert max(load.values()) - min(load.values()) <= 1


def test_internal_topics_are_left_alone_where_they_have_enough_or_are_being_moved() -> None:
    image = _image(3)
    _topic(image, OFFSETS, (0, 1, 2), (0, 1))
    (change,) = replicas_to_add(image, {OFFSETS: 3, "__transaction_state": 3})
    assert (change.number, change.after.adding) == (1, (2,))
    _carry_out(image, OFFSETS, 1, change.after)
    assert list(replicas_to_add(image, {OFFSETS: 3})) == []


def test_nobody_is_given_a_replica_who_cannot_follow_or_be_followed() -> None:
    image = _image(3, can_be_followed=False)
    _topic(image, OFFSETS, (0,))
    assert list(replicas_to_add(image, {OFFSETS: 3})) == []


def test_partitions_go_to_a_broker_that_joined_a_few_at_a_time() -> None:
    image = _image(2)
    _topic(image, "orders", *[(number % 2, (number + 1) % 2) for number in range(6)])
    assert partitions_to_spread(image, 10) == []
    _join(image, 2)
    begun = partitions_to_spread(image, 2)
    assert len(begun) == 2
    for change in begun:
        _carry_out(image, "orders", change.number, change.after)
    assert partitions_to_spread(image, 2) == []
    (third,) = partitions_to_spread(image, 3)
    assert third.number not in {change.number for change in begun}


def test_spreading_comes_to_an_end() -> None:
    image = _image(2)
    _topic(image, "orders", *[(number % 2, (number + 1) % 2) for number in range(9)])
    for node_id in (2, 3):
        _join(image, node_id)
    for _ in range(30):
        changes = partitions_to_spread(image, 2)
        for change in changes:
            target = change.after.target
            members = tuple(values.Member(node_id, image.revision) for node_id in target)
            done = replace(change.after, replicas=target, adding=(), removing=(), in_sync=members)
            _carry_out(image, "orders", change.number, done)
        if not changes:
            break
    topic = image.topics["orders"]
    load = Counter(node_id for number in range(9) for node_id in image.state(topic, number).replicas)
    assert not changes
    assert sorted(load.values()) == [4, 4, 5, 5]


def test_nothing_is_spread_while_a_replica_is_missing() -> None:
    image = _image(3)
    _topic(image, "orders", *[(0, 1)] * 4)
    state = image.state(image.topics["orders"], 0)
    assert partitions_to_spread(image, 10)
    _carry_out(image, "orders", 0, replace(state, in_sync=state.in_sync[:1]))
    assert partitions_to_spread(image, 10) == []
