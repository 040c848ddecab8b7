"""Checks of SQLite, and of the file system that it lies on."""

from __future__ import annotations

from pathlib import Path

from qanat.app.rules.finding import Finding
from qanat.model.errors import StoreUnavailableError

_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "ceph", "glusterfs", "lustre")


def check_sqlite(folder: Path) -> Finding:
    """SQLite's version, and a file system on which several processes can share a database."""
    import apsw

    from qanat.adapters.sqlite_errors import check_library

    version = apsw.sqlite_lib_version()
    try:
        check_library(version)
    except StoreUnavailableError as fault:
        return Finding("metadata store", "fail", f"SQLite {version}", f"{fault}.")
    kind = file_system_of(folder)
    seen = f"SQLite {version} on {kind or 'an unknown file system'}"
    if kind is not None and kind.startswith(_NETWORK_FILE_SYSTEMS):
        return Finding("metadata store", "fail", seen, "Locks do not hold over a network: use a local disk, or etcd.")
    return Finding("metadata store", "ok", seen)


def file_system_of(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """The type of file system that a folder lies on; None where it is unknown."""
    try:
        rows = [line.split() for line in mounts.read_text(errors="replace").splitlines()]
    except OSError:
        return None
    path = folder.resolve()
    points = [(Path(row[1].replace("\\040", " ")), row[2]) for row in rows if len(row) > 2]
    above = [(point, kind) for point, kind in points if point == path or point in path.parents]
    return max(above, key=lambda one: len(one[0].parts))[1] if above else None
