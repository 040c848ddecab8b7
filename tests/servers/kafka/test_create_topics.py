from __future__ import annotations

import pytest
from tests.servers.kafka.admin_requests import assigned, create, look, topic, value_of
from tests.servers.kafka.raw import RawClient

from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.create_topics import CreatableTopic


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_can_be_used_when_the_answer_comes(client: RawClient, version: int) -> None:
    (result,) = create(client, topic("orders", 3, retention_ms="1000"), version=version)
    found = look(client, "orders")["orders"]

    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    assert [partition.leader_id for partition in found.partitions] == [1, 1, 1]
    assert value_of(client, "orders", "retention.ms") == "1000"
    if version >= 5:
        configs = {config.name: (config.value, config.config_source) for config in result.configs or []}
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        assert configs["retention.ms"] == ("1000", 1)
        assert configs["cleanup.policy"] == ("delete", 5)
        assert len(configs) == 44
    if version >= 7:
        assert result.topic_id == found.topic_id != bytes(16)


@pytest.mark.parametrize("version", [2, 4, 7])
def test_minus_one_asks_for_the_defaults(client: RawClient, version: int) -> None:
    create(client, topic("orders", -1, -1), version=version)

    assert len(look(client, "orders")["orders"].partitions) == 4


@pytest.mark.parametrize("version", [2, 5, 7])
def test_a_dry_run_answers_the_same_and_creates_nothing(client: RawClient, version: int) -> None:
    (result,) = create(client, topic("orders", 3), version=version, is_dry_run=True)
    (refused,) = create(client, topic("orders", 3, nonsense="1"), version=version, is_dry_run=True)

    assert result.error_code == 0
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert look(client, "orders")["orders"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_named_twice_is_refused_and_the_others_are_created(client: RawClient) -> None:
    results = {one.name: one for one in create(client, topic("twice", 1), topic("once", 1), topic("twice", 2))}

    assert results["once"].error_code == 0
    assert results["twice"].error_code == ErrorCode.INVALID_REQUEST
    assert results["twice"].error_message == "Duplicate topic name."
    assert len(results) == 2


WRONG = [
    (topic(""), 17, "the empty string is not allowed"),
    (topic("."), 17, "'.' is not allowed"),
    (topic(".."), 17, "'..' is not allowed"),
    (topic("a/b"), 17, "contains one or more characters other than"),
    (topic("x" * 250), 17, "longer than the max allowed length 249"),
    (topic("ö"), 17, "contains one or more characters other than"),
    (topic("there"), 36, "Topic 'there' already exists."),
    (topic("the_re"), 17, "Topic 'the_re' collides with existing topic: the.re"),
    (topic("t", 1, 2), 38, "Ask for at most 1, or for -1 to get the default, or start 1 more broker(s)."),
    (topic("t", 1, 0), 38, "Replication factor must be larger than 0"),
    (topic("t", 0, 1), 37, "invalid non-positive value"),
    (topic("t", -2, 1), 37, "invalid non-positive value"),
    (topic("t", 10_001), 44, "Excessively large number of partitions per request."),
    (topic("t", retention_msec="1"), 40, "Unknown topic config name: retention.msec; did you mean retention.ms?"),
    (topic("t", retention_ms="soon"), 40, "Not a number of type LONG"),
    (topic("t", retention_ms="-7"), 40, "Value must be at least -1"),
    (topic("t", retention_ms=None), 40, "Null value not supported for topic configs: retention.ms"),
    (topic("t", cleanup_policy="burn"), 40, "String must be one of: compact, delete"),
    (topic("t", remote_storage_enable="true"), 40, "Tiered Storage functionality is disabled"),
    (topic("__cluster_metadata"), 42, "Creation of internal topic __cluster_metadata is prohibited."),
    (assigned("t", (0, [1]), partitions=1), 42, "numPartitions was not set to -1"),
    (assigned("t", (0, [1]), replicas=1), 42, "replication factor was not set to -1"),
    (assigned("t", (0, [1]), (2, [1])), 39, "partitions should be a consecutive 0-based integer sequence"),
    (assigned("t", (0, [1]), (0, [1])), 39, "Found multiple manual partition assignments for partition 0"),
    (assigned("t", (0, [9])), 39, "includes broker 9, but no such broker is registered."),
    (assigned("t", (0, [])), 39, "includes an empty replica list."),
    (assigned("t", (0, [1, 1])), 39, "includes the broker 1 more than once."),
]


@pytest.mark.parametrize("version", [2, 7])
def test_what_is_refused_is_refused_with_kafkas_code_and_a_sentence(client: RawClient, version: int) -> None:
    create(client, topic("there"), topic("the.re"), version=version)
    for wish, code, sentence in WRONG:
        (result,) = create(client, wish, version=version)

        assert result.error_code == code, (wish.name, result)
        assert sentence in (result.error_message or "")
        assert result.topic_id == bytes(16)
    assert "t" not in [name for name, found in look(client, "t").items() if not found.error_code]


def test_a_users_own_assignment_is_kept(client: RawClient) -> None:
    (result,) = create(client, assigned("orders", (0, [1]), (1, [1])))

    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)


def test_all_topics_of_a_request_share_the_bound_on_partitions(client: RawClient) -> None:
    results = create(client, topic("one", 6_000), topic("two", 6_000))

    assert [result.error_code for result in results] == [ErrorCode.POLICY_VIOLATION] * 2


def test_without_time_nothing_is_begun(client: RawClient) -> None:
    (result,) = create(client, topic("orders"), timeout_ms=0)

    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert look(client, "orders")["orders"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_internal_topics_are_internal_by_any_creator(client: RawClient) -> None:
    create(client, CreatableTopic("__transaction_state", 2, 1))

    assert look(client, "__transaction_state")["__transaction_state"].is_internal


def test_who_asks_for_nothing_gets_nothing(client: RawClient) -> None:
    assert create(client) == []
