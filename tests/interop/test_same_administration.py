"""Administration compared with Kafka's own, request by request: the same codes for the same mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.servers.conftest import RunningBroker
from tests.servers.kafka.admin_requests import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    alter,
    assigned,
    change,
    create,
    delete,
    describe,
    topic,
)
from tests.servers.kafka.raw import RawClient
from tools.kafka_broker import KafkaBroker

from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.wire.kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from qanat.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from qanat.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from qanat.wire.kafka.registry import ApiKey

pytestmark = pytest.mark.long


@dataclass(frozen=True, slots=True)
class Both:
    """A connection to each."""

    kafka: RawClient
    ours: RawClient


@pytest.fixture(scope="module")
def both(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    kafka = KafkaBroker(kafka_jars, tmp_path_factory.mktemp("kafka"))
    ours = RunningBroker(BrokerSettings(port=0), "memory", "/data")
    with kafka.running():
        ours.start()
        with RawClient(kafka.address) as kafka_client, RawClient(ours.address) as our_client:
            for client in (kafka_client, our_client):
                create(client, topic("there", 2), topic("a.b"), topic("keyed", cleanup_policy="compact"))
            yield Both(kafka_client, our_client)
        ours.stop()


WISHES = [
    *(topic(name) for name in ("", ".", "..", "a/b", "x" * 250, "ö", "there", "a_b", "__cluster_metadata")),
    *(topic("t", *numbers) for numbers in ((1, 2), (1, 0), (1, -2), (0, 1), (-2, 1), (10_001, 1))),
    *(topic("t", retention_ms=value) for value in ("soon", "-2", "", "1e3", "99999999999999999999", None)),
    *(topic("t", cleanup_policy=value) for value in ("burn", "compact,burn")),
    *(topic("t", compression_type=value) for value in ("none", "brotli")),
    *(topic("t", min_insync_replicas=value) for value in ("0", "2147483648")),
    topic("t", nonsense="1"),
    topic("t", preallocate="maybe"),
    topic("t", remote_storage_enable="true"),
    topic("t", message_downconversion_enable="true"),
    topic("t", leader_replication_throttled_replicas="all"),
    topic("t", min_compaction_lag_ms="10", max_compaction_lag_ms="5"),
    assigned("t", (0, [1]), partitions=1),
    assigned("t", (0, [1]), replicas=1),
    assigned("t", (0, [1]), (2, [1])),
    assigned("t", (0, [1]), (0, [1])),
    assigned("t", (0, [9])),
    assigned("t", (0, [])),
    assigned("t", (0, [1, 1])),
]


@pytest.mark.parametrize("wish", WISHES, ids=lambda wish: f"{wish.name[:20]}-{len(wish.configs)}")
def test_topics_that_kafka_refuses_are_refused_the_same(both: Both, wish: Any) -> None:
    (theirs,), (ours,) = create(both.kafka, wish), create(both.ours, wish)

    assert theirs.error_code != 0
    assert ours.error_code == theirs.error_code
    first_words = (theirs.error_message or "").rstrip(".")
    assert (ours.error_message or "").startswith(first_words)


def test_what_a_new_topic_tells_has_the_same_names_and_sources(both: Both) -> None:
    wish = topic("told", 3, segment_ms="777")
    (theirs,), (ours,) = (create(client, wish, is_dry_run=True) for client in (both.kafka, both.ours))
    sources = [{one.name: one.config_source for one in result.configs or []} for result in (theirs, ours)]
    for own in OWN:
        del sources[1][own]

    # Kafka gives the cluster a default of its own for this one when it is formatted.
    sources[0]["min.insync.replicas"] = sources[1]["min.insync.replicas"]
    assert sources[0] == sources[1]
    assert (theirs.num_partitions, theirs.replication_factor) == (ours.num_partitions, ours.replication_factor)


OWN = ("consume.groups",)
"""Settings of topics that Kafka does not have."""
GROWTH = [
    CreatePartitionsTopic("nope", 3, None),
    CreatePartitionsTopic("there", 2, None),
    CreatePartitionsTopic("there", 1, None),
    CreatePartitionsTopic("there", -1, None),
    CreatePartitionsTopic("there", 4, [CreatePartitionsAssignment([1])]),
    CreatePartitionsTopic("there", 3, [CreatePartitionsAssignment([7])]),
    CreatePartitionsTopic("there", 3, [CreatePartitionsAssignment([])]),
    CreatePartitionsTopic("there", 3, []),
]


@pytest.mark.parametrize("wish", GROWTH, ids=lambda wish: f"{wish.name}-{wish.count}")
def test_partitions_that_kafka_does_not_add_are_not_added(both: Both, wish: CreatePartitionsTopic) -> None:
    request = CreatePartitionsRequest([wish], 10_000)
    answers = [client.ask(ApiKey.CREATE_PARTITIONS, 3, request).results[0] for client in (both.kafka, both.ours)]

    assert answers[0].error_code == answers[1].error_code != 0


CHANGES: list[tuple[int, str, list[tuple[str, int, str | None]]]] = [
    (TOPIC, "there", [("retention.ms", SET, "5")]),
    (TOPIC, "there", [("retention.xx", SET, "5")]),
    (TOPIC, "there", [("retention.ms", SET, "x")]),
    (TOPIC, "there", [("retention.ms", SET, None)]),
    (TOPIC, "there", [("retention.ms", APPEND, "5")]),
    (TOPIC, "there", [("retention.ms", DELETE, None)]),
    (TOPIC, "there", [("nonsense", DELETE, None)]),
    (TOPIC, "there", [("cleanup.policy", APPEND, "compact")]),
    (TOPIC, "there", [("cleanup.policy", SUBTRACT, "burn")]),
    (TOPIC, "there", [("segment.ms", SET, "5"), ("segment.ms", SET, "6")]),
    (TOPIC, "there", []),
    (TOPIC, "nope", [("retention.ms", SET, "5")]),
    (TOPIC, "", [("retention.ms", SET, "5")]),
    (TOPIC, "a/b", [("retention.ms", SET, "5")]),
    (BROKER, "1", [("num.partitions", SET, "9")]),
    (BROKER, "9", [("num.partitions", SET, "9")]),
    (BROKER, "x", [("num.partitions", SET, "9")]),
    (99, "1", [("nonsense", SET, "9")]),
]


@pytest.mark.parametrize(("kind", "name", "acts"), CHANGES)
def test_changes_of_settings_get_the_same_codes(
    both: Both, kind: int, name: str, acts: list[tuple[str, int, str | None]]
) -> None:
    theirs, ours = (change(client, name, *acts, kind=kind, is_dry_run=True) for client in (both.kafka, both.ours))

    assert ours.error_code == theirs.error_code


def test_all_the_rest_answers_alike(both: Both) -> None:
    def outcomes(client: RawClient) -> list[object]:
        by_id = DeleteTopicsRequest([], [DeleteTopicState(None, b"1" * 16), DeleteTopicState(None)], 9999)
        gone = client.ask(ApiKey.DELETE_TOPICS, 6, by_id).responses
        return [
            sorted(one.error_code for one in gone),
            [one.error_code for one in delete(client, "nope")],
            [one.error_code for one in delete(client, "there", "there")],
            alter(client, "nope", retention_ms="5").error_code,
            alter(client, "there", is_dry_run=True, retention_ms="x").error_code,
            describe(client, "nope").error_code,
            describe(client, "a/b").error_code,
            describe(client, "9", kind=BROKER).error_code,
            sorted((one.name, one.config_type) for one in describe(client, "keyed").configs if one.name not in OWN),
            client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN")),
            client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"x")),
            client.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest(False, 2)),
            client.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest(False, 3)),
        ]

    assert outcomes(both.ours) == outcomes(both.kafka)
