"""Effective settings: each setting with its value and its source, as DescribeConfigs returns them.

A topic's setting comes from the topic, or is the broker's default, which has a name of its own (`log.retention.ms` for
`retention.ms`). A broker's setting was changed while it runs, for itself or for all brokers (`dynamic_settings`), or
comes from its start, or is the default.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from qanat.broker.settings.current_settings import CurrentSettings
from qanat.broker.settings.dynamic_settings import DYNAMIC
from qanat.broker.settings.setting_kinds import INT_MAX, SettingKind
from qanat.broker.settings.topic_settings import TOPIC_SETTINGS, TopicSetting
from qanat.model.setting_meanings import meanings
from qanat.model.settings import Settings

_SHOWN_SECURITY = (
    "allow.everyone.if.no.acl.found",
    "authorizer.class.name",
    "authorizer.dry.run",
    "sasl.enabled.mechanisms",
    "super.users",
)
"""Security settings that clients may see; others may hold secrets."""


class SettingSource(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    TOPIC = 1
    ONE_BROKER = 2
    ALL_BROKERS = 3
    AT_START = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """A value that counts where no source before it has one, under its name there."""

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


@dataclass(frozen=True, slots=True)
class Layers:
    """The overrides of brokers, from the strongest source to the weakest; by brokers' names but for `at_start`."""

    for_one: Mapping[str, str]
    for_all: Mapping[str, str]
    at_start: Mapping[str, str]
    """Defaults of topics, by topics' names, that the broker was started with."""

    def changes(self, name: str) -> list[Synonym]:
        """The changes of a setting while the broker runs."""
        found = ((self.for_one, SettingSource.ONE_BROKER), (self.for_all, SettingSource.ALL_BROKERS))
        return [Synonym(name, layer[name], source) for layer, source in found if name in layer]


def layers_of(settings: CurrentSettings) -> Layers:
    image, at_start = settings.image, settings.at_start
    return Layers(image.broker_overrides(settings.node_id), image.broker_overrides(None), at_start.topic_defaults)


def topic_entries(overrides: Mapping[str, str], layers: Layers) -> list[SettingEntry]:
    """All settings of a topic, by name."""
    return [_topic_entry(row, overrides.get(row.name), layers) for row in TOPIC_SETTINGS.values()]


def _topic_entry(row: TopicSetting, override: str | None, layers: Layers) -> SettingEntry:
    synonyms = []
    if override is not None:
        synonyms.append(Synonym(row.name, override, SettingSource.TOPIC))
    if row.broker_name is not None:
        synonyms += layers.changes(row.broker_name)
        if row.name in layers.at_start:
            synonyms.append(Synonym(row.broker_name, layers.at_start[row.name], SettingSource.AT_START))
        synonyms.append(Synonym(row.broker_name, row.default, SettingSource.DEFAULT))
    _, value, source = synonyms[0] if synonyms else Synonym(row.name, row.default, SettingSource.DEFAULT)
    return SettingEntry(row.name, value, row.form.kind, source, tuple(synonyms), _meaning(row), is_read_only=False)


def _meaning(row: TopicSetting) -> str:
    return row.meaning if row.has_effect else f"{row.meaning} (Has no effect in Qanat.)"


def broker_entries(current: CurrentSettings) -> list[SettingEntry]:
    """All settings of a broker, by name."""
    layers, at_start = layers_of(current), current.at_start
    entries = [*_identity(current)]
    for settings in (at_start.broker, at_start.directory, at_start.groups, current.transactions):
        entries += _of_struct(settings)
    entries += [entry for entry in _of_struct(current.security) if entry.name in _SHOWN_SECURITY]
    entries += [
        _broker_entry(
            row.broker_name,
            at_start.topic_defaults.get(row.name, row.default),
            row.default,
            row.form.kind,
            _meaning(row),
        )
        for row in TOPIC_SETTINGS.values()
        if row.broker_name is not None
    ]
    by_name = {entry.name: _changed(entry, layers.changes(entry.name)) for entry in reversed(entries)}
    return [by_name[name] for name in sorted(by_name)]


def entries_for_all(current: CurrentSettings) -> list[SettingEntry]:
    """The overrides for all brokers."""
    return [
        replace(entry, value=said.value, source=said.source, synonyms=(said,))
        for entry in broker_entries(current)
        for said in entry.synonyms
        if said.source is SettingSource.ALL_BROKERS
    ]


def _changed(entry: SettingEntry, changes: Sequence[Synonym]) -> SettingEntry:
    """A setting with its changes while the broker runs."""
    entry = replace(entry, is_read_only=entry.name not in DYNAMIC)
    if not changes:
        return entry
    return replace(entry, value=changes[0].value, source=changes[0].source, synonyms=(*changes, *entry.synonyms))


def _identity(current: CurrentSettings) -> Iterator[SettingEntry]:
    """A broker's identity and addresses, under the names that tools look for."""
    registration, node_id = current.image.brokers[current.node_id], str(current.node_id)
    listeners = ",".join(f"{one.name}://{one.host}:{one.port}" for one in registration.listeners)
    name = registration.listeners[0].name if registration.listeners else "PLAINTEXT"
    has_one = len(registration.listeners) == 1
    bound = f"{name}://{current.broker.host_name}:{current.broker.port}" if has_one else listeners
    string, number = SettingKind.STRING, SettingKind.INT
    yield _broker_entry("advertised.listeners", listeners, None, string, "Addresses that clients connect to.")
    yield _broker_entry("broker.id", node_id, None, number, "This broker's number in the cluster.")
    yield _broker_entry("listeners", bound, None, string, "Address that is bound to.")
    yield _broker_entry("log.dirs", current.directory.path, None, string, "Where records are kept.")
    yield _broker_entry("node.id", node_id, None, number, "This broker's number in the cluster.")
    yield _broker_entry("process.id", str(os.getpid()), None, number, "The process that this broker runs in.")


def _of_struct(settings: Settings) -> Iterator[SettingEntry]:
    defaults, known = type(settings)(), meanings(type(settings))
    for field, name in zip(settings.__struct_fields__, settings.__struct_encode_fields__, strict=True):
        value, default = getattr(settings, field), getattr(defaults, field)
        yield _broker_entry(name, _text(value), _text(default), _kind(name, value), known.get(name, ""))


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
