"""From settings to an open store in etcd. Imported only where that is wanted: gRPC takes its time to load."""

from __future__ import annotations

import os

from qanat.adapters.etcd_endpoints import parse_endpoints
from qanat.app.settings.metadata import MetadataSettings
from qanat.cluster.store import MetadataStore
from qanat.model.errors import InvalidSettingError, StoreUnavailableError


async def open_etcd(settings: MetadataSettings) -> MetadataStore:
    """Connect as the settings say; raises `StoreUnavailableError` saying why that cannot be done."""
    # What gRPC logs by itself are our retries, one by one; whoever wants to see them sets the variable.
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


def check_settings(settings: MetadataSettings) -> None:
    """What can be said of them without asking anybody; raises `InvalidSettingError`."""
    try:
        endpoints = parse_endpoints(settings.metadata_etcd_endpoints)
    except ValueError as fault:
        raise InvalidSettingError(f"metadata.etcd.endpoints: {fault}") from None
    prefix = settings.metadata_etcd_prefix
    if not prefix.isascii() or not prefix.isprintable():
        raise InvalidSettingError(f"metadata.etcd.prefix = {prefix!r}: only ASCII characters that can be seen")
    certificate, key = settings.metadata_etcd_tls_certificate_file, settings.metadata_etcd_tls_key_file
    if (certificate is None) != (key is None):
        raise InvalidSettingError("metadata.etcd.tls.certificate.file and metadata.etcd.tls.key.file go together")
    is_tls = settings.metadata_etcd_tls_ca_file is not None or certificate is not None
    plain = next((one for one in endpoints if not one.is_tls), None)
    if is_tls and plain is not None and "http://" in settings.metadata_etcd_endpoints:
        raise InvalidSettingError(f"metadata.etcd.endpoints: {plain} is http and metadata.etcd.tls.* are given")


def _credentials(path: str | None) -> tuple[str | None, str | None]:
    if path is None:
        return None, None
    try:
        with open(path) as file:
            line = file.readline().rstrip("\n")
    except (OSError, UnicodeDecodeError) as fault:
        reason = getattr(fault, "strerror", None) or "it is no text"
        raise StoreUnavailableError(f"cannot read metadata.etcd.credentials.file {path}: {reason}") from None
    name, separator, password = line.partition(":")
    if not separator or not name:
        raise StoreUnavailableError(f"metadata.etcd.credentials.file {path}: its first line must be name:password")
    return name, password
