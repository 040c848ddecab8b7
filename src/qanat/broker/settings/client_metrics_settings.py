"""Settings of subscriptions to metrics of clients, as DescribeConfigs shows them."""

from __future__ import annotations

from collections.abc import Mapping

from qanat.broker.settings.effective_settings import SettingEntry, SettingSource, Synonym
from qanat.broker.settings.setting_kinds import SettingKind
from qanat.cluster.client_metrics import DEFAULT_INTERVAL_MS, INTERVAL, MATCH, METRICS

_ROWS = (
    (INTERVAL, SettingKind.INT, str(DEFAULT_INTERVAL_MS), "How often matching clients push their metrics."),
    (MATCH, SettingKind.LIST, "", "Which clients: property=pattern, ...; all where it is empty."),
    (METRICS, SettingKind.LIST, "", "Prefixes of the names of metrics to push; * stands for all."),
)


def client_metrics_entries(overrides: Mapping[str, str]) -> list[SettingEntry]:
    """All settings of a subscription, by name."""
    return [_entry(name, kind, default, overrides.get(name), meaning) for name, kind, default, meaning in _ROWS]


def _entry(name: str, kind: SettingKind, default: str, override: str | None, meaning: str) -> SettingEntry:
    source = SettingSource.DEFAULT if override is None else SettingSource.CLIENT_METRICS
    value = default if override is None else override
    synonyms = () if override is None else (Synonym(name, value, source),)
    return SettingEntry(name, value, kind, source, synonyms, meaning, is_read_only=False)
