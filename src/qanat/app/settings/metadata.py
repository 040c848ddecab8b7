"""Settings of the metadata store: which one, and where it is."""

from __future__ import annotations

from typing import Literal

from qanat.model.settings import Positive, Settings


class MetadataSettings(Settings, frozen=True):
    """Where the cluster keeps its topics, settings and brokers."""

    metadata_store: Literal["sqlite", "etcd"] = "sqlite"
    """`sqlite`: the file `metadata.db` in the data directory, for one broker or several on one host. `etcd`: for
    several hosts."""
    metadata_etcd_endpoints: str = "http://127.0.0.1:2379"
    """Members of the etcd cluster, separated by commas: `https://etcd-1:2379,https://etcd-2:2379`."""
    metadata_etcd_prefix: str = "qanat:"
    """What every key in etcd begins with: clusters that share an etcd need different ones."""
    metadata_etcd_tls_ca_file: str | None = None
    """Certificates (PEM) that etcd's own must be signed by; without it, the ones that gRPC brings along."""
    metadata_etcd_tls_certificate_file: str | None = None
    """Certificate (PEM) that the broker shows to etcd."""
    metadata_etcd_tls_key_file: str | None = None
    """Key (PEM) of that certificate."""
    metadata_etcd_credentials_file: str | None = None
    """A file with one line `name:password`, where etcd has users."""
    metadata_etcd_request_timeout_ms: Positive = 10_000
    """How long a request to etcd is tried, at one member after another, before it fails."""
