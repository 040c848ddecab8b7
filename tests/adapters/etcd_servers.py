"""Real etcd for tests: found or skipped, started in memory, ended for certain."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from qanat.adapters.etcd_access import EtcdAccess
from qanat.adapters.etcd_endpoints import parse_endpoints
from qanat.app.node.etcd_server import EtcdMember, find_etcd, plan_members, start_members
from qanat.model.errors import StoreUnavailableError

BUILT = Path(__file__).resolve().parents[2] / ".cache" / "etcd"
"""Where `python -m tools.build_etcd` leaves one."""


def etcd_program() -> str:
    try:
        return find_etcd([BUILT])
    except StoreUnavailableError as fault:
        pytest.skip(str(fault))


@contextmanager
def etcd_members(
    count: int = 1, options: Sequence[str] = (), client_port: int | None = None
) -> Iterator[list[EtcdMember]]:
    """A cluster of etcd, its data in memory where that can be had. `client_port` is for options that name it."""
    program = etcd_program()
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=in_memory) as folder:
        plans = plan_members(Path(folder), count)
        if client_port is not None:
            plans = [dataclasses.replace(plan, client_port=client_port) for plan in plans]
        members = start_members(program, plans, options)
        try:
            yield members
        finally:
            for member in members:
                member.kill()


def access_to(members: Sequence[EtcdMember], **options: object) -> EtcdAccess:
    endpoints = parse_endpoints(",".join(member.plan.client_url for member in members))
    return EtcdAccess(endpoints, **options)  # type: ignore[arg-type]
