"""Offset lookup: the driver retries while a broker is away."""

from __future__ import annotations

import pytest

from qanat.connection.faults import RefusedError
from qanat.model.ids import TopicPartition
from qanat.spark.options.options import Access, Subscription
from qanat.spark.reads.offset_lookup import Lookups
from qanat.testing import EmbeddedBroker

PATTERN = Subscription(pattern=".*")
A = TopicPartition("a", 0)


def test_a_dropped_request_is_retried_and_internal_topics_match_no_pattern() -> None:
    with EmbeddedBroker() as broker, Lookups(Access(broker.bootstrap_servers)) as lookups:
        broker.create_topic("a")
        lookups.commit("group", {A: 0})  # Makes the topic of the groups' offsets.
        for api in ("Metadata", "DescribeLogDirs"):
            broker.drop(api)

        assert lookups.partitions(PATTERN) == [A]
        assert set(lookups.bytes_of([A])) == {A}
        assert {at.topic for at in lookups.partitions(Subscription(names=("__consumer_offsets",)))}


def test_topics_that_may_be_gone_are_skipped() -> None:
    named = Subscription(names=("a", "b"))
    with EmbeddedBroker() as broker, Lookups(Access(broker.bootstrap_servers)) as lookups:
        broker.create_topic("a")

        with pytest.raises(RefusedError, match="there is no topic b"):
            lookups.partitions(named)
        assert lookups.partitions(named, may_be_gone=True) == [A]
        assigned = Subscription(assigned=frozenset({A, TopicPartition("a", 7)}))
        assert lookups.partitions(assigned, may_be_gone=True) == [A]
