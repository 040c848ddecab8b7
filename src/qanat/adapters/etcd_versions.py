"""Supported versions of etcd."""

from __future__ import annotations

from qanat.model.errors import StoreUnavailableError

OLDEST_ETCD = (3, 4)
_LOSES_WRITES = ((3, 5, 0), (3, 5, 2))


def check_version(version: str, where: object) -> None:
    """Refuse an etcd that is too old, or known to lose data."""
    numbers = tuple(int(part) for part in version.split("-")[0].split(".") if part.isdigit())
    if numbers < OLDEST_ETCD:
        raise StoreUnavailableError(f"{where} has version {version}; Qanat needs 3.4 or newer, 3.4.22 or 3.5.6 advised")
    if _LOSES_WRITES[0] <= numbers[:3] <= _LOSES_WRITES[1]:
        raise StoreUnavailableError(
            f"{where} has version {version}, which can lose committed writes when it is killed "
            "(etcd-io/etcd#13766); upgrade it to 3.5.6 or newer"
        )
