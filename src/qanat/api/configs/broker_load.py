"""The load of a broker, as a setting that DescribeConfigs shows where it is asked for by name (`qanat diagnose`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from qanat.broker.settings.effective_settings import SettingEntry, SettingSource
from qanat.broker.settings.setting_kinds import SettingKind

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

NAME = "broker.load"


async def load_entry(broker: Broker) -> SettingEntry:
    """What this broker has counted since someone watches it."""
    text = msgspec.json.encode(await broker.load_sampler.reading()).decode()
    meaning = "What requests wait for, as counters; two of them make a diagnosis."
    return SettingEntry(NAME, text, SettingKind.STRING, SettingSource.DEFAULT, (), meaning, is_read_only=True)
