"""The lag of groups, as a setting that DescribeConfigs shows where it is asked for by name.

Of a broker: all groups that it coordinates. Of a group: its partitions and its last day, from its coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from qanat.broker.settings.effective_settings import SettingEntry, SettingSource
from qanat.broker.settings.setting_kinds import SettingKind

if TYPE_CHECKING:
    from qanat.broker.broker import Broker
    from qanat.wire.kafka.messages.describe_configs import DescribeConfigsResource

NAME = "group.lag"


def asks_for_lag(resource: DescribeConfigsResource) -> bool:
    return NAME in (resource.configuration_keys or ())


def broker_entry(broker: Broker) -> SettingEntry | None:
    """The groups that a broker coordinates; None where none are collected."""
    report = broker.group_lag.report()
    return None if report is None else _entry(report)


def group_entry(broker: Broker, group: str) -> SettingEntry | None:
    """One group; None where this broker is not its coordinator, or it has committed nothing."""
    details = broker.group_lag.details(group)
    return None if details is None else _entry(details)


def _entry(found: object) -> SettingEntry:
    text = msgspec.json.encode(found).decode()
    meaning = "How far groups are behind, as the collector of lag found."
    return SettingEntry(NAME, text, SettingKind.STRING, SettingSource.DEFAULT, (), meaning, is_read_only=True)
