"""Admission: the rules that a client's batch must satisfy, and the changes that the topic's settings make to it.

Pure and safe on any thread: large batches are admitted in a worker. The fast
path reads the header and the checksum only. A batch is opened where the
topic is compacted (every record needs a key) or stores another codec than the
batch has, and where it is rejected because of single records (`record_faults`).
"""

from __future__ import annotations

import msgspec

from qanat.log.files import Buffer
from qanat.log.record_faults import with_record_faults
from qanat.log.settings import NEVER_MS, CompressionType, LogSettings, TimestampType
from qanat.model.errors import (
    BatchExceedsSegmentError,
    BatchTooLargeError,
    InvalidRecordError,
    InvalidTimestampError,
)
from qanat.model.ids import NO_TIMESTAMP
from qanat.wire.batch_header import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    check_batch,
    read_header,
)
from qanat.wire.compression import Codec
from qanat.wire.filtering import check_records
from qanat.wire.records import reencode, with_log_append_time

# Looked up once: access to a member of an enumeration is slow.
_AS_PRODUCED = CompressionType.PRODUCER
_LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME
_CHECKED_ATTRIBUTES = CONTROL | TRANSACTIONAL | LOG_APPEND_TIME


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """An accepted batch: append it as it is."""

    header: BatchHeader
    batch: Buffer


def is_opened(settings: LogSettings) -> bool:
    """Whether this topic opens every batch, which is work for a worker."""
    return settings.is_compacted or settings.compression_type is not _AS_PRODUCED


def admit(batch: Buffer, settings: LogSettings, now_ms: int, decompressed_limit_bytes: int) -> Admitted:
    """Check one batch from a client against a topic's settings; raises Kafka's errors."""
    size = len(batch)
    if size > settings.max_message_bytes or size > settings.segment_bytes:
        _check_size(size, settings)
    header = check_batch(batch)
    if header.producer_id >= 0 or header.attributes & _CHECKED_ATTRIBUTES:
        _check_producer(header)
    if not settings.keeps_batches:
        return _adapted(header, batch, settings, now_ms, decompressed_limit_bytes)
    if header.max_timestamp > now_ms + settings.message_timestamp_after_max_ms:
        _check_records(header, batch, settings, now_ms, decompressed_limit_bytes)
    return Admitted(header, batch)


def _check_records(
    header: BatchHeader, batch: Buffer, settings: LogSettings, now_ms: int, decompressed_limit_bytes: int
) -> None:
    """Check keys, where the topic is compacted, and timestamps; the error names the records at fault."""
    try:
        if settings.is_compacted:
            check_records(batch, decompressed_limit_bytes, keys_required=True)
        if settings.message_timestamp_type is not _LOG_APPEND_TIME:
            _check_timestamps(header, settings, now_ms)
    except InvalidRecordError as fault:
        raise with_record_faults(fault, header, batch, settings, now_ms, decompressed_limit_bytes) from None


def _adapted(
    header: BatchHeader, batch: Buffer, settings: LogSettings, now_ms: int, decompressed_limit_bytes: int
) -> Admitted:
    """The batch as the topic's settings change it."""
    _check_records(header, batch, settings, now_ms, decompressed_limit_bytes)
    if settings.compression_type is not _AS_PRODUCED:
        codec = Codec.from_name(settings.compression_type)
        if header.codec != codec:
            batch = reencode(batch, codec, decompressed_limit_bytes, settings.compression_level)
            header = read_header(batch)
            _check_size(len(batch), settings)
    if settings.message_timestamp_type is _LOG_APPEND_TIME:
        batch = with_log_append_time(batch, now_ms)
        header = read_header(batch)
    return Admitted(header, batch)


def _check_size(size: int, settings: LogSettings) -> None:
    if size > settings.max_message_bytes:
        raise BatchTooLargeError(
            f"the batch has {size} bytes, max.message.bytes of the topic is {settings.max_message_bytes}: "
            "send smaller batches or raise the setting"
        )
    if size > settings.segment_bytes:
        raise BatchExceedsSegmentError(
            f"the batch has {size} bytes, segment.bytes of the topic is {settings.segment_bytes}"
        )


def _check_producer(header: BatchHeader) -> None:
    if header.is_control:
        raise InvalidRecordError("clients may not write control batches")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidRecordError(
            f"producer {header.producer_id} sent sequence {header.base_sequence} with epoch {header.producer_epoch}: "
            "neither may be negative"
        )
    if header.producer_id < 0 and header.is_transactional:
        raise InvalidRecordError("a transactional batch needs a producer id")
    if header.is_log_append_time:
        raise InvalidTimestampError("clients may not set the timestamp type LogAppendTime: that is the topic's to say")


def _check_timestamps(header: BatchHeader, settings: LogSettings, now_ms: int) -> None:
    """By the header alone: its first and its largest timestamp."""
    latest = now_ms + settings.message_timestamp_after_max_ms
    if header.max_timestamp > latest:
        raise InvalidTimestampError(
            f"timestamp {header.max_timestamp} is more than message.timestamp.after.max.ms "
            f"({settings.message_timestamp_after_max_ms}) ahead of the broker's clock ({now_ms})"
        )
    if settings.message_timestamp_before_max_ms == NEVER_MS or header.base_timestamp == NO_TIMESTAMP:
        return
    if header.base_timestamp < now_ms - settings.message_timestamp_before_max_ms:
        raise InvalidTimestampError(
            f"timestamp {header.base_timestamp} is more than message.timestamp.before.max.ms "
            f"({settings.message_timestamp_before_max_ms}) behind the broker's clock ({now_ms})"
        )
