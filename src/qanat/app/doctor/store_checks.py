"""Checks of metadata stores: SQLite on this file system, and etcd for clusters of several hosts."""

from __future__ import annotations

import subprocess
from pathlib import Path

from qanat.app.doctor.finding import Finding
from qanat.model.errors import StoreUnavailableError

_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "ceph", "glusterfs", "lustre")
_ETCD_TIMEOUT_SECONDS = 10
_ONLY = "Only for clusters of several hosts: "


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


def check_etcd() -> Finding:
    """etcd, which only clusters of several hosts need: its absence is a warning, never a failure."""
    import importlib.util

    if importlib.util.find_spec("grpc") is None:
        return Finding("etcd (clusters)", "warn", "no grpcio", f"{_ONLY}pip install 'qanat[etcd]'")
    from qanat.app.node.etcd_server import find_etcd

    try:
        program = find_etcd()
    except StoreUnavailableError:
        advice = f"{_ONLY}set metadata.etcd.endpoints to another host's etcd, or apt install etcd-server."
        return Finding("etcd (clusters)", "warn", "no etcd on this machine", advice)
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=_ETCD_TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return Finding("etcd (clusters)", "warn", f"{program} does not answer", f"{_ONLY}repair etcd.")
    return _version_finding(program, answer.stdout.partition("\n")[0].rpartition(" ")[2])


def _version_finding(program: str, version: str) -> Finding:
    from qanat.adapters.etcd_versions import check_version

    try:
        check_version(version, program)
    except StoreUnavailableError as fault:
        return Finding("etcd (clusters)", "warn", f"etcd {version}", f"{_ONLY}{fault}.")
    return Finding("etcd (clusters)", "ok", f"etcd {version}")


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
