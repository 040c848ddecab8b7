"""Administration as real clients do it: librdkafka, kafka-python and aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.servers.client_modules import client_module
from tests.servers.conftest import CLUSTER_ID, RunningBroker

confluent = client_module("confluent_kafka")
confluent_admin = client_module("confluent_kafka.admin")
kafka_admin = client_module("kafka.admin")
kafka_errors = client_module("kafka.errors")
aio_admin = client_module("aiokafka.admin")

WAIT_S = 60


@pytest.fixture
def librdkafka(broker: RunningBroker) -> Any:
    return confluent_admin.AdminClient({"bootstrap.servers": broker.address, "log_level": 0})


def done(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(WAIT_S) for future in futures.values()]


def refusal(futures: dict[Any, Any]) -> Any:
    with pytest.raises(confluent.KafkaException) as refused:
        done(futures)
    return refused.value.args[0]


def new_topic(name: str, partitions: int = 1, **options: Any) -> Any:
    return confluent_admin.NewTopic(name, num_partitions=partitions, **options)


def test_librdkafka_creates_grows_and_deletes_a_topic(librdkafka: Any) -> None:
    done(librdkafka.create_topics([new_topic("orders", 2, config={"retention.ms": "1000"})]))
    done(librdkafka.create_partitions([confluent_admin.NewPartitions("orders", 5)]))
    grown = librdkafka.list_topics("orders", timeout=WAIT_S).topics["orders"]
    done(librdkafka.delete_topics(["orders"]))

    assert sorted(grown.partitions) == [0, 1, 2, 3, 4]
    assert "orders" not in librdkafka.list_topics(timeout=WAIT_S).topics


def test_librdkafka_gets_the_reason_of_a_refusal(librdkafka: Any) -> None:
    done(librdkafka.create_topics([new_topic("orders")]))
    again = refusal(librdkafka.create_topics([new_topic("orders")]))
    replicas = refusal(librdkafka.create_topics([new_topic("t", replication_factor=3)]))
    setting = refusal(librdkafka.create_topics([new_topic("t", config={"retention.msec": "5"})]))
    unknown = refusal(librdkafka.delete_topics(["nope"]))

    assert again.code() == confluent.KafkaError.TOPIC_ALREADY_EXISTS
    assert replicas.code() == confluent.KafkaError.INVALID_REPLICATION_FACTOR
    assert "start 2 more broker(s)" in replicas.str()
    assert "did you mean retention.ms?" in setting.str()
    assert unknown.code() == confluent.KafkaError.UNKNOWN_TOPIC_OR_PART


def test_librdkafka_describes_and_alters_settings(librdkafka: Any) -> None:
    done(librdkafka.create_topics([new_topic("orders", config={"segment.ms": "777"})]))
    resource = confluent_admin.ConfigResource(confluent_admin.RESOURCE_TOPIC, "orders")
    entry = confluent_admin.ConfigEntry(
        "cleanup.policy", "compact", incremental_operation=confluent_admin.AlterConfigOpType.APPEND
    )
    done(
        librdkafka.incremental_alter_configs(
            [confluent_admin.ConfigResource("topic", "orders", incremental_configs=[entry])]
        )
    )
    (configs,) = done(librdkafka.describe_configs([resource]))

    assert configs["cleanup.policy"].value == "delete,compact"
    assert configs["segment.ms"].source == confluent_admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert configs["retention.ms"].source == confluent_admin.ConfigSource.DEFAULT_CONFIG.value
    assert "log.retention.ms" in configs["retention.ms"].synonyms


def test_librdkafka_describes_the_broker_the_cluster_and_topics(librdkafka: Any, broker: RunningBroker) -> None:
    done(librdkafka.create_topics([new_topic("orders", 3)]))
    (configs,) = done(librdkafka.describe_configs([confluent_admin.ConfigResource("broker", "1")]))
    cluster = librdkafka.describe_cluster().result(WAIT_S)
    (described,) = done(librdkafka.describe_topics(confluent.TopicCollection(["orders"])))

    assert configs["auto.create.topics.enable"].value == "true"
    assert (cluster.cluster_id, [node.port for node in cluster.nodes]) == (CLUSTER_ID, [broker.port])
    assert len(described.partitions) == 3


def test_librdkafka_deletes_records(librdkafka: Any, broker: RunningBroker) -> None:
    done(librdkafka.create_topics([new_topic("orders")]))
    producer = confluent.Producer({"bootstrap.servers": broker.address, "log_level": 0})
    for number in range(10):
        producer.produce("orders", b"value %d" % number, partition=0)
    assert producer.flush(WAIT_S) == 0
    (deleted,) = done(librdkafka.delete_records([confluent.TopicPartition("orders", 0, 4)]))

    assert deleted.low_watermark == 4


@pytest.fixture
def kafka_python(broker: RunningBroker) -> Iterator[Any]:
    admin = kafka_admin.KafkaAdminClient(bootstrap_servers=broker.address)
    yield admin
    admin.close()


def test_kafka_python_administers_topics(kafka_python: Any) -> None:
    created = kafka_admin.NewTopic("orders", num_partitions=2, replication_factor=1)
    kafka_python.create_topics([created])
    kafka_python.create_partitions({"orders": kafka_admin.NewPartitions(4)})
    (described,) = kafka_python.describe_topics(["orders"])
    kafka_python.delete_topics(["orders"])

    assert len(described["partitions"]) == 4
    assert "orders" not in kafka_python.list_topics()
    with pytest.raises(kafka_errors.UnknownTopicOrPartitionError):
        kafka_python.delete_topics(["orders"])


def test_kafka_python_administers_settings(kafka_python: Any) -> None:
    kafka_python.create_topics([kafka_admin.NewTopic("orders", num_partitions=1, replication_factor=1)])
    resource = kafka_admin.ConfigResource(kafka_admin.ConfigResourceType.TOPIC, "orders", {"retention.ms": "5"})
    kafka_python.alter_configs([resource])
    described = kafka_python.describe_configs(
        [kafka_admin.ConfigResource(kafka_admin.ConfigResourceType.TOPIC, "orders")]
    )

    assert "retention.ms" in str(described)
    assert "'5'" in str(described)


def test_kafka_python_describes_cluster_and_log_directories(kafka_python: Any) -> None:
    kafka_python.create_topics([kafka_admin.NewTopic("orders", num_partitions=1, replication_factor=1)])

    assert kafka_python.describe_cluster()["cluster_id"] == CLUSTER_ID
    assert "orders" in str(kafka_python.describe_log_dirs())


def test_aiokafka_administers_topics_in_the_oldest_versions(broker: RunningBroker) -> None:
    async def main() -> None:
        admin = aio_admin.AIOKafkaAdminClient(bootstrap_servers=broker.address)
        await admin.start()
        try:
            await admin.create_topics([aio_admin.NewTopic("orders", num_partitions=2, replication_factor=1)])
            await admin.create_partitions({"orders": aio_admin.NewPartitions(3)})
            (described,) = await admin.describe_topics(["orders"])
            kind = aio_admin.config_resource.ConfigResourceType.TOPIC
            configs = await admin.describe_configs([aio_admin.config_resource.ConfigResource(kind, "orders")])
            await admin.delete_topics(["orders"])
            left = await admin.list_topics()
        finally:
            await admin.close()

        assert len(described["partitions"]) == 3
        assert "retention.ms" in str(configs)
        assert "orders" not in left

    asyncio.run(main())
