"""Settings in force follow the metadata store, and stay as they were where it holds invalid ones."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.cluster.images import apply, image_with, new_topic_id

from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.broker.settings.dynamic_settings import InForce
from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import Operation, Put
from qanat.groups.settings import GroupSettings
from qanat.log.directories.directory import LogDirectory
from qanat.log.settings import DirectorySettings
from qanat.model.errors import InvalidSettingError
from qanat.transactions.settings import TransactionSettings

NODE_ID = 3


def park(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work)


def settings_on(image: MetadataImage, **broker: Any) -> CurrentSettings:
    at_start = InForce(BrokerSettings(**broker), DirectorySettings(), GroupSettings(), {"retention.ms": "5000"})
    directory = cast(LogDirectory, SimpleNamespace(settings=at_start.directory))
    return CurrentSettings(at_start, TransactionSettings(), NODE_ID, image, directory, park)


def overrides(node_id: int | None, **configs: str) -> Operation:
    spelled = {name.replace("_", "."): value for name, value in configs.items()}
    return Put(keys.broker_config(node_id), values.encode(values.BrokerConfig(overrides=spelled)))


def topic(name: str, **configs: str) -> list[Operation]:
    spelled = {name.replace("_", "."): value for name, value in configs.items()}
    made = values.Topic(name=name, topic_id=str(new_topic_id()), partitions=((NODE_ID,),))
    puts: list[Operation] = [Put(keys.topic(name), values.encode(made))]
    return [*puts, Put(keys.topic_config(name), values.encode(values.TopicConfig(overrides=spelled)))]


def test_what_was_set_for_this_broker_counts_more_than_what_was_set_for_all() -> None:
    image = image_with((NODE_ID,))
    settings = settings_on(image, max_connections=10)
    apply(image, [overrides(None, max_connections="20", group_max_size="7", log_cleaner_backoff_ms="1")])
    seen: list[GroupSettings] = []
    settings.on_group_settings = seen.append

    settings.apply()
    assert settings.broker.max_connections == 20
    assert settings.groups.group_max_size == 7
    assert settings.directory.settings.log_cleaner_backoff_ms == 1
    assert seen == [settings.groups]

    apply(image, [overrides(NODE_ID, max_connections="30")])
    settings.apply()
    assert settings.broker.max_connections == 30
    assert settings.at_start.broker.max_connections == 10


def test_settings_that_this_broker_cannot_apply_change_nothing() -> None:
    image = image_with((NODE_ID,))
    settings = settings_on(image)
    before = settings.broker
    apply(image, [overrides(None, max_connections="none")])

    settings.apply()

    assert settings.broker is before


async def test_changed_defaults_reach_every_topic() -> None:
    image = image_with((NODE_ID,))
    apply(image, [*topic("a"), *topic("b", retention_ms="1")])
    settings = settings_on(image)
    reached: list[str] = []
    settings.apply_to_topic = reached.append
    apply(image, [overrides(None, log_retention_ms="9")])

    settings.apply()
    await settings.applied()

    assert reached == ["a", "b"]
    assert settings.topic("a").log.retention_ms == 9
    assert settings.topic("b").log.retention_ms == 1

    settings.apply()
    await settings.applied()
    assert reached == ["a", "b"], "and only when they have changed"


def test_election_rules_come_from_a_topics_settings() -> None:
    image = image_with((NODE_ID,))
    synced = {"min_insync_replicas": "2", "flush_messages": "1"}
    apply(image, [*topic("a", **synced), *topic("b", unclean_leader_election_enable="true", flush_messages="9")])
    settings = settings_on(image)

    assert settings.election_rules("a").min_insync_replicas == 2
    assert settings.election_rules("a").flushed_since == image.flushed_since("a")
    assert settings.election_rules("b").is_unclean_allowed
    assert settings.election_rules("b").flushed_since is None


def test_overrides_are_refused_that_do_not_fit_those_of_a_topic() -> None:
    image = image_with((NODE_ID,))
    apply(image, topic("a", min_compaction_lag_ms="100"))
    settings = settings_on(image)

    settings.check_broker({"log.cleaner.max.compaction.lag.ms": "100"}, is_for_all=True)
    with pytest.raises(InvalidSettingError, match=r"min\.compaction\.lag\.ms"):
        settings.check_broker({"log.cleaner.max.compaction.lag.ms": "99"}, is_for_all=True)
    with pytest.raises(InvalidSettingError, match="Unknown broker config name"):
        settings.check_broker({"no.such.name": "1"}, is_for_all=False)


def test_a_topics_overrides_are_checked_together_with_the_defaults() -> None:
    settings = settings_on(image_with((NODE_ID,)))

    assert settings.check_topic({"segment.bytes": "1000"}).log.retention_ms == 5000
    with pytest.raises(InvalidSettingError, match="Unknown topic config name"):
        settings.check_topic({"no.such.name": "1"})
