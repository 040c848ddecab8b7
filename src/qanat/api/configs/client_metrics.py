"""Metrics that clients pushed to a broker, as a setting of the broker that DescribeConfigs shows where it is asked for.

The name is `client.metrics`; `client.metrics:<client instance id>` adds the numbers of that client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from qanat.broker.settings.effective_settings import SettingEntry, SettingSource
from qanat.broker.settings.setting_kinds import SettingKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qanat.broker.broker import Broker

NAME = "client.metrics"


def client_metrics_entry(broker: Broker, asked: Iterable[str]) -> SettingEntry | None:
    """The clients of a broker; None where nobody asked."""
    names = [name for name in asked if name == NAME or name.startswith(NAME + ":")]
    if not names:
        return None
    wanted = {name.partition(":")[2] for name in names}
    text = msgspec.json.encode(broker.client_metrics.report(wanted)).decode()
    meaning = "Clients that push metrics to this broker."
    return SettingEntry(names[0], text, SettingKind.STRING, SettingSource.DEFAULT, (), meaning, is_read_only=True)
