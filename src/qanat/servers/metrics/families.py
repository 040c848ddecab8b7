"""Every metric: its name, kind and meaning, and the source of its numbers.

The documentation's page comes from this table. Names follow Prometheus' conventions: base units, `_total` for counters.
Labels are bounded: APIs, error codes, states; topics, which the operator bounds; partitions only with
`metrics.per.partition`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qanat import __version__
from qanat.api.api_table import SERVED
from qanat.broker.broker import Broker
from qanat.groups.classic.group import ClassicGroup
from qanat.groups.classic.states import GroupState
from qanat.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from qanat.groups.share.group import ShareGroup
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.staged_files import StagedFiles
from qanat.model.error_codes import ErrorCode
from qanat.servers.kafka.listener import KafkaListener
from qanat.servers.metrics.process import LoopLag, cpu_seconds, open_descriptors, resident_bytes
from qanat.servers.metrics.spare_replicas import lacks_spare
from qanat.telemetry.exposition import Family, Kind, Sample
from qanat.telemetry.histogram import Histogram
from qanat.telemetry.http_counters import HttpCounters
from qanat.telemetry.listener_counters import ApiCounters

if TYPE_CHECKING:
    from qanat.servers.tls.listener_tls import ListenerTls


@dataclass(frozen=True, slots=True)
class Observed:
    """The sources: a broker, its servers, its event loop."""

    broker: Broker
    kafka: KafkaListener
    lag: LoopLag
    http: HttpCounters | None = None
    """None where HTTP is not served."""
    certificates: Sequence[ListenerTls] = ()
    """The TLS of every listener that has it."""

    @property
    def logs(self) -> list[PartitionLog]:
        return list(self.broker.runtime.directory.logs.values())


_LATE_MS = 15_000
"""How long the end of a transaction may take after its timeout: ten seconds to notice, five to write the markers."""
_Value = float | Histogram | None
_Family = Family[Observed]


def _one(name: str, kind: Kind, meaning: str, read: Callable[[Observed], _Value]) -> _Family:
    """A metric without labels; no sample where there is no value."""

    def collect(observed: Observed) -> Iterable[Sample]:
        value = read(observed)
        return () if value is None else (Sample({}, value),)

    return Family(name, kind, meaning, (), collect)


def _by_api(name: str, kind: Kind, meaning: str, read: Callable[[ApiCounters], float | Histogram]) -> _Family:
    def collect(observed: Observed) -> Iterator[Sample]:
        for key, counters in sorted(observed.kafka.counters.by_api.items()):
            if counters.requests:
                yield Sample({"api": SERVED[key].api.name}, read(counters))

    return Family(name, kind, meaning, ("api",), collect)


def _http_answers(observed: Observed) -> Iterator[Sample]:
    if observed.http is not None:
        for (operation, status), count in sorted(observed.http.answered.items()):
            yield Sample({"operation": operation, "status": str(status)}, count)


def _by_listener(name: str, kind: Kind, meaning: str, read: Callable[[ListenerTls], float]) -> _Family:
    """A number of every listener with TLS."""

    def collect(observed: Observed) -> Iterator[Sample]:
        for tls in observed.certificates:
            yield Sample({"listener": tls.name}, read(tls))

    return Family(name, kind, meaning, ("listener",), collect)


def _errors(observed: Observed) -> Iterator[Sample]:
    for key, counters in sorted(observed.kafka.counters.by_api.items()):
        for code, count in sorted(counters.errors.items()):
            yield Sample({"api": SERVED[key].api.name, "error": ErrorCode(code).name}, count)


def _per_log(name: str, meaning: str, read: Callable[[PartitionLog], int]) -> _Family:
    """A number of every log, summed by topic, or by partition with `metrics.per.partition`."""

    def collect(observed: Observed) -> Iterator[Sample]:
        if observed.broker.settings.metrics_per_partition:
            for log in observed.logs:
                at = log.topic_partition
                yield Sample({"topic": at.topic, "partition": str(at.partition)}, read(log))
            return
        topics: dict[str, int] = {}
        for log in observed.logs:
            topic = log.topic_partition.topic
            topics[topic] = topics.get(topic, 0) + read(log)
        for topic, value in topics.items():
            yield Sample({"topic": topic}, value)

    return Family(name, "gauge", meaning, ("topic", "partition"), collect)


def _staged(name: str, kind: Kind, meaning: str, read: Callable[[StagedFiles], int]) -> _Family:
    return _one(name, kind, meaning, lambda observed: read(observed.broker.runtime.staged))


def _groups(observed: Observed) -> Iterator[Sample]:
    """Groups of all kinds, which share some states."""
    states = Counter(group.state.value for group in _every_group(observed))
    for state in dict.fromkeys([*(one.value for one in GroupState), *(one.value for one in ConsumerGroupState)]):
        yield Sample({"state": state}, states[state])


def _every_group(observed: Observed) -> Iterator[ClassicGroup | ConsumerGroup | ShareGroup]:
    for shard in observed.broker.groups.loaded():
        yield from shard.groups.values()
        yield from shard.ledger.consumers.values()
        yield from shard.ledger.shares.values()


def _late_transactions(observed: Observed) -> float:
    """Partitions with a transaction open for so long that its coordinator may not know of it."""
    longest_ms = observed.broker.current_settings.transactions.transaction_max_timeout_ms + _LATE_MS
    since_ms = observed.broker.runtime.clock_ms() - longest_ms
    return sum(log.producers.open_transactions(since_ms) > 0 for log in observed.logs)


def _dry_run_denials(observed: Observed) -> float | None:
    authorizer = observed.broker.acl_authorizer
    return None if authorizer is None or authorizer.dry_run is None else authorizer.dry_run.total


def _members(observed: Observed) -> float:
    return sum(len(group.members) for group in _every_group(observed))


def _committed(observed: Observed) -> float:
    return sum(shard.ledger.offsets.count for shard in observed.broker.groups.loaded())


FAMILIES: tuple[_Family, ...] = (
    Family(
        "qanat_build_info",
        "gauge",
        "Always 1; the labels name the version.",
        ("version",),
        lambda observed: (Sample({"version": __version__}, 1),),
    ),
    # Requests
    _by_api("qanat_requests_total", "counter", "Requests that were handled.", lambda api: api.requests),
    Family(
        "qanat_request_errors_total",
        "counter",
        "Errors in answers, counted for each row that carries one.",
        ("api", "error"),
        _errors,
    ),
    _by_api(
        "qanat_request_duration_seconds",
        "histogram",
        "From the start of a request until its answer was ready, waiting for records, disk or members included.",
        lambda api: api.duration_s,
    ),
    _by_api(
        "qanat_request_loop_seconds_total",
        "counter",
        "The part of that time in which the event loop worked on the request; the rest was waiting.",
        lambda api: api.loop_s,
    ),
    _by_api("qanat_requests_parked", "gauge", "Requests whose answer waits now.", lambda api: api.parked),
    _by_api("qanat_request_bytes_total", "counter", "Bytes of requests.", lambda api: api.request_bytes),
    _by_api("qanat_response_bytes_total", "counter", "Bytes of answers.", lambda api: api.response_bytes),
    # Connections
    _one("qanat_connections", "gauge", "Open connections of Kafka clients.", lambda o: o.kafka.connection_count),
    _one(
        "qanat_connections_accepted_total",
        "counter",
        "Accepted connections, refused ones included.",
        lambda o: o.kafka.counters.accepted,
    ),
    _one(
        "qanat_connections_refused_total",
        "counter",
        "Connections beyond `max.connections`, closed at once.",
        lambda o: o.kafka.counters.refused,
    ),
    _one(
        "qanat_connections_cut_off_total",
        "counter",
        "Connections closed because of malformed frames or requests.",
        lambda o: o.kafka.counters.cut_off,
    ),
    _one(
        "qanat_authentications_failed_total",
        "counter",
        "Clients that failed to authenticate.",
        lambda o: o.kafka.counters.not_authenticated,
    ),
    _one(
        "qanat_reauthentications_total",
        "counter",
        "Clients that authenticated again before their session ended (`connections.max.reauth.ms`, or their token).",
        lambda o: o.kafka.counters.renewed,
    ),
    _one(
        "qanat_sessions_expired_total",
        "counter",
        "Connections closed because their client did not authenticate again in time.",
        lambda o: o.kafka.counters.expired,
    ),
    _one(
        "qanat_logins_refused_total",
        "counter",
        "Logins refused without a look at their secret, after too many failures from their address (Kafka and HTTP).",
        lambda o: o.broker.counters.logins_refused,
    ),
    _one(
        "qanat_authorizer_dry_run_denials_total",
        "counter",
        "Requests for a resource that no rule allows, let through by the authorizer's dry run.",
        _dry_run_denials,
    ),
    _one(
        "qanat_unauthenticated_connections",
        "gauge",
        "Connections of Kafka clients that have not authenticated yet.",
        lambda o: o.kafka.unauthenticated_count,
    ),
    _one(
        "qanat_unauthenticated_connections_closed_total",
        "counter",
        "Connections closed before they authenticated: slower than `login.timeout.ms`, or beyond "
        "`max.unauthenticated.connections`.",
        lambda o: o.broker.counters.unauthenticated_closed,
    ),
    _by_listener(
        "qanat_certificate_expiry_timestamp_seconds",
        "gauge",
        "When the certificate that a listener shows expires, in seconds since 1970.",
        lambda tls: tls.not_after_s,
    ),
    _by_listener(
        "qanat_certificate_reloads_failed_total",
        "counter",
        "Changed certificate files that could not be used; the ones before stay in force.",
        lambda tls: tls.failed_reloads,
    ),
    _by_listener(
        "qanat_tls_handshakes_failed_total",
        "counter",
        "TLS handshakes of clients that failed.",
        lambda tls: tls.failed_handshakes,
    ),
    _one(
        "qanat_inflight_request_bytes",
        "gauge",
        "Bytes of unanswered requests; at `queued.max.request.bytes` reading stops.",
        lambda o: o.kafka.inflight_bytes,
    ),
    _one(
        "qanat_connections_paused",
        "gauge",
        "Connections whose reading is paused because of that.",
        lambda o: o.kafka.paused_count,
    ),
    # Topics and logs
    _one("qanat_topics", "gauge", "Topics, internal ones included.", lambda o: len(o.broker.metadata.image.topics)),
    _one("qanat_partitions", "gauge", "Replicas on this broker.", lambda o: len(o.broker.local_replicas.logs)),
    _one("qanat_partitions_led", "gauge", "Partitions that this broker leads.", lambda o: len(o.broker.partitions)),
    _one(
        "qanat_partitions_under_replicated",
        "gauge",
        "Partitions that this broker leads with a replica out of sync.",
        lambda o: sum(
            len(one.leader.in_sync) < len(one.leader.replicas)
            for one in o.broker.partitions.values()
            if one.leader is not None
        ),
    ),
    _one(
        "qanat_partitions_without_spare",
        "gauge",
        "Partitions that this broker leads with no in-sync replica to spare: no broker that has one may restart.",
        lambda o: sum(lacks_spare(one) for one in o.broker.partitions.values()),
    ),
    _one(
        "qanat_replicated_bytes_total",
        "counter",
        "Bytes that leaders sent to this broker as their follower.",
        lambda o: o.broker.counters.replicated_bytes,
    ),
    _one(
        "qanat_is_controller",
        "gauge",
        "1 where this broker is the controller.",
        lambda o: int(o.broker.controller_loop.is_controller),
    ),
    _one(
        "qanat_elections_waiting",
        "gauge",
        "Partitions whose election waits for proofs, for brokers to come back, or for an operator; 0 unless this is "
        "the controller.",
        lambda o: len(o.broker.controller_loop.waiting) if o.broker.controller_loop.is_controller else 0,
    ),
    _one(
        "qanat_topics_created_total",
        "counter",
        "Topics created through this broker since its start.",
        lambda o: o.broker.counters.topics_created,
    ),
    _one(
        "qanat_topics_deleted_total",
        "counter",
        "Topics deleted through this broker since its start.",
        lambda o: o.broker.counters.topics_deleted,
    ),
    _per_log("qanat_log_size_bytes", "Bytes of log on disk.", lambda log: log.size),
    _per_log("qanat_log_start_offset", "Log start offset; by topic, the sum.", lambda log: log.log_start_offset),
    _per_log("qanat_log_end_offset", "Offset of the next record; by topic, the sum.", lambda log: log.end_offset),
    _per_log("qanat_log_high_watermark", "High watermark; by topic, the sum.", lambda log: log.high_watermark),
    _per_log("qanat_log_segments", "Segments, the active one included.", lambda log: len(log.segments)),
    _one(
        "qanat_log_appended_records_total",
        "counter",
        "Records appended, the broker's own included.",
        lambda o: o.broker.runtime.counters.appended_records,
    ),
    _one(
        "qanat_log_appended_bytes_total",
        "counter",
        "Bytes of batches appended.",
        lambda o: o.broker.runtime.counters.appended_bytes,
    ),
    _one(
        "qanat_log_cold_reads_total",
        "counter",
        "Reads that had to wait for the disk.",
        lambda o: o.broker.runtime.counters.cold_reads,
    ),
    _one(
        "qanat_log_compactions_total",
        "counter",
        "Passes of compaction.",
        lambda o: o.broker.runtime.counters.compactions,
    ),
    _one(
        "qanat_log_deleted_segments_total",
        "counter",
        "Segments that retention removed.",
        lambda o: o.broker.runtime.counters.deleted_segments,
    ),
    _staged("qanat_log_staged_bytes", "gauge", "Bytes of rows that wait for their transaction.", lambda s: s.bytes),
    _staged("qanat_log_staged_files", "gauge", "Files of rows that wait for their transaction.", len),
    _staged("qanat_log_staged_uploaded_bytes_total", "counter", "Bytes of such rows.", lambda s: s.uploaded_bytes),
    _staged("qanat_log_staged_expired_total", "counter", "Files that none took in time.", lambda s: s.expired_files),
    _one(
        "qanat_log_scrubbed_bytes_total",
        "counter",
        "Bytes whose checksums were compared in the background.",
        lambda o: o.broker.runtime.counters.scrubbed_bytes,
    ),
    # The disk
    _one(
        "qanat_log_flush_seconds",
        "histogram",
        "Rounds of group commit: fsync, and the hand-over to a worker and back where one did it.",
        lambda o: o.broker.runtime.counters.flush_s,
    ),
    _one(
        "qanat_log_flush_acknowledged",
        "histogram",
        "Appends that waited for one round of group commit and were acknowledged by it.",
        lambda o: o.broker.runtime.counters.flush_acknowledged,
    ),
    _one(
        "qanat_log_flushed_logs_total",
        "counter",
        "Logs synced to disk, each once per round.",
        lambda o: o.broker.runtime.counters.flushes,
    ),
    _one(
        "qanat_log_unflushed_bytes",
        "gauge",
        "Bytes not yet flushed; at `log.unflushed.bytes.max` appends wait.",
        lambda o: o.broker.runtime.directory.state.unflushed_bytes,
    ),
    _one(
        "qanat_log_directory_failed",
        "gauge",
        "1 after a failed write or fsync: nothing is accepted until a restart.",
        lambda o: int(o.broker.runtime.directory.state.failure is not None),
    ),
    _one(
        "qanat_log_partitions_offline",
        "gauge",
        "Replicas of this broker that could not be opened or created.",
        lambda o: len(o.broker.local_replicas.offline_partitions()),
    ),
    _one(
        "qanat_log_partitions_damaged",
        "gauge",
        "Replicas of this broker with records that cannot be read.",
        lambda o: sum(1 for log in o.logs if log.damage),
    ),
    _one(
        "qanat_log_damage_found_total",
        "counter",
        "Damaged places found since the start, without those known before.",
        lambda o: o.broker.runtime.counters.damage_found,
    ),
    _one(
        "qanat_replicas_repaired_total",
        "counter",
        "Damaged replicas that were truncated to their sound records and fetched from their leaders again.",
        lambda o: o.broker.counters.replicas_repaired,
    ),
    # HTTP
    Family(
        "qanat_http_requests_total",
        "counter",
        "Requests over HTTP that were answered, by operation and status.",
        ("operation", "status"),
        _http_answers,
    ),
    _one(
        "qanat_http_request_seconds",
        "histogram",
        "From a request's headers until its answer was ready, waiting included; streams are left out.",
        lambda o: None if o.http is None else o.http.duration_s,
    ),
    _one(
        "qanat_http_streams",
        "gauge",
        "Streams of records (Server-Sent Events, WebSocket) that are open.",
        lambda o: None if o.http is None else o.http.streams,
    ),
    _one(
        "qanat_http_connections",
        "gauge",
        "HTTP connections that are open.",
        lambda o: None if o.http is None else o.http.connections,
    ),
    # Groups
    Family(
        "qanat_groups",
        "gauge",
        "Groups by state, share groups included, of the coordinators that were used since the start.",
        ("state",),
        _groups,
    ),
    _one("qanat_group_members", "gauge", "Members of these groups.", _members),
    _one("qanat_group_offsets", "gauge", "Offsets that these groups have committed.", _committed),
    _one(
        "qanat_group_generations_total",
        "counter",
        "Completed rebalances.",
        lambda o: o.broker.counters.generations,
    ),
    # Transactions
    _one(
        "qanat_transactions_open",
        "gauge",
        "Open transactions, counted in every partition that they write to.",
        lambda o: sum(log.producers.open_transactions() for log in o.logs),
    ),
    _one(
        "qanat_partitions_with_late_transactions",
        "gauge",
        "Partitions with a transaction that should be over: its last write is older than `transaction.max.timeout.ms` "
        "and 15 s. `qanat transaction abort` ends one that hangs.",
        _late_transactions,
    ),
    # The process, under the names that all exporters use
    _one("process_cpu_seconds_total", "counter", "CPU time, all threads.", lambda o: cpu_seconds()),
    _one("process_resident_memory_bytes", "gauge", "Resident memory.", lambda o: resident_bytes()),
    _one("process_open_fds", "gauge", "Open file descriptors.", lambda o: open_descriptors()),
    _one(
        "qanat_loop_late_seconds",
        "histogram",
        "Lag of the event loop, measured once a second.",
        lambda o: o.lag.late_s,
    ),
)
