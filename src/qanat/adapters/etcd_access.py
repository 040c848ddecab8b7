"""Access to etcd as one value: endpoints, TLS, user, prefix and timeouts."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from qanat.adapters.etcd_endpoints import Endpoint
from qanat.model.errors import StoreUnavailableError

DEFAULT_PREFIX = "qanat:"

_CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    # The connection notices a frozen member within 9 s, even without requests. etcd disconnects clients
    # that ping more often than every 5 s, or without a call, or to measure the line. Without the
    # ping's own timeout the one of the keep-alive has no effect.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Requests decide how large an answer may be: lists come in pages.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A connection of its own for the renewal of leases, and no web proxy.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True)
class EtcdAccess:
    """All parameters for opening a store. Files are PEM; `prefix` goes before every key."""

    endpoints: tuple[Endpoint, ...]
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    username: str | None = None
    password: str | None = None
    prefix: str = DEFAULT_PREFIX
    request_timeout_ms: int = 10_000
    attempt_timeout_ms: int = 2_000

    def __str__(self) -> str:
        return f"etcd at {', '.join(map(str, self.endpoints))}"

    def channel(self, endpoint: Endpoint) -> grpc.aio.Channel:
        """A connection that is made when it is first needed, and again whenever it is lost."""
        if not endpoint.is_tls:
            return grpc.aio.insecure_channel(endpoint.address, options=_CHANNEL_OPTIONS)
        credentials = grpc.ssl_channel_credentials(
            _content(self.ca_file), _content(self.key_file), _content(self.certificate_file)
        )
        return grpc.aio.secure_channel(endpoint.address, credentials, options=_CHANNEL_OPTIONS)


def _content(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as fault:
        raise StoreUnavailableError(
            f"cannot read {path} for the TLS connection to etcd: {fault.strerror}; check metadata.etcd.tls.*"
        ) from None
