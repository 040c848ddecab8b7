"""Dynamic settings: those of a broker that may be changed while it runs, and the settings in force after a change.

Changes are in the metadata store: for one broker, or for all of them; those for one broker take precedence. All topic
defaults (`log.retention.ms`, `message.max.bytes`, …) are dynamic; of the rest, those that their users look up each
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from qanat.broker.settings import topic_settings
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.broker.settings.topic_settings import TOPIC_SETTINGS, TopicSetting
from qanat.groups.settings import GroupSettings
from qanat.log.settings import DirectorySettings
from qanat.model.errors import InvalidSettingError
from qanat.model.settings import Settings

Struct = TypeVar("Struct", bound=Settings)

_TOPIC_DEFAULTS: Mapping[str, TopicSetting] = {
    row.broker_name: row for row in TOPIC_SETTINGS.values() if row.broker_name is not None
}
_OF_BROKER = (
    "auto.leader.rebalance.enable",
    "auto.partition.rebalance.enable",
    "auto.partition.rebalance.moves",
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "max.connections",
    "reassignment.throttled.rate",
    "slow.request.ms",
)
_OF_DIRECTORY = (
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.retention.check.interval.ms",
    "log.staging.bytes.max",
    "log.staging.retention.ms",
    "producer.id.expiration.ms",
)
_OF_GROUPS = (
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "offset.metadata.max.bytes",
    "offsets.retention.minutes",
)
DYNAMIC = frozenset((*_TOPIC_DEFAULTS, *_OF_BROKER, *_OF_DIRECTORY, *_OF_GROUPS))
"""Names of settings that may be changed while a broker runs."""


@dataclass(frozen=True, slots=True)
class InForce:
    """All settings of a broker, as they are in force."""

    broker: BrokerSettings
    directory: DirectorySettings
    groups: GroupSettings
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """Settings of topics that have none of their own, by the topics' names for them."""

    def with_changes(self, overrides: Mapping[str, str]) -> InForce:
        """The same with some settings changed; raises `InvalidSettingError` in Kafka's words."""
        defaults = dict(self.topic_defaults)
        for name, value in overrides.items():
            row = _TOPIC_DEFAULTS.get(name)
            if row is not None:
                defaults[row.name] = row.form.normalize(name, value)
        topic_settings.parse(defaults)
        return InForce(
            _changed(self.broker, _of(overrides, _OF_BROKER)),
            _changed(self.directory, _of(overrides, _OF_DIRECTORY)),
            _changed(self.groups, _of(overrides, _OF_GROUPS)),
            defaults,
        )


_COMBINED = ("min.compaction.lag.ms", "max.compaction.lag.ms")
"""Topic settings that must fit each other, whatever the source of each."""


def check_overrides(at_start: InForce, overrides: Mapping[str, str], topics: Iterable[Mapping[str, str]]) -> None:
    """Refuse overrides that cannot be in force, alone or together with the overrides of topics."""
    unknown = [name for name in overrides if name not in DYNAMIC]
    if unknown:
        raise InvalidSettingError(f"Unknown broker config name: {', '.join(unknown)}")
    defaults = at_start.with_changes(overrides).topic_defaults
    if not any(name in defaults for name in _COMBINED):
        return
    for own in topics:
        if any(name in own for name in _COMBINED):
            topic_settings.parse({**defaults, **own})


def _of(overrides: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: overrides[name] for name in names if name in overrides}


def _changed(settings: Struct, overrides: Mapping[str, str]) -> Struct:
    if not overrides:
        return settings
    fields = zip(settings.__struct_fields__, settings.__struct_encode_fields__, strict=True)
    present = {name: getattr(settings, attribute) for attribute, name in fields}
    return settings.parse({**present, **overrides})
