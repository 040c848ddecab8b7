"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs, asked in frames."""

from __future__ import annotations

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
    change,
    create,
    describe,
    topic,
    value_of,
)
from tests.servers.kafka.raw import RawClient

from qanat.broker.settings.topic_settings import TOPIC_SETTINGS
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.replication.leader import Leader
from qanat.wire.kafka.messages import alter_configs
from qanat.wire.kafka.messages import incremental_alter_configs as incremental
from qanat.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from qanat.wire.kafka.registry import ApiKey

FROM_TOPIC, FROM_START, FROM_DEFAULT = 1, 4, 5


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topics_settings_have_value_and_source(client: RawClient, version: int) -> None:
    create(client, topic("orders", retention_ms="1000"))
    found = describe(client, "orders", version=version, synonyms=True)
    configs = {config.name: config for config in found.configs}

    assert (found.error_code, found.resource_type, found.resource_name) == (0, TOPIC, "orders")
    assert len(configs) == len(TOPIC_SETTINGS)
    retention = configs["retention.ms"]
    assert (retention.value, retention.config_source, retention.read_only) == ("1000", FROM_TOPIC, False)
    assert [(one.name, one.value, one.source) for one in retention.synonyms] == [
        ("retention.ms", "1000", FROM_TOPIC),
        ("log.retention.ms", "604800000", FROM_DEFAULT),
    ]
    policy = configs["cleanup.policy"]
    assert (policy.value, policy.config_source) == ("delete", FROM_DEFAULT)
    if version >= 3:
        assert (policy.config_type, retention.config_type) == (7, 5)


def test_documentation_and_synonyms_come_only_when_asked_for(client: RawClient) -> None:
    create(client, topic("orders"))
    (plain,) = describe(client, "orders", "retention.ms").configs
    (described,) = describe(client, "orders", "preallocate", documentation=True).configs

    assert (plain.synonyms, plain.documentation) == ([], None)
    assert "no effect" in (described.documentation or "")


def test_names_that_do_not_exist_are_left_out(client: RawClient) -> None:
    create(client, topic("orders"))

    assert [config.name for config in describe(client, "orders", "nonsense", "segment.ms").configs] == ["segment.ms"]


@pytest.mark.parametrize("version", range(1, 5))
def test_a_brokers_settings_have_their_sources(client: RawClient, version: int) -> None:
    configs = {config.name: config for config in describe(client, "1", kind=BROKER, version=version).configs}

    assert configs["broker.id"].value == "1"
    assert (configs["port"].value, configs["port"].config_source) == ("0", FROM_START)
    assert configs["num.partitions"].config_source == FROM_DEFAULT
    assert configs["log.retention.ms"].value == "604800000"
    assert configs["auto.create.topics.enable"].value == "true"
    assert configs["num.partitions"].read_only
    assert not configs["log.retention.ms"].read_only


def test_a_brokers_settings_have_types_and_documentation(client: RawClient) -> None:
    found = describe(client, "1", "auto.create.topics.enable", "fetch.max.bytes", kind=BROKER, documentation=True)

    assert [(config.config_type, config.documentation) for config in found.configs] == [
        (1, "Whether a topic is created when a client first asks for it."),
        (5, "Largest response to a fetch, whatever the client allows."),
    ]


def test_resources_that_are_not_there_are_refused(client: RawClient) -> None:
    cases = [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "9", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (8, "1", ErrorCode.INVALID_REQUEST),
        (99, "1", ErrorCode.INVALID_REQUEST),
        (BROKER, "", ErrorCode.NONE),
    ]
    for kind, name, code in cases:
        found = describe(client, name, kind=kind)

        assert (found.error_code, found.configs) == (code, []), (kind, name)


# Changing


@pytest.mark.parametrize("version", [0, 1])
def test_settings_are_set_deleted_appended_to_and_subtracted_from(client: RawClient, version: int) -> None:
    create(client, topic("orders", segment_ms="777"))
    steps: list[tuple[tuple[str, int, str | None], str]] = [
        (("retention.ms", SET, "5"), "5"),
        (("retention.ms", DELETE, None), "604800000"),
        (("cleanup.policy", APPEND, "compact"), "delete,compact"),
        (("cleanup.policy", APPEND, "compact"), "delete,compact"),
        (("cleanup.policy", SUBTRACT, "delete"), "compact"),
        (("leader.replication.throttled.replicas", APPEND, "0:1"), "0:1"),
        (("leader.replication.throttled.replicas", APPEND, "1:1"), "0:1,1:1"),
        (("leader.replication.throttled.replicas", SUBTRACT, "0:1"), "1:1"),
    ]
    for act, expected in steps:
        response = change(client, "orders", act, version=version)

        assert (response.error_code, response.error_message) == (0, None)
        assert value_of(client, "orders", act[0]) == expected
    assert value_of(client, "orders", "segment.ms") == "777"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_altering_all_sets_the_others_back(client: RawClient, version: int) -> None:
    create(client, topic("orders", segment_ms="777"))
    response = alter(client, "orders", version=version, retention_ms="5")

    assert (response.error_code, response.error_message) == (0, None)
    assert value_of(client, "orders", "retention.ms") == "5"
    assert value_of(client, "orders", "segment.ms") == "604800000"


def test_a_dry_run_changes_nothing(client: RawClient) -> None:
    create(client, topic("orders"))

    assert change(client, "orders", ("retention.ms", SET, "5"), is_dry_run=True).error_code == 0
    assert alter(client, "orders", is_dry_run=True, retention_ms="5").error_code == 0
    assert change(client, "orders", ("retention.ms", SET, "x"), is_dry_run=True).error_code == ErrorCode.INVALID_CONFIG
    assert value_of(client, "orders", "retention.ms") == "604800000"


def test_a_change_takes_effect_at_once_on_open_logs(broker: RunningBroker, client: RawClient) -> None:
    create(client, topic("orders", 2))
    change(client, "orders", ("retention.ms", SET, "5"), ("min.insync.replicas", SET, "2"))
    partitions = [broker.broker.partitions[TopicPartition("orders", number)] for number in range(2)]

    assert [partition.log.settings.retention_ms for partition in partitions] == [5, 5]
    assert [partition.min_insync_replicas for partition in partitions] == [2, 2]


WRONG: list[tuple[int, str, list[tuple[str, int, str | None]], int, str]] = [
    (TOPIC, "orders", [("retention.xx", SET, "5")], 40, "Unknown topic config name: retention.xx"),
    (TOPIC, "orders", [("retention.ms", SET, "x")], 40, "Not a number of type LONG"),
    (TOPIC, "orders", [("retention.ms", SET, None)], 42, "Null value not supported for : retention.ms"),
    (TOPIC, "orders", [("retention.ms", APPEND, "5")], 40, "Can't APPEND to key retention.ms because its type is not"),
    (TOPIC, "orders", [("cleanup.policy", SUBTRACT, "delete")], 40, "At least one is needed of: compact, delete"),
    (TOPIC, "orders", [("retention.ms", 9, "5")], 42, "Unknown operation 9 on retention.ms."),
    (TOPIC, "orders", [("segment.ms", SET, "5"), ("segment.ms", SET, "6")], 42, "Error due to duplicate config keys"),
    (TOPIC, "nope", [("retention.ms", SET, "5")], 3, "The topic 'nope' does not exist."),
    (TOPIC, "", [("retention.ms", SET, "5")], 42, "Default topic resources are not allowed."),
    (TOPIC, "a/b", [("retention.ms", SET, "5")], 17, "Topic name is invalid"),
    (BROKER, "1", [("num.partitions", SET, "9")], 42, "Cannot update these configs dynamically: Set(num.partitions)"),
    (BROKER, "9", [("num.partitions", SET, "9")], 42, "Unexpected broker id, expected 1, but received 9"),
    (BROKER, "x", [("num.partitions", SET, "9")], 42, "Broker id must be an integer, but it is: x"),
    (8, "1", [("root", SET, "DEBUG")], 42, "There are no configurations of the type BROKER_LOGGER here yet."),
    (16, "1", [("interval.ms", SET, "9")], 42, "Invalid value 9 for interval.ms, interval must be between 100 and"),
    (99, "1", [("interval.ms", SET, "9")], 42, "Unknown resource type 99"),
]


def test_wrong_changes_are_refused_with_kafkas_codes(client: RawClient) -> None:
    create(client, topic("orders"))
    for kind, name, acts, code, sentence in WRONG:
        response = change(client, name, *acts, kind=kind)

        assert response.error_code == code, response
        assert sentence in (response.error_message or "")


def test_altering_all_is_judged_the_same(client: RawClient) -> None:
    create(client, topic("orders"))
    cases = [
        (alter(client, "orders", retention_xx="5"), ErrorCode.INVALID_CONFIG),
        (alter(client, "orders", retention_ms="x"), ErrorCode.INVALID_CONFIG),
        (alter(client, "nope", retention_ms="5"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (alter(client, "1", kind=BROKER, num_partitions="5"), ErrorCode.INVALID_REQUEST),
    ]
    null = alter_configs.AlterConfigsResource(TOPIC, "orders", [alter_configs.AlterableConfig("retention.ms", None)])
    refused = client.ask(ApiKey.ALTER_CONFIGS, 2, alter_configs.AlterConfigsRequest([null]))

    assert [response.error_code for response, _ in cases] == [code for _, code in cases]
    assert refused.responses[0].error_code == ErrorCode.INVALID_REQUEST


def test_a_resource_named_twice_is_refused_both_times(client: RawClient) -> None:
    create(client, topic("orders"))
    one = incremental.AlterConfigsResource(TOPIC, "orders", [incremental.AlterableConfig("retention.ms", SET, "5")])
    other = alter_configs.AlterConfigsResource(TOPIC, "orders", [alter_configs.AlterableConfig("retention.ms", "5")])
    answers = [
        client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, incremental.IncrementalAlterConfigsRequest([one, one])),
        client.ask(ApiKey.ALTER_CONFIGS, 2, alter_configs.AlterConfigsRequest([other, other])),
    ]

    codes = [response.error_code for answer in answers for response in answer.responses]
    assert codes == [ErrorCode.INVALID_REQUEST] * 4
    assert value_of(client, "orders", "retention.ms") == "604800000"


@pytest.mark.parametrize(
    ("replicas", "acks", "code"),
    [
        ((0, 1, 2), -1, ErrorCode.NOT_ENOUGH_REPLICAS),
        ((0, 1, 2), 1, ErrorCode.CORRUPT_MESSAGE),
        ((0,), -1, ErrorCode.CORRUPT_MESSAGE),
    ],
    ids=["too few are in sync", "acks=1 does not care", "there are no more replicas"],
)
def test_acks_of_all_need_as_many_replicas_as_the_topic_says(
    broker: RunningBroker, client: RawClient, replicas: tuple[int, ...], acks: int, code: ErrorCode
) -> None:
    create(client, topic("orders", min_insync_replicas="2"))
    leader = Leader(0, 0, lag_max_ms=100)
    leader.stored(replicas, (0,), now_ms=0)
    broker.broker.partitions[TopicPartition("orders", 0)].leader = leader
    data = TopicProduceData("orders", partition_data=[PartitionProduceData(0, memoryview(b"not a batch"))])
    answer = client.ask(ApiKey.PRODUCE, 8, ProduceRequest(None, acks, 1000, [data]))

    assert answer.responses[0].partition_responses[0].error_code == code


def test_a_topic_with_one_replica_takes_records_whatever_the_cluster_asks_for(client: RawClient) -> None:
    create(client, topic("orders", min_insync_replicas="2"))
    data = TopicProduceData("orders", partition_data=[PartitionProduceData(0, memoryview(b"not a batch"))])
    answer = client.ask(ApiKey.PRODUCE, 8, ProduceRequest(None, -1, 1000, [data]))

    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.CORRUPT_MESSAGE
