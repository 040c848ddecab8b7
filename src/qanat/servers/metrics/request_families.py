"""Metrics of requests, connections and HTTP."""

from __future__ import annotations

from collections.abc import Iterator

from qanat.api.api_table import SERVED
from qanat.model.error_codes import ErrorCode
from qanat.servers.metrics.observed import Observed, ObservedFamily, by_api, by_listener, single
from qanat.telemetry.exposition import Family, Sample


def _http_answers(observed: Observed) -> Iterator[Sample]:
    if observed.http is not None:
        for (operation, status), count in sorted(observed.http.answered.items()):
            yield Sample({"operation": operation, "status": str(status)}, count)


def _errors(observed: Observed) -> Iterator[Sample]:
    for key, counters in sorted(observed.kafka.counters.by_api.items()):
        for code, count in sorted(counters.errors.items()):
            yield Sample({"api": SERVED[key].api.name, "error": ErrorCode(code).name}, count)


def _dry_run_denials(observed: Observed) -> float | None:
    authorizer = observed.broker.acl_authorizer
    return None if authorizer is None or authorizer.dry_run is None else authorizer.dry_run.total


def _push_errors(observed: Observed) -> Iterator[Sample]:
    for code, count in sorted(observed.broker.counters.pushed.errors.items()):
        yield Sample({"error": ErrorCode(code).name}, count)


REQUESTS: tuple[ObservedFamily, ...] = (
    by_api("qanat_requests_total", "counter", "Requests that were handled.", lambda api: api.requests),
    Family(
        "qanat_request_errors_total",
        "counter",
        "Errors in answers, counted for each row that carries one.",
        ("api", "error"),
        _errors,
    ),
    by_api(
        "qanat_request_duration_seconds",
        "histogram",
        "From the start of a request until its answer was ready, waiting for records, disk or members included.",
        lambda api: api.duration_s,
    ),
    by_api(
        "qanat_request_loop_seconds_total",
        "counter",
        "The part of that time in which the event loop worked on the request; the rest was waiting.",
        lambda api: api.loop_s,
    ),
    by_api("qanat_requests_parked", "gauge", "Requests whose answer waits now.", lambda api: api.parked),
    by_api("qanat_request_bytes_total", "counter", "Bytes of requests.", lambda api: api.request_bytes),
    by_api("qanat_response_bytes_total", "counter", "Bytes of answers.", lambda api: api.response_bytes),
    single("qanat_connections", "gauge", "Open connections of Kafka clients.", lambda o: o.kafka.connection_count),
    single(
        "qanat_connections_accepted_total",
        "counter",
        "Accepted connections, refused ones included.",
        lambda o: o.kafka.counters.accepted,
    ),
    single(
        "qanat_connections_refused_total",
        "counter",
        "Connections beyond `max.connections`, closed at once.",
        lambda o: o.kafka.counters.refused,
    ),
    single(
        "qanat_connections_cut_off_total",
        "counter",
        "Connections closed because of malformed frames or requests.",
        lambda o: o.kafka.counters.cut_off,
    ),
    single(
        "qanat_authentications_failed_total",
        "counter",
        "Clients that failed to authenticate.",
        lambda o: o.kafka.counters.not_authenticated,
    ),
    single(
        "qanat_reauthentications_total",
        "counter",
        "Clients that authenticated again before their session ended (`connections.max.reauth.ms`, or their token).",
        lambda o: o.kafka.counters.renewed,
    ),
    single(
        "qanat_sessions_expired_total",
        "counter",
        "Connections closed because their client did not authenticate again in time.",
        lambda o: o.kafka.counters.expired,
    ),
    single(
        "qanat_logins_refused_total",
        "counter",
        "Logins refused without a look at their secret, after too many failures from their address (Kafka and HTTP).",
        lambda o: o.broker.counters.logins_refused,
    ),
    single(
        "qanat_authorizer_dry_run_denials_total",
        "counter",
        "Requests for a resource that no rule allows, let through by the authorizer's dry run.",
        _dry_run_denials,
    ),
    single(
        "qanat_unauthenticated_connections",
        "gauge",
        "Connections of Kafka clients that have not authenticated yet.",
        lambda o: o.kafka.unauthenticated_count,
    ),
    single(
        "qanat_unauthenticated_connections_closed_total",
        "counter",
        "Connections closed before they authenticated: slower than `login.timeout.ms`, or beyond "
        "`max.unauthenticated.connections`.",
        lambda o: o.broker.counters.unauthenticated_closed,
    ),
    by_listener(
        "qanat_certificate_expiry_timestamp_seconds",
        "gauge",
        "When the certificate that a listener shows expires, in seconds since 1970.",
        lambda tls: tls.not_after_s,
    ),
    by_listener(
        "qanat_certificate_reloads_failed_total",
        "counter",
        "Changed certificate files that could not be used; the ones before stay in force.",
        lambda tls: tls.failed_reloads,
    ),
    by_listener(
        "qanat_tls_handshakes_failed_total",
        "counter",
        "TLS handshakes of clients that failed.",
        lambda tls: tls.failed_handshakes,
    ),
    single(
        "qanat_inflight_request_bytes",
        "gauge",
        "Bytes of unanswered requests; at `queued.max.request.bytes` reading stops.",
        lambda o: o.kafka.inflight_bytes,
    ),
    single(
        "qanat_connections_paused",
        "gauge",
        "Connections whose reading is paused because of that.",
        lambda o: o.kafka.paused_count,
    ),
)

HTTP: tuple[ObservedFamily, ...] = (
    Family(
        "qanat_http_requests_total",
        "counter",
        "Requests over HTTP that were answered, by operation and status.",
        ("operation", "status"),
        _http_answers,
    ),
    single(
        "qanat_http_request_seconds",
        "histogram",
        "From a request's headers until its answer was ready, waiting included; streams are left out.",
        lambda o: None if o.http is None else o.http.requests.duration_s,
    ),
    single(
        "qanat_http_request_bytes_total",
        "counter",
        "Bytes of bodies of requests over HTTP, as they were sent.",
        lambda o: None if o.http is None else o.http.requests.request_bytes,
    ),
    single(
        "qanat_http_response_bytes_total",
        "counter",
        "Bytes of bodies of answers over HTTP; streams are left out.",
        lambda o: None if o.http is None else o.http.requests.response_bytes,
    ),
    single(
        "qanat_http_streams",
        "gauge",
        "Streams of records (Server-Sent Events, WebSocket) that are open.",
        lambda o: None if o.http is None else o.http.streams,
    ),
    single(
        "qanat_http_connections",
        "gauge",
        "HTTP connections that are open.",
        lambda o: None if o.http is None else o.http.connections,
    ),
)

PUSH: tuple[ObservedFamily, ...] = (
    single(
        "qanat_push_produce_seconds",
        "histogram",
        "Batches that push clients produced, the records of one read for one partition: from their append until their "
        "answers were ready, waiting included.",
        lambda o: o.broker.counters.pushed.duration_s,
    ),
    single(
        "qanat_push_produce_bytes_total",
        "counter",
        "Bytes of DATA frames that were answered or refused.",
        lambda o: o.broker.counters.pushed.request_bytes,
    ),
    Family(
        "qanat_push_produce_errors_total",
        "counter",
        "DATA frames that were refused.",
        ("error",),
        _push_errors,
    ),
)
