"""Which settings are in force, and where each comes from: what DescribeConfigs tells.

A topic's setting comes from the topic, or is the broker's default, which has a name of its
own (`log.retention.ms` for `retention.ms`). A broker's settings come from its start,
or are defaults; none can be changed while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from qanat.broker.setting_kinds import INT_MAX, SettingKind
from qanat.broker.topic_settings import TOPIC_SETTINGS, TopicSetting
from qanat.model.setting_meanings import meanings
from qanat.model.settings import Settings

if TYPE_CHECKING:
    from qanat.broker.broker import Broker


class SettingSource(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    TOPIC = 1
    AT_START = 4
    DEFAULT = 5


class Synonym(NamedTuple):
    """A value that counts where no stronger one is set, under the name that it has there."""

    name: str
    value: str | None
    source: SettingSource


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """One setting in force."""

    name: str
    value: str | None
    kind: SettingKind
    source: SettingSource
    synonyms: tuple[Synonym, ...]
    """Every value for it, the one in force first."""
    meaning: str
    is_read_only: bool


def topic_entries(overrides: Mapping[str, str], at_start: Mapping[str, str]) -> list[SettingEntry]:
    """All settings of a topic, by name; `at_start` are the defaults that the broker was started with."""
    return [_topic_entry(row, overrides.get(row.name), at_start.get(row.name)) for row in TOPIC_SETTINGS.values()]


def _topic_entry(row: TopicSetting, override: str | None, at_start: str | None) -> SettingEntry:
    synonyms = []
    if override is not None:
        synonyms.append(Synonym(row.name, override, SettingSource.TOPIC))
    if row.broker_name is not None and at_start is not None:
        synonyms.append(Synonym(row.broker_name, at_start, SettingSource.AT_START))
    if row.broker_name is not None:
        synonyms.append(Synonym(row.broker_name, row.default, SettingSource.DEFAULT))
    _, value, source = synonyms[0] if synonyms else Synonym(row.name, row.default, SettingSource.DEFAULT)
    return SettingEntry(row.name, value, row.form.kind, source, tuple(synonyms), _meaning(row), is_read_only=False)


def _meaning(row: TopicSetting) -> str:
    return row.meaning if row.is_obeyed else f"{row.meaning} (Has no effect in Qanat.)"


def broker_entries(broker: Broker) -> list[SettingEntry]:
    """All settings of a broker, by name."""
    entries = [*_identity(broker)]
    for settings in (broker.settings, broker.runtime.directory.settings):
        entries += _of_struct(settings)
    entries += [
        _broker_entry(
            row.broker_name,
            broker.topic_defaults.get(row.name, row.default),
            row.default,
            row.form.kind,
            _meaning(row),
        )
        for row in TOPIC_SETTINGS.values()
        if row.broker_name is not None
    ]
    by_name = {entry.name: entry for entry in reversed(entries)}
    return [by_name[name] for name in sorted(by_name)]


def _identity(broker: Broker) -> Iterator[SettingEntry]:
    """What a broker is and where, under the names that tools look for."""
    registration = broker.metadata.image.brokers[broker.node_id]
    listeners = ",".join(f"{one.name}://{one.host}:{one.port}" for one in registration.listeners)
    name = registration.listeners[0].name if registration.listeners else "PLAINTEXT"
    bound = f"{name}://{broker.settings.host_name}:{broker.settings.port}"
    string, number = SettingKind.STRING, SettingKind.INT
    yield _broker_entry("advertised.listeners", listeners, None, string, "Addresses that clients are told.")
    yield _broker_entry("broker.id", str(broker.node_id), None, number, "This broker's number in the cluster.")
    yield _broker_entry("listeners", bound, None, string, "Address that is bound to.")
    path = broker.runtime.directory.path
    yield _broker_entry("log.dirs", path, None, string, "Where records are kept.")
    yield _broker_entry("node.id", str(broker.node_id), None, number, "This broker's number in the cluster.")


def _of_struct(settings: Settings) -> Iterator[SettingEntry]:
    defaults, told = type(settings)(), meanings(type(settings))
    for field, name in zip(settings.__struct_fields__, settings.__struct_encode_fields__, strict=True):
        value, default = getattr(settings, field), getattr(defaults, field)
        yield _broker_entry(name, _text(value), _text(default), _kind(name, value), told.get(name, ""))


def _broker_entry(name: str, value: str | None, default: str | None, kind: SettingKind, meaning: str) -> SettingEntry:
    synonyms: Sequence[Synonym] = () if default is None else (Synonym(name, default, SettingSource.DEFAULT),)
    source = SettingSource.DEFAULT if value == default else SettingSource.AT_START
    if source is SettingSource.AT_START:
        synonyms = (Synonym(name, value, source), *synonyms)
    return SettingEntry(name, value, kind, source, tuple(synonyms), meaning, is_read_only=True)


def _text(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(name: str, value: object) -> SettingKind:
    match value:
        case bool():
            return SettingKind.BOOLEAN
        case int():
            return SettingKind.LONG if name.endswith((".ms", ".bytes")) or value > INT_MAX else SettingKind.INT
        case float():
            return SettingKind.DOUBLE
        case _:
            return SettingKind.STRING
