"""From settings to an open metadata store in etcd. Imported only for etcd: gRPC takes long to load."""

from __future__ import annotations

import os

from qanat.adapters.etcd_endpoints import parse_endpoints
from qanat.app.settings.metadata_settings import MetadataSettings
from qanat.cluster.store import MetadataStore
from qanat.model.errors import StoreUnavailableError


async def open_etcd(settings: MetadataSettings) -> MetadataStore:
    """Connect as the settings say; raises `StoreUnavailableError` with the reason."""
    # gRPC logs each of our retries; an operator who wants to see them sets the variable.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from qanat.adapters.etcd_access import EtcdAccess
        from qanat.adapters.etcd_store import EtcdStore
    except ModuleNotFoundError as fault:
        raise StoreUnavailableError(
            f"metadata.store=etcd needs the package {fault.name}: pip install 'qanat[etcd]'"
        ) from None
    username, password = _credentials(settings.metadata_etcd_credentials_file)
    access = EtcdAccess(
        endpoints=parse_endpoints(settings.metadata_etcd_endpoints, is_tls=bool(settings.metadata_etcd_tls_ca_file)),
        ca_file=settings.metadata_etcd_tls_ca_file,
        certificate_file=settings.metadata_etcd_tls_certificate_file,
        key_file=settings.metadata_etcd_tls_key_file,
        username=username,
        password=password,
        prefix=settings.metadata_etcd_prefix,
        request_timeout_ms=settings.metadata_etcd_request_timeout_ms,
    )
    return await EtcdStore.open(access)


def _credentials(path: str | None) -> tuple[str | None, str | None]:
    if path is None:
        return None, None
    try:
        with open(path) as file:
            line = file.readline().rstrip("\n")
    except (OSError, UnicodeDecodeError) as fault:
        reason = getattr(fault, "strerror", None) or "it is not text"
        raise StoreUnavailableError(f"cannot read metadata.etcd.credentials.file {path}: {reason}") from None
    name, separator, password = line.partition(":")
    if not separator or not name:
        raise StoreUnavailableError(f"metadata.etcd.credentials.file {path}: its first line must be name:password")
    return name, password
