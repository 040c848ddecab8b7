"""The image follows its store, whatever arrives."""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

from qanat.adapters.memory_store import MemoryStore
from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.nodes import MemberStatus, MemberStatuses, Nodes
from qanat.cluster.store import (
    Absent,
    Changes,
    Delete,
    DeletePrefix,
    Entry,
    Event,
    EventKind,
    ModifiedAt,
    Operation,
    Put,
    Revision,
    Snapshot,
)
from qanat.model.ids import TopicId


def topic(name: str, number: int = 7, partitions: tuple[tuple[int, ...], ...] = ((0,),)) -> values.Topic:
    return values.Topic(name=name, topic_id=str(TopicId(UUID(int=number))), partitions=partitions)


def put(key: str, value: bytes, revision: int) -> Event:
    return Event(EventKind.PUT, key, value, Revision(revision), Revision(revision))


def delete(key: str, revision: int) -> Event:
    return Event(EventKind.DELETE, key, b"", Revision(revision))


def test_a_topic_is_found_by_name_and_by_id_until_it_is_deleted() -> None:
    image, orders = MetadataImage(), topic("orders")
    image.apply(put(keys.topic("orders"), values.encode(orders), 2))

    assert image.topics == {"orders": orders}
    assert image.topics_by_id == {orders.identity: orders}
    image.apply(delete(keys.topic("orders"), 3))
    assert (image.topics, image.topics_by_id, image.names_by_metric) == ({}, {}, {})
    assert image.revision == 3


def test_a_topic_that_was_made_anew_has_only_its_new_id() -> None:
    image, new = MetadataImage(), topic("a", 2)
    image.apply(put(keys.topic("a"), values.encode(topic("a", 1)), 2))
    image.apply(put(keys.topic("a"), values.encode(new), 3))

    assert image.topics_by_id == {new.identity: new}


def test_everything_else_is_found_where_it_belongs() -> None:
    image = MetadataImage()
    broker = values.BrokerRegistration(node_id=3, epoch=1, incarnation="i", listeners=())
    image.apply(put(keys.CLUSTER, values.encode(values.ClusterInfo(cluster_id="c")), 2))
    image.apply(put(keys.CONTROLLER, values.encode(values.Controller(node_id=3)), 3))
    image.apply(put(keys.broker(3), values.encode(broker), 4))
    image.apply(put(keys.topic_config("a"), values.encode(values.TopicConfig(overrides={"x": "1"})), 5))
    image.apply(put(keys.broker_config(None), values.encode(values.BrokerConfig(overrides={"y": "2"})), 6))
    image.apply(put(keys.group_config("g/1"), values.encode(values.GroupConfig(overrides={"z": "3"})), 6))

    assert image.cluster is not None
    assert image.controller is not None
    assert (image.cluster.cluster_id, image.controller.node_id, image.brokers) == ("c", 3, {3: broker})
    assert (image.overrides("a"), image.overrides("b"), image.broker_configs) == ({"x": "1"}, {}, {None: {"y": "2"}})
    assert (image.group_overrides("g/1"), image.group_overrides("g")) == ({"z": "3"}, {})
    for number, key in enumerate(list(image.revisions)):
        image.apply(delete(key, 7 + number))
    assert [image.cluster, image.controller] == [None, None]
    assert image.group_configs == {}
    assert (image.brokers, image.topic_configs, image.broker_configs, image.revisions) == ({}, {}, {}, {})


def test_unknown_keys_are_ignored_and_unreadable_values_count_as_absent() -> None:
    image = MetadataImage()
    image.apply(put("/qanat/from-the-future/1", b"?", 2))
    image.apply(put(keys.topic("a"), b"not json", 3))
    image.apply(put(keys.topic("b"), values.encode(topic("b"))[:-30] + b'"}', 4))
    image.apply(put(keys.topic("c"), b'{"name":"c","topic_id":"?","partitions":[]}', 5))

    assert image.topics == {}
    assert list(image.unreadable) == [keys.topic("a"), keys.topic("b"), keys.topic("c")]
    image.apply(put(keys.topic("a"), values.encode(topic("a")), 6))
    image.apply(delete(keys.topic("b"), 7))
    image.apply(delete(keys.topic("c"), 8))
    assert (list(image.topics), image.unreadable) == (["a"], {})


def test_events_of_the_past_and_repeated_ones_change_nothing() -> None:
    image = MetadataImage()
    image.apply(put(keys.topic("a"), values.encode(topic("a", 1)), 2))
    image.apply(delete(keys.topic("a"), 3))
    image.apply(put(keys.topic("a"), values.encode(topic("a", 1)), 2))
    assert image.topics == {}
    image.apply(put(keys.topic("b"), values.encode(topic("b")), 4))
    image.apply(put(keys.topic("b"), values.encode(topic("b")), 4))
    assert (list(image.topics), image.revision) == (["b"], 4)


def test_a_compare_from_the_image_holds_while_nothing_changed() -> None:
    image = MetadataImage()
    image.apply(put("/qanat/x", b"", 5))

    assert image.unchanged("/qanat/x") == ModifiedAt("/qanat/x", Revision(5))
    assert image.unchanged("/qanat/y") == Absent("/qanat/y")


def test_catching_up_tells_what_was_missed_and_nothing_in_health() -> None:
    image = MetadataImage()
    kept, changed, new = (keys.topic(name) for name in ("kept", "changed", "new"))
    for number, key in enumerate((kept, changed, keys.topic("lost"))):
        image.apply(put(key, values.encode(topic(key.rpartition("/")[2], number)), 2 + number))
    entries = tuple(
        Entry(key, values.encode(topic(key.rpartition("/")[2], 20 + number)), Revision(revision), Revision(revision))
        for number, (key, revision) in enumerate([(kept, 2), (changed, 3 + 4), (new, 6)])
    )
    snapshot = Snapshot(entries, Revision(8))

    events = image.catch_up(snapshot)

    assert [(event.kind, event.key) for event in events] == [
        (EventKind.DELETE, keys.topic("lost")),
        (EventKind.PUT, changed),
        (EventKind.PUT, new),
    ]
    assert sorted(image.topics) == ["changed", "kept", "new"]
    assert image.revision == 8
    assert image.catch_up(snapshot) == []
    assert image.catch_up(Snapshot((), Revision(7))) == []


def test_a_snapshot_that_the_watch_has_gone_past_still_makes_good_what_the_watch_left_out() -> None:
    """C80: written, changed and deleted where the watch missed it; and what the watch has delivered since stays."""
    image = MetadataImage()
    stale, dropped, renewed, gone = (keys.topic(name) for name in ("stale", "dropped", "renewed", "gone"))
    for number, key in enumerate((stale, dropped, renewed, gone)):
        image.apply(put(key, values.encode(topic(key.rpartition("/")[2], number)), 2 + number))
    taken_at_8 = tuple(
        Entry(key, values.encode(topic(key.rpartition("/")[2], 20 + number)), Revision(2), Revision(revision))
        for number, (key, revision) in enumerate([(stale, 6), (renewed, 4), (gone, 5), (keys.topic("new"), 8)])
    )
    image.apply(put(renewed, values.encode(topic("renewed", 30)), 9))
    image.apply(delete(gone, 10))

    events = image.catch_up(Snapshot(taken_at_8, Revision(8)))

    assert [(event.kind, event.key) for event in events] == [
        (EventKind.DELETE, dropped),
        (EventKind.PUT, stale),
        (EventKind.PUT, keys.topic("new")),
    ]
    assert sorted(image.topics) == ["new", "renewed", "stale"]
    assert image.topics["renewed"] == topic("renewed", 30)
    assert (image.revision, image.revisions[stale]) == (10, 6)
    assert image.catch_up(Snapshot(taken_at_8, Revision(8))) == []


def contents(image: MetadataImage) -> tuple[object, ...]:
    return (
        image.revision,
        image.topics,
        image.topics_by_id,
        image.names_by_metric,
        image.topic_configs,
        image.brokers,
        image.revisions,
    )


def random_operation(random: Random) -> Operation:
    name = random.choice(("a", "a.b", "a_b", "c"))
    match random.randrange(6):
        case 0:
            return Delete(keys.topic(name))
        case 1:
            return DeletePrefix(random.choice((keys.TOPICS, keys.TOPIC_CONFIGS, keys.BROKERS)))
        case 2:
            return Put(
                keys.topic_config(name), values.encode(values.TopicConfig(overrides={"n": str(random.random())}))
            )
        case 3:
            node_id = random.randrange(4)
            broker = values.BrokerRegistration(node_id=node_id, epoch=1, incarnation="i", listeners=())
            return Put(keys.broker(node_id), values.encode(broker))
        case _:
            return Put(keys.topic(name), values.encode(topic(name, random.randrange(1, 10**9))))


def test_events_and_snapshots_lead_to_the_same_image() -> None:
    async def test() -> None:
        random, store = Random(11), MemoryStore()
        followed = MetadataImage.of(await store.list(keys.ROOT))
        watcher = store.watch(keys.ROOT, followed.revision)
        for _ in range(300):
            before = (await store.list(keys.ROOT)).revision
            await store.commit([], [random_operation(random)])
            snapshot = await store.list(keys.ROOT)
            if snapshot.revision != before:
                changes = await anext(watcher)
                assert isinstance(changes, Changes)
                for event in changes.events:
                    followed.apply(event)
            assert contents(followed) == contents(MetadataImage.of(snapshot))
        await watcher.aclose()

    asyncio.run(test())


def registered(directory_id: str) -> bytes:
    listener = values.Listener(name="PLAINTEXT", host="localhost", port=9092)
    made = values.BrokerRegistration(node_id=2, incarnation="i", listeners=(listener,), directory_id=directory_id)
    return values.encode(made)


def noted(directory_id: str, *, is_first: bool) -> bytes:
    return values.encode(values.NodeDirectory(directory_id=directory_id, is_first=is_first))


def _standing(image: MetadataImage, member: values.Member) -> MemberStatus:
    state = values.PartitionState(leader=2, leader_epoch=0, replicas=(2, 3), in_sync=(member,))
    return MemberStatuses(state, Nodes.of(image), 0).of(member)


def test_c10_a_node_whose_other_disk_the_watch_has_left_out_counts_as_away_and_not_as_back() -> None:
    image, member = MetadataImage(), values.Member(2, 5)
    image.apply(put(keys.node_directory(2), noted("old", is_first=True), 4))
    image.apply(put(keys.broker(2), registered("old"), 5))
    assert _standing(image, member) is MemberStatus.STEADY
    image.apply(delete(keys.broker(2), 6))
    image.apply(put(keys.broker(2), registered("new"), 8))

    assert image.is_torn(2)
    assert _standing(image, member) is MemberStatus.GONE
    # The store is listed again, and the image has what the watch missed.
    snapshot = [
        Entry(keys.node_directory(2), noted("new", is_first=False), Revision(4), Revision(7)),
        Entry(keys.broker(2), registered("new"), Revision(8), Revision(8)),
    ]
    image.catch_up(Snapshot(tuple(snapshot), Revision(8)))
    assert not image.is_torn(2)
    assert _standing(image, member) is MemberStatus.EMPTY
