"""Records in delivery of a queue, as a setting of its group that DescribeConfigs shows where it is asked for by name.

Each broker knows those of the partitions that it leads: which member holds which records, until when, and how often
they were delivered. Nothing is loaded for it: a partition that no member has used since its leader came has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from qanat.broker.settings.effective_settings import SettingEntry, SettingSource
from qanat.broker.settings.setting_kinds import SettingKind
from qanat.groups.share.record_states import RecordState
from qanat.model.ids import TopicId

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

NAME = "queue.records"
RUNS_MAX = 1000
"""Runs of equal neighbours that one broker shows of one queue."""


class QueueRun(msgspec.Struct, frozen=True):
    """Neighbouring records with one state, one delivery count and one holder."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    state: str
    """`acquired`: a member holds them; `available`: they were delivered, and came back; `archiving`: given up now."""
    delivery_count: int
    member_id: str
    lock_left_ms: int | None
    """How long the lock lasts; None where there is none."""


def queue_entry(broker: Broker, group: str) -> SettingEntry | None:
    """The records in delivery of a queue at this broker; None where it leads none of its partitions."""
    if not broker.is_made("share_partitions"):
        return None
    runs: list[QueueRun] = []
    for led in broker.share_partitions.all_led():
        topic = broker.metadata.image.topics_by_id.get(TopicId.of(led.key.topic_id))
        if led.key.group_id != group or topic is None or not led.is_serving:
            continue
        for batch, member, left_ms in led.in_delivery():
            first, last, state, count = batch
            shown = RecordState(state).name.lower()
            runs.append(QueueRun(topic.name, led.key.partition, first, last, shown, count, member, left_ms))
    text = msgspec.json.encode(runs[:RUNS_MAX]).decode()
    meaning = "Records that members of the queue hold, or that came back."
    return SettingEntry(NAME, text, SettingKind.STRING, SettingSource.DEFAULT, (), meaning, is_read_only=True)
