"""Settings of single groups: which are in force, which are refused; a change counts at once and after a restart."""

from __future__ import annotations

import pytest
from tests.servers.kafka.raw import RawClient

from qanat.broker.settings.effective_settings import SettingSource
from qanat.broker.settings.group_settings import GroupConfigs
from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import Event, EventKind, Revision
from qanat.groups.settings import GroupSettings
from qanat.model.errors import InvalidSettingError
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages import incremental_alter_configs as altering
from qanat.wire.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from qanat.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from qanat.wire.kafka.registry import ApiKey

LOCK, RESET, SESSION = "share.record.lock.duration.ms", "share.auto.offset.reset", "share.session.timeout.ms"
_GROUP_RESOURCE = 32


def configs(settings: GroupSettings | None = None, **overrides: str) -> GroupConfigs:
    """The settings of a cluster in which the group `g` has `overrides`."""
    image, given = MetadataImage(), {name.replace("_", "."): value for name, value in overrides.items()}
    if given:
        value = values.encode(values.GroupConfig(overrides=given))
        image.apply(Event(EventKind.PUT, keys.group_config("g"), value, Revision(2), Revision(2)))
    return GroupConfigs(image, lambda: settings or GroupSettings())


def test_what_is_not_set_for_a_group_is_as_the_broker_has_it() -> None:
    found = configs(GroupSettings(group_share_session_timeout_ms=50_000), share_record_lock_duration_ms="20000")

    own, other = found.of("g"), found.of("other")
    assert (own.share_record_lock_duration_ms, own.share_session_timeout_ms) == (20_000, 50_000)
    assert (other.share_record_lock_duration_ms, other.share_session_timeout_ms) == (30_000, 50_000)
    assert found.of("other") is found.of("another"), "looked up with every heartbeat"
    entries = {entry.name: entry for entry in found.entries("g")}
    assert (entries[LOCK].value, entries[LOCK].source) == ("20000", SettingSource.GROUP)
    assert (entries[SESSION].value, entries[SESSION].source) == ("50000", SettingSource.DEFAULT)
    assert all(entry.meaning for entry in entries.values())


def test_what_a_later_version_has_set_is_passed_over() -> None:
    found = configs(share_from_the_future="1", share_record_lock_duration_ms="20000")

    assert found.of("g").share_record_lock_duration_ms == 30_000


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"odd": "1"}, "Unknown group config name: odd"),
        ({LOCK: "soon"}, f"Invalid value soon for configuration {LOCK}: Not a number of type INT"),
        ({LOCK: "14999"}, f"{LOCK} must be greater than or equal to group.share.min.record.lock.duration.ms"),
        ({LOCK: "60001"}, f"{LOCK} must be less than or equal to group.share.max.record.lock.duration.ms"),
        ({SESSION: "1"}, f"{SESSION} must be greater than or equal to group.share.min.session.timeout.ms"),
        ({RESET: "soon"}, "neither earliest, latest nor by_duration"),
        ({"share.isolation.level": "no"}, "String must be one of: read_committed, read_uncommitted"),
        ({"share.delivery.count.limit": "11"}, "at most 10"),
        ({"share.delivery.count.limit": "99999999999"}, "Not a number of type INT"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(given: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSettingError) as refused:
        configs().check(given)

    assert reason in str(refused.value)


def test_a_default_outside_the_bounds_widens_them() -> None:
    quick = GroupSettings(group_share_heartbeat_interval_ms=200, group_share_session_timeout_ms=900)
    configs(quick).check({"share.heartbeat.interval.ms": "200", SESSION: "900"})

    with pytest.raises(InvalidSettingError, match=r"must be greater than share\.heartbeat"):
        configs(quick).check({"share.heartbeat.interval.ms": "5000", SESSION: "900"})


def test_a_change_counts_at_once_and_after_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    with EmbeddedBroker(data_dir=tmp_path_factory.mktemp("data")) as broker:
        broker.create_topic("t")

        def told_ms() -> tuple[int, int]:
            """What the members of both kinds of group get in their heartbeats."""
            share = ShareGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=["t"])
            consumer = ConsumerGroupHeartbeatRequest(
                "c", "m", 0, rebalance_timeout_ms=1_000, subscribed_topic_names=["t"], topic_partitions=[]
            )
            with RawClient(broker.bootstrap_servers) as client:
                first = client.ask_coordinator(ApiKey.SHARE_GROUP_HEARTBEAT, 1, share)
                second = client.ask_coordinator(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, consumer)
            return first.heartbeat_interval_ms, second.heartbeat_interval_ms

        before = told_ms()
        rows = (("g", "share.heartbeat.interval.ms", "7000"), ("c", "consumer.heartbeat.interval.ms", "8000"))
        with RawClient(broker.bootstrap_servers) as client:
            for group, name, value in rows:
                resource = altering.AlterConfigsResource(
                    _GROUP_RESOURCE, group, [altering.AlterableConfig(name, 0, value)]
                )
                answer = client.ask(
                    ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, altering.IncrementalAlterConfigsRequest([resource])
                )
                assert answer.responses[0].error_code == 0, answer
        after = told_ms()
        broker.restart()
        later = told_ms()

    assert (before, after, later) == ((5_000, 5_000), (7_000, 8_000), (7_000, 8_000))
