"""Dynamic settings: in force at once, stored, and described with their sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.servers.kafka.raw import RawClient

from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.broker.settings.dynamic_settings import DYNAMIC, InForce
from qanat.groups.settings import GroupSettings
from qanat.log.settings import DirectorySettings
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidSettingError
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from qanat.wire.kafka.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from qanat.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from qanat.wire.kafka.registry import ApiKey

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
FOR_ONE, FOR_ALL, AT_START_SOURCE, DEFAULT = 2, 3, 4, 5

AT_START = InForce(BrokerSettings(), DirectorySettings(), GroupSettings(), {"retention.ms": "5000"})


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings={"log.retention.ms": 5000}) as broker:
        yield broker


def ask(broker: EmbeddedBroker, key: ApiKey, version: int, request: Any) -> Any:
    with RawClient(broker.bootstrap_servers) as client:
        return client.ask(key, version, request)


def attempt(broker: EmbeddedBroker, name: str, act: int, values: dict[str, object]) -> str | None:
    """Change settings of one broker, or of all; returns the error."""
    rows = [AlterableConfig(key, act, None if value is None else str(value)) for key, value in values.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, name, rows)])
    (answer,) = ask(broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
    return f"{ErrorCode(answer.error_code).name}: {answer.error_message}" if answer.error_code else None


def change(broker: EmbeddedBroker, values: dict[str, object], name: str = "") -> None:
    assert attempt(broker, name, SET, values) is None


def forget(broker: EmbeddedBroker, setting: str, name: str = "") -> None:
    assert attempt(broker, name, DELETE, {setting: None}) is None


def described(broker: EmbeddedBroker, name: str, kind: int = BROKER) -> dict[str, Any]:
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)], include_synonyms=True)
    (answer,) = ask(broker, ApiKey.DESCRIBE_CONFIGS, 4, request).results
    assert answer.error_code == 0
    return {entry.name: entry for entry in answer.configs}


def create(broker: EmbeddedBroker, name: str, **settings: str) -> int:
    configs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in settings.items()]
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1, [], configs)], 10_000)
    (answer,) = ask(broker, ApiKey.CREATE_TOPICS, 7, request).topics
    return int(answer.error_code)


def test_a_default_of_topics_is_in_force_at_once_and_told_with_its_source(broker: EmbeddedBroker) -> None:
    broker.create_topic("t")
    log = next(iter(broker.node.directory.logs.values()))
    assert log.settings.retention_ms == 5000

    change(broker, {"log.retention.ms": 6000})
    assert log.settings.retention_ms == 6000
    change(broker, {"log.retention.ms": 7000}, "0")
    assert log.settings.retention_ms == 7000

    entry = described(broker, "0")["log.retention.ms"]
    assert (entry.value, entry.config_source, entry.read_only) == ("7000", FOR_ONE, False)
    assert [(one.value, one.source) for one in entry.synonyms] == [
        ("7000", FOR_ONE),
        ("6000", FOR_ALL),
        ("5000", AT_START_SOURCE),
        (str(7 * 24 * 3600 * 1000), DEFAULT),
    ]
    assert {name: one.value for name, one in described(broker, "").items()} == {"log.retention.ms": "6000"}
    told = described(broker, "t", TOPIC)["retention.ms"]
    assert (told.value, told.config_source, len(told.synonyms)) == ("7000", FOR_ONE, 4)

    forget(broker, "log.retention.ms", "0")
    assert log.settings.retention_ms == 6000
    forget(broker, "log.retention.ms")
    assert log.settings.retention_ms == 5000
    assert described(broker, "0")["log.retention.ms"].config_source == AT_START_SOURCE


def test_a_limit_on_messages_is_obeyed_without_a_restart(broker: EmbeddedBroker) -> None:
    broker.create_topic("t")
    change(broker, {"message.max.bytes": 1000})
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("t", b"x" * 5000, on_delivery=lambda error, _: errors.append(error.name() if error else "ok"))
    producer.flush(30)

    assert errors == ["MSG_SIZE_TOO_LARGE"]


def test_changes_outlive_a_restart(broker: EmbeddedBroker) -> None:
    change(broker, {"max.connections": 77, "group.max.size": 3, "log.cleaner.backoff.ms": 1234})
    broker.restart()
    node = broker.node.broker

    assert node.settings.max_connections == 77
    assert node.runtime.directory.settings.log_cleaner_backoff_ms == 1234
    assert described(broker, "0")["group.max.size"].value == "3"


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("", {"num.partitions": 3}, r"INVALID_REQUEST: Cannot update these configs dynamically: Set\(num.partitions\)"),
        ("0", {"node.id": 3}, "INVALID_REQUEST: Cannot update these configs dynamically"),
        ("", {"log.retention.ms": "soon"}, "INVALID_REQUEST: .*Not a number of type LONG"),
        ("", {"max.connections": 0}, "INVALID_REQUEST: .*max.connections"),
        ("", {"log.retention": 3}, "INVALID_REQUEST: Unknown broker config name: log.retention"),
        ("", {"group.min.session.timeout.ms": 2_000_000}, "INVALID_REQUEST: .*must not be above"),
        ("9", {"log.retention.ms": 1}, "INVALID_REQUEST: Unexpected broker id"),
    ],
)
def test_what_cannot_be_is_refused(broker: EmbeddedBroker, name: str, values: dict[str, object], message: str) -> None:
    refused = attempt(broker, name, SET, values)

    assert refused is not None
    assert re.match(message, refused), refused
    assert broker.node.broker.metadata.image.broker_configs == {}


def test_defaults_and_a_topics_own_settings_must_fit_each_other(broker: EmbeddedBroker) -> None:
    change(broker, {"log.cleaner.max.compaction.lag.ms": 1000})
    assert create(broker, "bad", min_compaction_lag_ms="2000") == ErrorCode.INVALID_CONFIG

    forget(broker, "log.cleaner.max.compaction.lag.ms")
    assert create(broker, "good", min_compaction_lag_ms="2000") == ErrorCode.NONE
    refused = attempt(broker, "", SET, {"log.cleaner.max.compaction.lag.ms": 1000})
    assert refused is not None
    assert "conflict topic config setting" in refused


def test_every_setting_of_a_broker_is_told(broker: EmbeddedBroker) -> None:
    found = described(broker, "0")

    assert set(found) >= {*DYNAMIC, *BrokerSettings.__struct_encode_fields__, *GroupSettings.__struct_encode_fields__}
    assert {name for name, entry in found.items() if not entry.read_only} == set(DYNAMIC)


def test_changes_are_laid_over_what_the_broker_was_started_with() -> None:
    changed = AT_START.with_changes({"log.retention.ms": " 6000", "max.connections": "5", "group.max.size": "2"})

    assert changed.topic_defaults == {"retention.ms": "6000"}
    assert (changed.broker.max_connections, changed.groups.group_max_size) == (5, 2)
    assert changed.directory is AT_START.directory
    with pytest.raises(InvalidSettingError, match=r"group\.max\.size"):
        AT_START.with_changes({"group.max.size": "none"})
