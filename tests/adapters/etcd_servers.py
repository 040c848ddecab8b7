"""Real etcd for tests: found or skipped, started in memory, ended for certain."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.fetching import Unavailable, fetch_once
from tools.build_etcd import FOLDER, have_etcd

from qanat.adapters.etcd_access import EtcdAccess
from qanat.adapters.etcd_endpoints import parse_endpoints
from qanat.app.node.etcd_server import EtcdMember, find_etcd, plan_members, start_members
from qanat.app.settings.environment import ETCD
from qanat.model.errors import StoreUnavailableError


def etcd_program() -> str:
    """This machine's, or one that is brought into `.cache/`; where neither can be had, the test is skipped."""
    try:
        if os.environ.get(ETCD) or shutil.which("etcd"):
            return find_etcd()
        fetch_once("etcd", (FOLDER / "etcd").exists, have_etcd)
        return str(FOLDER / "etcd")
    except (StoreUnavailableError, Unavailable) as fault:
        pytest.skip(f"there is no etcd on this machine, and none can be had: {fault}")


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
