"""Which records a batch is refused for, by their place in it (KIP-467).

A batch is taken whole or not at all, and judged by what is cheap to see: how
many keys are null, which timestamps its header names. Only one that is refused
is read record by record, so that its producer learns which records to drop and
may send the others again.

A very large batch is refused without names: reading it would hold up others,
for the sake of an answer larger than the batch.
"""

from __future__ import annotations

from qanat.log.files import Buffer
from qanat.log.settings import NEVER_MS, LogSettings, TimestampType
from qanat.model.errors import CorruptBatchError, InvalidRecordError, InvalidTimestampError, RecordFault
from qanat.model.ids import NO_TIMESTAMP
from qanat.wire.batch_header import BatchHeader
from qanat.wire.record_reader import split_records
from qanat.wire.records import open_batch

READ_RECORDS_MAX = 10_000
"""Records of a batch that is read: librdkafka's largest by default (`batch.num.messages`)."""

_NO_KEY = "a record of a compacted topic needs a key"


def named(
    fault: InvalidRecordError,
    header: BatchHeader,
    batch: Buffer,
    settings: LogSettings,
    now_ms: int,
    decompressed_limit_bytes: int,
) -> InvalidRecordError:
    """The same refusal, with the records that it is for; a timestamp is the graver fault, as in Kafka.

    With a limit of 0 nothing is opened, and nothing named: so are staged files judged, which hold many batches.
    """
    if header.record_count > READ_RECORDS_MAX or decompressed_limit_bytes == 0:
        return fault
    _, payload = open_batch(batch, decompressed_limit_bytes)
    try:
        records = split_records(payload, header.record_count, header.last_offset_delta)
    except CorruptBatchError:
        return fault
    times = _Times(settings, now_ms)
    found: list[RecordFault] = []
    untimely: str | None = None
    for place, (_, timestamp_delta, _, key, _, _) in enumerate(records):
        if key is None and settings.is_compacted:
            found.append(RecordFault(place, _NO_KEY))
        elif (text := times.fault(header.base_timestamp + timestamp_delta)) is not None:
            found.append(RecordFault(place, text))
            untimely = untimely or text
    if untimely is not None and not isinstance(fault, InvalidTimestampError):
        return InvalidTimestampError(untimely, found)
    return type(fault)(str(fault), found)


class _Times:
    """The timestamps that a topic takes at one moment."""

    __slots__ = ("_earliest", "_is_free", "_latest")

    def __init__(self, settings: LogSettings, now_ms: int) -> None:
        self._is_free = settings.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        self._latest = now_ms + settings.message_timestamp_after_max_ms
        before_ms = settings.message_timestamp_before_max_ms
        self._earliest = NO_TIMESTAMP if before_ms == NEVER_MS else now_ms - before_ms

    def fault(self, timestamp: int) -> str | None:
        if self._is_free or timestamp == NO_TIMESTAMP or self._earliest <= timestamp <= self._latest:
            return None
        return f"timestamp {timestamp} is not within {self._earliest} and {self._latest}"
