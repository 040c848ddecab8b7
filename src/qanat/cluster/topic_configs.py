"""Changes of settings of topics, brokers, groups and subscriptions to metrics of clients, decided.

The log defines what a setting means: the caller passes `check_configs`, which raises `InvalidSettingError`
(`LogSettings.parse` does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import assert_never

from msgspec import Struct

from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Compare, Delete, Operation, Put
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidSettingError

VALUE_BYTES_MAX = 32_767
"""Longest value of one setting, as in Kafka's controller."""
LIST_SETTINGS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "log.cleanup.policy": "delete",
    "consume.groups": "",
    "follower.replication.throttled.replicas": "",
    "leader.replication.throttled.replicas": "",
}
"""Settings to which a value can be appended, or from which one can be removed, with their defaults."""
SUBSCRIPTIONS_MAX = 1000
"""Subscriptions to metrics of clients: every client is matched with all of them."""
MIRROR_SOURCE = "mirror.source"
"""The setting that makes a topic a mirror of a parent's."""
MIRROR_KEYS = "mirror.keys"
"""The filter that the records of a mirror have passed."""
UP_TARGET = "up.target"
"""The setting that makes a topic an outbox, whose records go up to a topic of the parent."""
FLUSH_SETTINGS = ("flush.messages", "log.flush.interval.messages")
"""Settings, of a topic and of all, that say whether records are on disk before they are acknowledged."""

CheckConfigs = Callable[[Mapping[str, str]], object]


class ConfigAct(IntEnum):
    """What to do with a setting; the numbers are those of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(Struct, frozen=True):
    """One act on one setting."""

    name: str
    act: ConfigAct
    value: str | None = None


class ConfigPlan(Struct, frozen=True):
    """One commit, and the overrides after it."""

    of: str
    """The owner of the settings: `topic orders`, `broker 1`, `all brokers`, `group billing`."""
    overrides: Mapping[str, str]
    compares: tuple[Compare, ...]
    operations: tuple[Operation, ...]


def decide_configs(
    image: MetadataImage, topic: str, changes: Sequence[ConfigChange], check_configs: CheckConfigs
) -> ConfigPlan | Rejection:
    """Change some settings and leave the others (IncrementalAlterConfigs)."""
    wanted = _changed(image.overrides(topic), changes)
    return wanted if isinstance(wanted, Rejection) else decide_all_configs(image, topic, wanted, check_configs)


def decide_all_configs(
    image: MetadataImage, topic: str, configs: Mapping[str, str | None], check_configs: CheckConfigs
) -> ConfigPlan | Rejection:
    """Set exactly these, everything else back to its default (AlterConfigs)."""
    if topic not in image.topics:
        return Rejection(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic named '{topic}'.")
    overrides = checked(configs, check_configs)
    if isinstance(overrides, Rejection):
        return overrides
    for name in (MIRROR_SOURCE, MIRROR_KEYS):
        if overrides.get(name) != image.overrides(topic).get(name):
            return _bad(f"{name} is set when a topic is created, and cannot be changed.")
    key = keys.topic_config(topic)
    compares = (image.unchanged(keys.topic(topic)), image.unchanged(key))
    set_at = _flush_set_at(image, key, image.overrides(topic), overrides)
    config = values.TopicConfig(overrides=overrides, flush_set_at=set_at)
    operation = Put(key, values.encode(config)) if overrides or set_at else Delete(key)
    return ConfigPlan(f"topic {topic}", overrides, compares, (operation,))


def decide_broker_configs(
    image: MetadataImage, node_id: int | None, changes: Sequence[ConfigChange], check_configs: CheckConfigs
) -> ConfigPlan | Rejection:
    """Change some settings of one broker, or with `None` of all of them."""
    wanted = _changed(image.broker_overrides(node_id), changes)
    return wanted if isinstance(wanted, Rejection) else decide_all_broker_configs(image, node_id, wanted, check_configs)


def decide_all_broker_configs(
    image: MetadataImage, node_id: int | None, configs: Mapping[str, str | None], check_configs: CheckConfigs
) -> ConfigPlan | Rejection:
    """Set exactly these for one broker, or for all of them."""
    overrides = checked(configs, check_configs)
    if isinstance(overrides, Rejection):
        return Rejection(ErrorCode.INVALID_REQUEST, overrides.message)  # As in Kafka, for brokers.
    key = keys.broker_config(node_id)
    set_at = _flush_set_at(image, key, image.broker_overrides(node_id), overrides)
    config = values.BrokerConfig(overrides=overrides, flush_set_at=set_at)
    operation = Put(key, values.encode(config)) if overrides or set_at else Delete(key)
    of = "all brokers" if node_id is None else f"broker {node_id}"
    return ConfigPlan(of, overrides, (image.unchanged(key),), (operation,))


def decide_group_configs(
    image: MetadataImage, group_id: str, changes: Sequence[ConfigChange], check_configs: CheckConfigs
) -> ConfigPlan | Rejection:
    """Change some settings of one group."""
    wanted = _changed(image.group_overrides(group_id), changes)
    return wanted if isinstance(wanted, Rejection) else decide_all_group_configs(image, group_id, wanted, check_configs)


def decide_all_group_configs(
    image: MetadataImage, group_id: str, configs: Mapping[str, str | None], check_configs: CheckConfigs
) -> ConfigPlan | Rejection:
    """Set exactly these for one group, which need not exist yet."""
    overrides = checked(configs, check_configs)
    if isinstance(overrides, Rejection):
        return overrides
    key = keys.group_config(group_id)
    operation = Put(key, values.encode(values.GroupConfig(overrides=overrides))) if overrides else Delete(key)
    return ConfigPlan(f"group {group_id}", overrides, (image.unchanged(key),), (operation,))


def decide_client_metrics(
    image: MetadataImage, name: str, changes: Sequence[ConfigChange], check_configs: CheckConfigs
) -> ConfigPlan | Rejection:
    """Change some settings of one subscription."""
    wanted = _changed(image.client_metrics.get(name, {}), changes)
    return wanted if isinstance(wanted, Rejection) else decide_all_client_metrics(image, name, wanted, check_configs)


def decide_all_client_metrics(
    image: MetadataImage, name: str, configs: Mapping[str, str | None], check_configs: CheckConfigs
) -> ConfigPlan | Rejection:
    """Set exactly these; a subscription without settings is none."""
    overrides = checked(configs, check_configs)
    if isinstance(overrides, Rejection):
        return overrides
    key = keys.client_metrics(name)
    if overrides and name not in image.client_metrics and len(image.client_metrics) >= SUBSCRIPTIONS_MAX:
        return _bad(f"There are {SUBSCRIPTIONS_MAX} subscriptions to client metrics already: remove one first.")
    operation = Put(key, values.encode(values.ClientMetricsConfig(overrides=overrides))) if overrides else Delete(key)
    return ConfigPlan(f"client metrics {name}", overrides, (image.unchanged(key),), (operation,))


def _flush_set_at(image: MetadataImage, key: str, before: Mapping[str, str], after: Mapping[str, str]) -> int:
    """Since when records are flushed as they are after the change.

    What was acknowledged before may not be on disk: after a crash, only members of later than this are trusted.
    """
    if any(before.get(name) != after.get(name) for name in FLUSH_SETTINGS):
        return values.SINCE_NOW
    return image.flush_set_at.get(key, 0)


def checked(configs: Mapping[str, str | None], check_configs: CheckConfigs) -> dict[str, str] | Rejection:
    """Settings that the log accepts, in order of their names."""
    overrides: dict[str, str] = {}
    for name in sorted(configs):
        value = configs[name]
        if value is None:
            return _bad(f"Null value not supported for topic configs: {name}")
        if 4 * len(value) > VALUE_BYTES_MAX and len(value.encode()) > VALUE_BYTES_MAX:
            return _bad(
                f"The configuration value of {name} cannot be added because it exceeds the maximum value size of "
                f"{VALUE_BYTES_MAX} bytes."
            )
        overrides[name] = value
    try:
        check_configs(overrides)
    except InvalidSettingError as error:
        return Rejection(error.code, str(error))
    return overrides


def _changed(before: Mapping[str, str], changes: Sequence[ConfigChange]) -> dict[str, str | None] | Rejection:
    """The overrides after some changes, each of another setting."""
    overrides: dict[str, str | None] = dict(before)
    seen: set[str] = set()
    for change in changes:
        if change.name in seen:
            return Rejection(ErrorCode.INVALID_REQUEST, f"The setting {change.name} is changed twice in one request.")
        seen.add(change.name)
        if (rejection := _step(overrides, change)) is not None:
            return rejection
    return overrides


def _step(overrides: dict[str, str | None], change: ConfigChange) -> Rejection | None:
    match change.act:
        case ConfigAct.SET:
            overrides[change.name] = change.value
        case ConfigAct.DELETE:
            overrides.pop(change.name, None)
        case ConfigAct.APPEND | ConfigAct.SUBTRACT:
            return _step_list(overrides, change)
        case never:
            assert_never(never)
    return None


def _step_list(overrides: dict[str, str | None], change: ConfigChange) -> Rejection | None:
    if change.name not in LIST_SETTINGS:
        return _bad(f"Can't {change.act.name} to key {change.name} because its type is not LIST.")
    if change.value is None:
        return _bad(f"Can't {change.act.name} nothing to key {change.name}.")
    before = overrides.get(change.name)
    present = _items(LIST_SETTINGS[change.name] if before is None else before)
    named = _items(change.value)
    if change.act is ConfigAct.APPEND:
        present += [item for item in named if item not in present]
    else:
        present = [item for item in present if item not in named]
    overrides[change.name] = ",".join(present)
    return None


def _items(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def _bad(message: str) -> Rejection:
    return Rejection(ErrorCode.INVALID_CONFIG, message)
