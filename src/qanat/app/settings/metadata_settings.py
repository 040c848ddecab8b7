"""Settings of the metadata store: its kind and its address."""

from __future__ import annotations

from typing import Literal

from qanat.model.errors import InvalidSettingError
from qanat.model.settings import Positive, Settings


class MetadataSettings(Settings, frozen=True):
    """Where the cluster keeps its topics, settings and brokers."""

    metadata_store: Literal["sqlite", "etcd"] = "sqlite"
    """`sqlite`: the file `metadata.db` in the data directory, for one broker or several on one host. `etcd`: for
    several hosts."""
    metadata_etcd_endpoints: str = "http://127.0.0.1:2379"
    """Members of the etcd cluster, separated by commas: `https://etcd-1:2379,https://etcd-2:2379`."""
    metadata_etcd_prefix: str = "qanat:"
    """Prefix of every key in etcd: clusters that share an etcd need different ones."""
    metadata_etcd_tls_ca_file: str | None = None
    """Certificates (PEM) that etcd's own must be signed by; without it, gRPC's built-in ones."""
    metadata_etcd_tls_certificate_file: str | None = None
    """Certificate (PEM) that the broker shows to etcd."""
    metadata_etcd_tls_key_file: str | None = None
    """Key (PEM) of that certificate."""
    metadata_etcd_credentials_file: str | None = None
    """A file with one line `name:password`, where etcd has users."""
    metadata_etcd_request_timeout_ms: Positive = 10_000
    """How long a request to etcd is retried, at one member after another, before it fails."""


def check_etcd_settings(settings: MetadataSettings) -> None:
    """Check settings of etcd without connecting to it; raises `InvalidSettingError`."""
    from qanat.adapters.etcd_endpoints import parse_endpoints

    try:
        endpoints = parse_endpoints(settings.metadata_etcd_endpoints)
    except ValueError as fault:
        raise InvalidSettingError(f"metadata.etcd.endpoints: {fault}") from None
    prefix = settings.metadata_etcd_prefix
    if not prefix.isascii() or not prefix.isprintable():
        raise InvalidSettingError(f"metadata.etcd.prefix = {prefix!r}: only printable ASCII characters")
    certificate, key = settings.metadata_etcd_tls_certificate_file, settings.metadata_etcd_tls_key_file
    if (certificate is None) != (key is None):
        raise InvalidSettingError("metadata.etcd.tls.certificate.file and metadata.etcd.tls.key.file go together")
    is_tls = settings.metadata_etcd_tls_ca_file is not None or certificate is not None
    plain = next((one for one in endpoints if not one.is_tls), None)
    if is_tls and plain is not None and "http://" in settings.metadata_etcd_endpoints:
        raise InvalidSettingError(f"metadata.etcd.endpoints: {plain} is http and metadata.etcd.tls.* are given")
