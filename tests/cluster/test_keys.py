"""Every key can be parsed, and nothing else passes for one."""

from __future__ import annotations

from uuid import UUID

import pytest

from qanat.cluster import keys
from qanat.model.ids import TopicId

TOPIC_ID = TopicId(UUID(int=0xFFFE << 96 | 7))


@pytest.mark.parametrize(
    ("key", "parsed"),
    [
        (keys.CLUSTER, keys.ClusterKey()),
        (keys.CONTROLLER, keys.ControllerKey()),
        (keys.PRODUCER_IDS, keys.ProducerIdsKey()),
        (keys.topic("a.b_c-D"), keys.TopicKey("a.b_c-D")),
        (keys.topic_config("a"), keys.TopicConfigKey("a")),
        (keys.topic_id(TOPIC_ID), keys.TopicIdKey(TOPIC_ID)),
        (keys.broker(0), keys.BrokerKey(0)),
        (keys.broker(2**31 - 1), keys.BrokerKey(2**31 - 1)),
        (keys.broker_config(12), keys.BrokerConfigKey(12)),
        (keys.broker_config(None), keys.BrokerConfigKey(None)),
        (keys.group_config("billing"), keys.GroupConfigKey("billing")),
        (keys.group_config("a/b %2F ü"), keys.GroupConfigKey("a/b %2F ü")),
        (keys.partition(TOPIC_ID, 12), keys.PartitionKey(TOPIC_ID, 12)),
        (keys.failure_report(12), keys.FailureReportKey(12)),
        (keys.eviction(12), keys.EvictionKey(12)),
        (keys.acl("0a1b"), keys.AclKey("0a1b")),
        (keys.api_key("0123456789abcdef"), keys.ApiKeyKey("0123456789abcdef")),
        (keys.credential("a/b %2F ü", "SCRAM-SHA-256"), keys.CredentialKey("a/b %2F ü", "SCRAM-SHA-256")),
        (keys.SCRAM_SECRET, keys.ScramSecretKey()),
        (keys.push_refresh(TOPIC_ID, "a/b %2F ü"), keys.PushRefreshKey(TOPIC_ID, "a/b %2F ü")),
    ],
)
def test_a_key_is_read_as_it_was_written(key: str, parsed: keys.Key) -> None:
    assert keys.parse(key) == parsed
    assert key.startswith(keys.ROOT)


@pytest.mark.parametrize(
    "key",
    [
        "/",
        "/qanat",
        "/qanat/",
        "/other/topics/a",
        "/qanat/topics",
        "/qanat/topics/",
        "/qanat/topics/a/b",
        "/qanat/group-configs/a/b",
        "/qanat/push-refreshes/short/group",
        "/qanat/topic-configs/a/b",
        "/qanat/topic-ids/short",
        "/qanat/topic-ids/" + "=" * 22,
        "/qanat/brokers/one",
        "/qanat/brokers/01",
        "/qanat/brokers/-1",
        "/qanat/brokers/1/2",
        "/qanat/broker-configs/all",
        "/qanat/partitions/1/1",
        f"/qanat/partitions/{TOPIC_ID}",
        f"/qanat/partitions/{TOPIC_ID}/x",
        "/qanat/suspicions/one",
        "/qanat/suspicions/1/2",
        "/qanat/evictions/one",
        "/qanat/acls/",
        "/qanat/acls/1/2",
        "/qanat/credentials/alice",
        "/qanat/credentials/alice/",
        "/qanat/credentials//SCRAM-SHA-256",
        "/qanat/credentials/alice/SCRAM-SHA-256/more",
        "/qanat/credentials/al%69ce/SCRAM-SHA-256",
        "/qanat/cluster/id",
    ],
)
def test_a_key_of_another_kind_is_unknown(key: str) -> None:
    assert keys.parse(key) is None


def test_partitions_of_one_topic_share_a_prefix_with_no_other() -> None:
    prefix = keys.partitions_of(TOPIC_ID)

    assert keys.partition(TOPIC_ID, 3) == f"{prefix}3"
    assert prefix.endswith("/")
