"""Record faults: the records that a batch is rejected for, by their index in it (KIP-467).

A batch is accepted or rejected as a whole, by what is cheap to see: how
many keys are null, which timestamps its header names. Only a rejected one
is read record by record, so that its producer learns which records to drop and
may send the others again.

A very large batch is rejected without such a list: reading it would delay other clients,
for an answer larger than the batch.
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
"""The largest batch that is read, in records: librdkafka's largest by default (`batch.num.messages`)."""

_NO_KEY = "a record of a compacted topic needs a key"


def with_record_faults(
    fault: InvalidRecordError,
    header: BatchHeader,
    batch: Buffer,
    settings: LogSettings,
    now_ms: int,
    decompressed_limit_bytes: int,
) -> InvalidRecordError:
    """The same error, with the records at fault; a wrong timestamp takes precedence, as in Kafka.

    With a limit of 0 nothing is opened and nothing is listed: so for staged files, which hold many batches.
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
    """The timestamps that a topic accepts at one moment."""

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
