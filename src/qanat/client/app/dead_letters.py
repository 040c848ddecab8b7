"""Dead letters: records that a handler has given up, whole, in the one dialect of `qanat.model.dead_letters`."""

from __future__ import annotations

from qanat.client.app.sending import Send
from qanat.client.records import Record
from qanat.model.dead_letters import Origin

_MESSAGE_CHARACTERS_MAX = 2000


def letter(
    topic: str, record: Record[bytes | None, bytes | None], group: str, attempts: int, fault: BaseException
) -> Send:
    """The record as it was, with its raw bytes and its time, and where it comes from and why."""
    reason = f"{type(fault).__name__}: {fault}"[:_MESSAGE_CHARACTERS_MAX]
    origin = Origin(
        record.topic,
        record.partition,
        record.offset,
        reason,
        group,
        attempts,
        record.timestamp_ms if record.timestamp_ms >= 0 else None,
    )
    timestamp_ms = record.timestamp_ms if record.timestamp_ms >= 0 else None
    return Send(topic, record.value, record.key, (*record.headers, *origin.headers()), timestamp_ms=timestamp_ms)
