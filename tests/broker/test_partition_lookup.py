"""Partitions are found by name or id, or the error says why clients may not use them."""

from __future__ import annotations

from qanat.broker.replicas.partition import Partition
from qanat.model.error_codes import ErrorCode
from qanat.model.topic_names import OFFSETS_TOPIC
from qanat.testing import EmbeddedBroker


async def test_a_partition_that_we_lead_is_found_by_name_and_by_id() -> None:
    async with EmbeddedBroker.here() as here:
        await here.create_topic("orders", partitions=2)
        lookup, topic = here.node.broker.lookup, here.node.broker.metadata.image.topics["orders"]

        found = lookup.led("orders", 1)

        assert isinstance(found, Partition)
        assert lookup.writable("orders", 1) is found
        assert lookup.led_by_id(topic.identity.value.bytes, 1) is found


async def test_a_partition_that_does_not_exist_is_unknown() -> None:
    async with EmbeddedBroker.here() as here:
        await here.create_topic("orders", partitions=2)
        lookup, topic = here.node.broker.lookup, here.node.broker.metadata.image.topics["orders"]

        assert lookup.led("orders", 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert lookup.writable("other", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert lookup.led_by_id(topic.identity.value.bytes, 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert lookup.led_by_id(bytes(16), 0) is ErrorCode.UNKNOWN_TOPIC_ID


async def test_clients_do_not_write_to_internal_topics_whether_they_exist_or_not() -> None:
    async with EmbeddedBroker.here() as here:
        lookup = here.node.broker.lookup
        assert lookup.writable(OFFSETS_TOPIC, 0) is ErrorCode.INVALID_TOPIC_EXCEPTION

        await here.node.broker.groups.ensure_topic()

        assert lookup.writable(OFFSETS_TOPIC, 0) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert isinstance(lookup.led(OFFSETS_TOPIC, 0), Partition)


async def test_a_broker_without_followers_has_no_copy_to_read() -> None:
    async with EmbeddedBroker.here() as here:
        await here.create_topic("orders", partitions=1)
        topic = here.node.broker.metadata.image.topics["orders"]

        assert here.node.broker.lookup.readable_follower("orders", bytes(16), 0) is None
        assert here.node.broker.lookup.readable_follower("", topic.identity.value.bytes, 0) is None
        assert here.node.broker.lookup.readable_follower("", bytes(16), 0) is None
