"""The judgement: every acknowledged record is where its acknowledgement said, once the fire is out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from verify.security_fire.administration import PARTITIONS
from verify.security_fire.clients import OPTIONS, Ledger

_TIMEOUT_S = 90.0
_SHOWN = 5


def lost_records(topic: str, ledger: Ledger, security: Mapping[str, Any]) -> list[str]:
    """Acknowledged records that are gone, or at another offset."""
    found = _read_everything(topic, security)
    values = set(found.values())
    lost = [
        f"lost: {value!r} was acknowledged at {at}, where {topic} has {found.get(at)!r}"
        for value, at in ledger.acknowledged.items()
        if (value not in values if at[1] < 0 else found.get(at) != value)
    ]
    return lost[:_SHOWN] + [f"lost: {len(lost)} records of {topic}"] * (len(lost) > _SHOWN)


def _read_everything(topic: str, security: Mapping[str, Any]) -> dict[tuple[int, int], bytes]:
    options = {"group.id": "judge", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({**OPTIONS, **options, **security})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: dict[tuple[int, int], bytes] = {}
    ended: set[int] = set()
    deadline = time.monotonic() + _TIMEOUT_S
    while len(ended) < PARTITIONS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} cannot be read to its end")
        for message in consumer.consume(1000, 0.5):
            error = message.error()
            if error is None:
                found[message.partition() or 0, message.offset() or 0] = message.value() or b""
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
    consumer.close()
    return found
