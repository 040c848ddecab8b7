"""Settings of the HTTP server."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from qanat.model.settings import NotNegative, Positive, Settings

_KIB = 1024
_MIB = 1024 * 1024

USUAL_PORT = 8080
NOT_SERVED = -1

Port = Annotated[int, Meta(ge=NOT_SERVED, le=65535)]


class HttpSettings(Settings, frozen=True):
    """The settings of the HTTP server."""

    http_host_name: str = "127.0.0.1"
    """Address that HTTP is served on; loopback by default."""
    http_allowed_hosts: str = ""
    """Names by which clients may call a broker without authentication, separated by commas, besides addresses, names
    without a dot and those of listeners. `*` allows every name, also of web pages that resolve theirs to the broker."""
    http_cors_allowed_origins: str = ""
    """Origins, such as `https://pages.example`, separated by commas, whose web pages may use this broker; `*` is every
    page. They authenticate as every client does."""
    http_port: Port | None = None
    """Port of the HTTP server; 0 takes a free one, -1 serves none. Without it 8080, unless that is taken."""
    http_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None = None
    """How HTTP is protected: `SSL` is HTTPS, `SASL_` is `Authorization: Basic` or `Bearer`. Without it, as the first
    Kafka listener that requires authentication, else `PLAINTEXT`."""
    http_max_connections: Positive = 5_000
    """HTTP connections at one time; more are refused with 503."""
    http_request_max_bytes: Positive = 64 * _MIB
    """Largest body of a request, as sent."""
    http_document_max_bytes: Positive = 8 * _MIB
    """Largest JSON document; send more as lines, which are read a piece at a time."""
    http_inflated_max_bytes: Positive = 256 * _MIB
    """Largest body of a compressed request, when inflated."""
    http_header_max_bytes: Positive = 32 * _KIB
    """Largest request line and headers together."""
    http_read_timeout_ms: Positive = 30_000
    """How long a client may be silent in the middle of a request, or before its first."""
    http_request_timeout_ms: Positive = 30_000
    """How long an operation may take, unless its client waits for records."""
    http_idle_timeout_ms: Positive = 75_000
    """How long a connection without a request stays open."""
    http_poll_max_ms: NotNegative = 60_000
    """Longest time that a reader may wait for records."""
    http_streams_per_client: Positive = 1_000
    """Streams (Server-Sent Events, WebSocket) that one client address may have open."""
    http_stream_timeout_ms: Positive = 60_000
    """A stream whose client reads nothing for so long is closed."""
    http_acks: Literal["all", "leader", "none"] = "all"
    """When a produce without acks is answered: on every in-sync replica's disk, at the leader, at once."""
    http_max_poll_records: Positive = 500
    """Most records in one answer of consume."""
    http_answer_max_bytes: Positive = 4 * _MIB
    """Most bytes of records, inflated, in one answer of consume; the first record is sent whatever its size."""
    http_session_timeout_ms: Positive = 30_000
    """A group member over HTTP that is silent for so long is removed."""
    http_idempotency_retention_ms: Positive = 24 * 60 * 60 * 1000
    """How long an Idempotency-Key is kept."""

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        return _listed(self.http_allowed_hosts)

    @property
    def cors_allowed_origins(self) -> tuple[str, ...]:
        return _listed(self.http_cors_allowed_origins)


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name for part in names.split(",") if (name := part.strip()))
