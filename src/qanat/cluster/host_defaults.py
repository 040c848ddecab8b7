"""Replicas of topics for which nobody said otherwise: three, two of them in sync, on three hosts or more.

Rule 1: brokers of one host count once, and a broker without an inter-broker listener not at all: a second replica there
        would add no safety, or could not be fetched.
Rule 2: a host that is down for a moment makes no topic of one replica. Internal topics have three replicas as soon as
        there are three hosts, so they remember it: topics are refused then, as where three replicas were told.
Rule 3: `min.insync.replicas` is written into the topic. It must not change when a host comes or goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from qanat.cluster import values
from qanat.cluster.image import MetadataImage
from qanat.model.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC

HOSTS_MIN = 3
REPLICAS = 3
IN_SYNC = 2
MIN_IN_SYNC = "min.insync.replicas"
INTERNAL_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC)
_LOOPBACK = ("localhost", "::1", "127.")


def hosts_of(brokers: Mapping[int, values.BrokerRegistration]) -> set[str]:
    """The hosts of brokers that others can follow, by the addresses that brokers know of each other."""
    return {one.inter_broker.host.lower() for one in brokers.values() if one.inter_broker is not None}


def has_several_hosts(image: MetadataImage) -> bool:
    """Whether the cluster has three hosts, one of which may be down."""
    hosts = hosts_of(image.brokers)
    if len(hosts) >= HOSTS_MIN:
        return True
    is_one_machine = any(host.startswith(_LOOPBACK) for host in hosts)
    return bool(hosts) and not is_one_machine and any(_has_three(image, name) for name in INTERNAL_TOPICS)


def default_replicas(image: MetadataImage) -> int:
    """Replicas of a topic without a number, where `default.replication.factor` is not set."""
    return REPLICAS if has_several_hosts(image) else 1


def default_configs(image: MetadataImage, assignment: Sequence[Sequence[int]]) -> Mapping[str, str]:
    """Settings of a new topic, where `min.insync.replicas` is not set."""
    is_replicated = all(len(row) >= REPLICAS for row in assignment)
    return {MIN_IN_SYNC: str(IN_SYNC)} if is_replicated and has_several_hosts(image) else {}


def completed_internal_topics(image: MetadataImage) -> Iterator[str]:
    """Internal topics that got their replicas after they were created, and that need no more than one in sync."""
    for name in INTERNAL_TOPICS:
        topic = image.topics.get(name)
        if topic is None or MIN_IN_SYNC in image.overrides(name) or not has_several_hosts(image):
            continue
        states = [image.state(topic, number) for number in range(len(topic.partitions))]
        if all(len(one.in_sync) >= REPLICAS and not one.adding and not one.removing for one in states):
            yield name


def _has_three(image: MetadataImage, name: str) -> bool:
    topic = image.topics.get(name)
    return topic is not None and len(image.state(topic, 0).replicas) >= REPLICAS
