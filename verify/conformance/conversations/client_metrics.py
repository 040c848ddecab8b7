"""Subscriptions to metrics of clients (KIP-714): set, described, listed, refused, removed.

Kafka pushes nothing to anybody without a plug-in, and does not serve the two APIs of clients then.
"""

from __future__ import annotations

from qanat.wire.kafka.messages import alter_configs as old
from qanat.wire.kafka.messages import incremental_alter_configs as incremental
from qanat.wire.kafka.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from qanat.wire.kafka.messages.list_config_resources import ListConfigResourcesRequest
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import conversation

TOPIC, METRICS, GROUP = 2, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
DESCRIBE, ALTER, CHANGE = ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS
LIST = ApiKey.LIST_CONFIG_RESOURCES


def _describe(name: str, *settings: str) -> DescribeConfigsRequest:
    return DescribeConfigsRequest([DescribeConfigsResource(METRICS, name, list(settings) or None)], True, False)


def _change(play: Play, note: str, name: str, *rows: tuple[str, int, str | None], is_dry: bool = False) -> None:
    configs = [incremental.AlterableConfig(*row) for row in rows]
    resource = incremental.AlterConfigsResource(METRICS, name, configs)
    play.exchange(CHANGE, 1, incremental.IncrementalAlterConfigsRequest([resource], is_dry), note)


def _settled(play: Play, name: str, setting: str, value: str) -> None:
    """Wait until the broker that answers knows a change."""

    def is_known() -> bool:
        configs = play.quietly(DESCRIBE, 4, _describe(name, setting)).results[0].configs
        return bool(configs and configs[0].value == value)

    play.until(is_known)


@conversation
def configs_of_client_metrics(play: Play) -> None:
    name = f"{play.name}-s"
    for version in play.versions(LIST):
        play.exchange(LIST, version, ListConfigResourcesRequest([METRICS] if version else []), "before there is one")
    play.exchange(DESCRIBE, 4, _describe(name), "of one that is not there")
    play.exchange(DESCRIBE, 4, _describe(""), "of none")
    match = "client_id=billing-.*,client_software_name=librdkafka"
    _change(play, "set", name, ("metrics", SET, "org.apache.kafka.producer."), ("match", SET, match))
    _settled(play, name, "match", match)
    _change(play, "appended", name, ("metrics", APPEND, "org.apache.kafka.consumer."))
    _change(play, "one more", name, ("interval.ms", SET, "5000"))
    _settled(play, name, "interval.ms", "5000")
    play.exchange(DESCRIBE, 4, _describe(name), "what is set now")
    for version in play.versions(LIST):
        play.exchange(LIST, version, ListConfigResourcesRequest([METRICS] if version else []), "once it is there")
    play.exchange(LIST, 1, ListConfigResourcesRequest([99]), "of a type that there is not")
    _change(play, "subtracted", name, ("metrics", SUBTRACT, "org.apache.kafka.producer."))
    for note, rows in {
        "too often": [("interval.ms", SET, "99")],
        "too seldom": [("interval.ms", SET, "3600001")],
        "an odd setting": [("odd", SET, "x")],
        "an odd property": [("match", SET, "odd=x")],
        "a property without a pattern": [("match", SET, "client_id")],
        "a pattern that is none": [("match", SET, "client_id=(")],
        "nothing": [],
    }.items():
        _change(play, note, name, *rows)
    _change(play, "to none", "", ("metrics", SET, "x"))
    _change(play, "only validated", f"{name}-2", ("metrics", SET, "x"), is_dry=True)
    value = [old.AlterableConfig("metrics", "*")]
    for version in play.versions(ALTER):
        request = old.AlterConfigsRequest([old.AlterConfigsResource(METRICS, name, value)], False)
        play.exchange(ALTER, version, request, "exactly one setting")
        _settled(play, name, "metrics", "*")
    play.exchange(DESCRIBE, 4, _describe(name, "metrics", "match"), "the others are forgotten")
    _change(play, "removed", name, ("metrics", DELETE, None))
    _settled(play, name, "metrics", "")
