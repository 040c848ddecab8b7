"""Checks of etcd, for clusters of several hosts."""

from __future__ import annotations

import subprocess

from qanat.app.rules.finding import Finding
from qanat.model.errors import StoreUnavailableError

_ETCD_TIMEOUT_SECONDS = 10
_ONLY = "Only for clusters of several hosts: "


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
