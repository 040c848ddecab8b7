"""Metrics of topics, logs and the disk."""

from __future__ import annotations

from collections.abc import Callable

from qanat.log.runtime.staged_files import StagedFiles
from qanat.servers.metrics.observed import ObservedFamily, per_log, single, summed
from qanat.servers.metrics.process import disk_free_bytes, disk_size_bytes
from qanat.telemetry.exposition import Kind


def _staged(name: str, kind: Kind, meaning: str, read: Callable[[StagedFiles], int]) -> ObservedFamily:
    return single(name, kind, meaning, lambda observed: read(observed.broker.runtime.staged))


LOGS: tuple[ObservedFamily, ...] = (
    single("qanat_topics", "gauge", "Topics, internal ones included.", lambda o: len(o.broker.metadata.image.topics)),
    single(
        "qanat_topics_created_total",
        "counter",
        "Topics created through this broker since its start.",
        lambda o: o.broker.counters.topics_created,
    ),
    single(
        "qanat_topics_deleted_total",
        "counter",
        "Topics deleted through this broker since its start.",
        lambda o: o.broker.counters.topics_deleted,
    ),
    per_log("qanat_log_size_bytes", "Bytes of log on disk.", lambda log: log.size),
    per_log("qanat_log_start_offset", "Log start offset; by topic, the sum.", lambda log: log.log_start_offset),
    per_log("qanat_log_end_offset", "Offset of the next record; by topic, the sum.", lambda log: log.end_offset),
    per_log("qanat_log_high_watermark", "High watermark; by topic, the sum.", lambda log: log.high_watermark),
    per_log("qanat_log_segments", "Segments, the active one included.", lambda log: len(log.segments)),
    single(
        "qanat_log_appended_records_total",
        "counter",
        "Records appended, the broker's own included.",
        lambda o: o.broker.runtime.counters.appended_records,
    ),
    single(
        "qanat_log_appended_bytes_total",
        "counter",
        "Bytes of batches appended.",
        lambda o: o.broker.runtime.counters.appended_bytes,
    ),
    single(
        "qanat_log_cold_reads_total",
        "counter",
        "Reads that had to wait for the disk.",
        lambda o: o.broker.runtime.counters.cold_reads,
    ),
    single(
        "qanat_log_compactions_total",
        "counter",
        "Passes of compaction.",
        lambda o: o.broker.runtime.counters.compactions,
    ),
    single(
        "qanat_log_deleted_segments_total",
        "counter",
        "Segments that retention removed.",
        lambda o: o.broker.runtime.counters.deleted_segments,
    ),
    _staged("qanat_log_staged_bytes", "gauge", "Bytes of rows that wait for their transaction.", lambda s: s.bytes),
    _staged("qanat_log_staged_files", "gauge", "Files of rows that wait for their transaction.", len),
    _staged("qanat_log_staged_uploaded_bytes_total", "counter", "Bytes of such rows.", lambda s: s.uploaded_bytes),
    _staged("qanat_log_staged_expired_total", "counter", "Files that none took in time.", lambda s: s.expired_files),
    single(
        "qanat_log_scrubbed_bytes_total",
        "counter",
        "Bytes whose checksums were compared in the background.",
        lambda o: o.broker.runtime.counters.scrubbed_bytes,
    ),
    single(
        "qanat_log_flush_seconds",
        "histogram",
        "Rounds of group commit: fsync, and the hand-over to a worker and back where one did it.",
        lambda o: o.broker.runtime.counters.flush_s,
    ),
    single(
        "qanat_log_flush_acknowledged",
        "histogram",
        "Appends that waited for one round of group commit and were acknowledged by it.",
        lambda o: o.broker.runtime.counters.flush_acknowledged,
    ),
    single(
        "qanat_log_flushed_logs_total",
        "counter",
        "Logs synced to disk, each once per round.",
        lambda o: o.broker.runtime.counters.flushes,
    ),
    single(
        "qanat_log_unflushed_bytes",
        "gauge",
        "Bytes not yet flushed; at `log.unflushed.bytes.max` appends wait.",
        lambda o: o.broker.runtime.directory.state.unflushed_bytes,
    ),
    single(
        "qanat_log_directory_failed",
        "gauge",
        "1 after a failed write or fsync: nothing is accepted until a restart.",
        lambda o: int(o.broker.runtime.directory.state.failure is not None),
    ),
    single(
        "qanat_disk_free_bytes",
        "gauge",
        "Space that is left on the disk of the data directory.",
        lambda o: disk_free_bytes(o.broker.runtime.directory.path),
    ),
    single(
        "qanat_disk_size_bytes",
        "gauge",
        "Size of the disk of the data directory.",
        lambda o: disk_size_bytes(o.broker.runtime.directory.path),
    ),
    single(
        "qanat_log_partitions_offline",
        "gauge",
        "Replicas of this broker that could not be opened or created.",
        lambda o: len(o.broker.local_replicas.offline_partitions()),
    ),
    summed(
        "qanat_log_partitions_damaged",
        "Replicas of this broker with records that cannot be read.",
        lambda o: o.logs,
        lambda log: bool(log.damage),
    ),
    single(
        "qanat_log_damage_found_total",
        "counter",
        "Damaged places found since the start, without those known before.",
        lambda o: o.broker.runtime.counters.damage_found,
    ),
    single(
        "qanat_replicas_repaired_total",
        "counter",
        "Damaged replicas that were truncated to their sound records and fetched from their leaders again.",
        lambda o: o.broker.counters.replicas_repaired,
    ),
)
