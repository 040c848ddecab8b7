"""Settings of a log: topic settings under Kafka's names, and those of a data directory.

Each field's name is Kafka's with underscores for dots; `parse` takes Kafka's
spelling, strings included, and rejects unknown names (`model.settings`).
"""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Annotated

from msgspec import Meta

from qanat.model.settings import NotNegative, OrUnlimited, Positive, Ratio, Settings

NEVER_MS = 2**63 - 1
"""Kafka's value for a delay that never ends: the largest number there is."""

_SECOND = 1_000
_DAY = 24 * 60 * 60 * _SECOND
_MIB = 1024 * 1024


class TimestampType(StrEnum):
    """Whose clock a record's timestamp comes from."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class CompressionType(StrEnum):
    """How batches lie on disk; `producer` keeps them as they came."""

    PRODUCER = "producer"
    UNCOMPRESSED = "uncompressed"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class CleanupPolicy(StrEnum):
    """What happens to old records."""

    DELETE = "delete"
    COMPACT = "compact"
    BOTH = "compact,delete"
    CONSUME = "consume"
    CONSUME_OR_DELETE = "consume,delete"


FAST_LZ4 = 9
"""Kafka's default level of lz4: it selects the fast compressor, which is not among the levels."""
_QUICK_LEVEL_MAX = {CompressionType.GZIP: 6, CompressionType.LZ4: 8, CompressionType.ZSTD: 9}
"""Up to these levels 64 KiB take two milliseconds or so; at the highest ones they take twenty to a hundred."""
_COMPACTED = (CleanupPolicy.COMPACT, CleanupPolicy.BOTH)
_EXPIRED = (CleanupPolicy.DELETE, CleanupPolicy.BOTH, CleanupPolicy.CONSUME_OR_DELETE)
_CONSUMED = (CleanupPolicy.CONSUME, CleanupPolicy.CONSUME_OR_DELETE)


class LogSettings(Settings, frozen=True):
    """The settings of one topic that its logs use. Defaults are Qanat's (docs: settings)."""

    segment_bytes: Annotated[int, Meta(ge=14, le=2**31 - 1)] = 128 * _MIB
    """A segment is closed before it would grow beyond this."""
    segment_ms: Positive = 7 * _DAY
    """A segment is closed when its first record is this old, full or not."""
    index_interval_bytes: NotNegative = 4096
    """Bytes of log between two entries of the sparse index."""
    retention_ms: OrUnlimited = 7 * _DAY
    """Segments whose newest record is older than this are deleted; -1 keeps them for ever."""
    retention_bytes: OrUnlimited = 1024 * _MIB
    """The oldest segments are deleted while the partition is larger than this; -1 for no limit."""
    cleanup_policy: CleanupPolicy = CleanupPolicy.DELETE
    """`delete` by age and size, `compact` to the latest value per key, `consume` once share groups have passed it."""
    max_message_bytes: NotNegative = 1_048_588
    """Largest record batch accepted, as sent."""
    flush_messages: Positive = 1
    """fsync after this many records; 1 acknowledges nothing that is not on disk."""
    flush_ms: NotNegative = NEVER_MS
    """fsync at least this often where `flush.messages` alone would wait longer."""
    compression_type: CompressionType = CompressionType.PRODUCER
    """Codec on disk; anything but `producer` re-encodes batches that came otherwise."""
    compression_gzip_level: Annotated[int, Meta(ge=-1, le=9)] = -1
    """Level at which batches are re-encoded as gzip; -1 for a fast one."""
    compression_lz4_level: Annotated[int, Meta(ge=1, le=17)] = FAST_LZ4
    """Level at which batches are re-encoded as lz4; 9 for the fast one."""
    compression_zstd_level: Annotated[int, Meta(ge=-131072, le=22)] = 3
    """Level at which batches are re-encoded as zstd."""
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    """Whether records keep the producer's timestamp or get the broker's."""
    message_timestamp_before_max_ms: NotNegative = NEVER_MS
    """How far a record's timestamp may lie before the broker's clock."""
    message_timestamp_after_max_ms: NotNegative = 60 * 60 * _SECOND
    """How far a record's timestamp may lie after the broker's clock."""
    min_cleanable_dirty_ratio: Ratio = 0.5
    """Share of not yet compacted bytes at which compaction starts."""
    min_compaction_lag_ms: NotNegative = 0
    """Records younger than this are not compacted."""
    max_compaction_lag_ms: Positive = NEVER_MS
    """Records older than this are compacted whatever the dirty ratio."""
    delete_retention_ms: NotNegative = _DAY
    """How long a tombstone or transaction marker stays readable after compaction reached it."""

    @classmethod
    def _respelled(cls, name: str, value: object) -> object:
        """Kafka accepts the two policies in either order, with spaces."""
        if name == "cleanup.policy" and isinstance(value, str):
            return ",".join(sorted({part.strip() for part in value.split(",")}))
        return value

    @cached_property
    def is_compacted(self) -> bool:
        return self.cleanup_policy in _COMPACTED

    @cached_property
    def is_expired(self) -> bool:
        """Whether age and size delete segments."""
        return self.cleanup_policy in _EXPIRED

    @cached_property
    def is_consumed(self) -> bool:
        """Whether records are deleted once the share groups of the topic have passed them."""
        return self.cleanup_policy in _CONSUMED

    @cached_property
    def segment_age_ms(self) -> int:
        """The age at which a segment is closed: early enough for compaction to meet its maximum lag (KIP-354)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @cached_property
    def keeps_batches(self) -> bool:
        """Whether batches are stored unchanged, neither opened nor stamped: the common case."""
        return (
            not self.is_compacted
            and self.compression_type is CompressionType.PRODUCER
            and self.message_timestamp_type is TimestampType.CREATE_TIME
            and self.message_timestamp_before_max_ms == NEVER_MS
        )

    @cached_property
    def compression_level(self) -> int | None:
        """The level of `compression_type`; None for the codec's fast one."""
        match self.compression_type:
            case CompressionType.GZIP:
                return None if self.compression_gzip_level < 0 else self.compression_gzip_level
            case CompressionType.LZ4:
                return None if self.compression_lz4_level == FAST_LZ4 else self.compression_lz4_level
            case CompressionType.ZSTD:
                return self.compression_zstd_level
            case _:
                return None

    @cached_property
    def compresses_slowly(self) -> bool:
        """Whether re-encoding even a small batch may take more than a few milliseconds."""
        level = self.compression_level
        return level is not None and level > _QUICK_LEVEL_MAX.get(self.compression_type, level)

    @cached_property
    def is_synced(self) -> bool:
        """Whether nothing is acknowledged before it is on disk."""
        return self.flush_messages == 1

    @cached_property
    def is_flushed(self) -> bool:
        """Whether appends are fsynced at all (Kafka's own defaults leave it to the kernel)."""
        return self.flush_messages < NEVER_MS or self.flush_ms < NEVER_MS


class DirectorySettings(Settings, frozen=True):
    """A data directory's settings."""

    log_unflushed_bytes_max: Positive = 16 * _MIB
    """Appends wait while more bytes than this are unflushed: keeps one fsync short."""
    log_open_files_max: Annotated[int, Meta(ge=16)] = 4096
    """File descriptors kept open over all partitions; the least used are closed and reopened."""
    log_flush_offset_checkpoint_interval_ms: Positive = 60 * _SECOND
    """How often recovery points and log starts are checkpointed."""
    log_retention_check_interval_ms: Positive = 5 * 60 * _SECOND
    """How often retention looks for old segments."""
    log_cleaner_backoff_ms: Positive = 15 * _SECOND
    """How often the cleaner looks for logs to compact."""
    log_cleaner_io_max_bytes_per_second: Positive = 64 * _MIB
    """Limit on reading and writing of compaction together."""
    log_cleaner_dedupe_buffer_size: Annotated[int, Meta(ge=1024)] = 128 * _MIB
    """Memory for keys in one pass of compaction; keys that do not fit wait for the next pass."""
    log_scrub_bytes_per_second: NotNegative = 4 * _MIB
    """Speed of the background scrub of checksums; 0 switches it off."""
    log_decompressed_bytes_max: Positive = 64 * _MIB
    """Largest batch after decompression, whatever the topic says; HTTP does not read a larger one."""
    producer_id_expiration_ms: Positive = _DAY
    """An idempotent producer that was silent for this long is removed."""
    log_staging_bytes_max: NotNegative = 16 * 1024 * _MIB
    """Bytes of staged rows that a broker stores for transactions to come; more are refused."""
    log_staging_retention_ms: Positive = _DAY
    """Staged rows that no transaction has taken for this long are deleted."""
