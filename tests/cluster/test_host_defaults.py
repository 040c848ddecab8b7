"""Topics get three replicas, two of them in sync, where brokers run on three hosts; what was told wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.cluster.images import apply, new_topic_id

from qanat.broker.settings import topic_settings
from qanat.cluster import keys, values
from qanat.cluster.host_defaults import completed_internal_topics, has_several_hosts, hosts_of
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Delete, Put
from qanat.cluster.topics import CreateTopic, TopicDefaults, TopicPlan, decide_create
from qanat.model.topic_names import OFFSETS_TOPIC

UNTOLD = TopicDefaults(2, None, by_hosts=True)


def image_on(hosts: Sequence[str | None]) -> MetadataImage:
    """Broker i is on host i; None for one that other brokers cannot reach."""
    image = MetadataImage()
    for node_id, host in enumerate(hosts):
        client = values.Listener(name="CLIENTS", host="localhost", port=9092 + node_id)
        between = None if host is None else values.Listener(name="INTERNAL", host=host, port=19092)
        one = values.BrokerRegistration(
            node_id=node_id, incarnation=f"i{node_id}", listeners=(client,), inter_broker=between
        )
        apply(image, [Put(keys.broker(node_id), values.encode(one))])
    return image


def create(
    image: MetadataImage, defaults: TopicDefaults = UNTOLD, name: str = "orders", **more: object
) -> TopicPlan | Rejection:
    wish = CreateTopic(name, new_topic_id(), **more)  # type: ignore[arg-type]
    plan = decide_create(image, wish, topic_settings.parse, defaults)
    if isinstance(plan, TopicPlan):
        apply(image, plan.operations)
    return plan


def outcome(plan: TopicPlan | Rejection) -> tuple[int, Mapping[str, str]]:
    assert isinstance(plan, TopicPlan), plan
    return len(plan.topic.partitions[0]), plan.overrides


@pytest.mark.parametrize(
    ("hosts", "replicas"),
    [
        (["a", "b", "c"], 3),
        (["a", "b", "c", "d", "e"], 3),
        (["a", "b"], 1),
        (["a", "a", "a"], 1),
        (["127.0.0.1"] * 3, 1),
        (["a", "A", "b"], 1),
        (["a", "b", None], 1),
    ],
)
def test_three_hosts_make_three_replicas_with_two_in_sync(hosts: list[str | None], replicas: int) -> None:
    wanted = {"min.insync.replicas": "2"} if replicas == 3 else {}
    assert outcome(create(image_on(hosts))) == (replicas, wanted)


def test_told_numbers_win() -> None:
    image = image_on(["a", "b", "c"])
    assert outcome(create(image, TopicDefaults(2, 2, by_hosts=True), "told")) == (2, {})
    assert outcome(create(image, name="asked", replication_factor=1)) == (1, {})
    assert outcome(create(image, TopicDefaults(2, None, by_hosts=False), "set")) == (3, {})
    own = {"min.insync.replicas": "1"}
    assert outcome(create(image, name="own", configs=own)) == (3, own)


def test_a_client_that_asks_for_three_replicas_gets_two_in_sync() -> None:
    plan = create(image_on(["a", "b", "c"]), TopicDefaults(by_hosts=True), replication_factor=3)
    assert outcome(plan) == (3, {"min.insync.replicas": "2"})


def test_a_host_that_is_down_makes_no_topic_of_one_replica() -> None:
    image = image_on(["a", "b", "c"])
    create(image, name=OFFSETS_TOPIC, replication_factor=3, is_internal=True)
    apply(image, [Delete(keys.broker(2))])
    assert has_several_hosts(image)
    refused = create(image)
    assert isinstance(refused, Rejection)
    assert "only 2 broker(s) are registered" in refused.message


def test_brokers_of_one_machine_stay_one_host_whatever_their_topics_have() -> None:
    image = image_on(["127.0.0.1"] * 3)
    create(image, name=OFFSETS_TOPIC, replication_factor=3, is_internal=True)
    assert not has_several_hosts(image)
    assert hosts_of(image.brokers) == {"127.0.0.1"}


def test_an_internal_topic_that_grew_to_three_replicas_is_to_have_two_in_sync() -> None:
    image = image_on(["a"])
    create(image, name=OFFSETS_TOPIC, partitions=1, replication_factor=1, is_internal=True)
    grown = image_on(["a", "b", "c"])
    topic = image.topics[OFFSETS_TOPIC]
    apply(grown, [Put(keys.topic(OFFSETS_TOPIC), values.encode(topic))])
    assert list(completed_internal_topics(grown)) == []
    whole = values.Topic(name=OFFSETS_TOPIC, topic_id=topic.topic_id, partitions=((0, 1, 2),), is_internal=True)
    apply(grown, [Put(keys.topic(OFFSETS_TOPIC), values.encode(whole))])
    assert list(completed_internal_topics(grown)) == [OFFSETS_TOPIC]
    told = values.TopicConfig(overrides={"min.insync.replicas": "1"})
    apply(grown, [Put(keys.topic_config(OFFSETS_TOPIC), values.encode(told))])
    assert list(completed_internal_topics(grown)) == []
