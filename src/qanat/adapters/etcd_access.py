"""Where an etcd is and how it is talked to: endpoints, TLS, user, prefix and patience, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

import grpc

from qanat.model.errors import StoreUnavailableError

DEFAULT_PORT = 2379
DEFAULT_PREFIX = "qanat:"

_CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    # A frozen member is noticed in 9 s by its connection, should nobody ask it anything before. etcd hangs up on
    # whoever pings more often than every 5 s, or while there is no call, or to measure the line. Without the
    # ping's own timeout the one of the keep-alive is not obeyed.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # How large an answer may be is decided by what is asked for: lists come in pages.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A connection of its own for whoever renews leases, and no way through a web proxy.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One member of the etcd cluster."""

    address: str
    is_tls: bool

    def __str__(self) -> str:
        return self.address


@dataclass(frozen=True, slots=True)
class EtcdAccess:
    """Everything that opening a store needs to know. Files are PEM; `prefix` goes before every key."""

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


def parse_endpoints(text: str, *, is_tls: bool = False) -> tuple[Endpoint, ...]:
    """`https://a:2379,https://b:2379` or `a:2379,b`; without a scheme, `is_tls` says which is meant.

    Raises `ValueError` saying what is wrong.
    """
    endpoints = tuple(_endpoint(part.strip(), is_tls) for part in text.split(",") if part.strip())
    if not endpoints:
        raise ValueError("write at least one endpoint, such as http://etcd-1:2379")
    addresses = [endpoint.address for endpoint in endpoints]
    twice = next((one for one in addresses if addresses.count(one) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice} is there twice")
    return endpoints


def _endpoint(text: str, is_tls: bool) -> Endpoint:
    scheme, separator, rest = text.partition("://")
    if separator and scheme not in ("http", "https"):
        raise ValueError(f"{text!r} begins with {scheme}://; write http:// or https://")
    try:
        parts = urlsplit(f"//{rest if separator else text}")
        host, port = parts.hostname, parts.port
    except ValueError as fault:
        raise ValueError(f"{text!r} is no endpoint: {fault}") from None
    if not host or parts.path.strip("/") or parts.username is not None:
        raise ValueError(f"{text!r} is no endpoint; write http://host:port")
    shown = f"[{host}]" if ":" in host else host
    return Endpoint(f"{shown}:{port or DEFAULT_PORT}", scheme == "https" if separator else is_tls)


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
