"""One etcd for all tests of a process, started by the first that asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.adapters.etcd_servers import access_to, etcd_members

from qanat.adapters.etcd_access import EtcdAccess


@pytest.fixture(scope="session")
def etcd_access() -> Iterator[EtcdAccess]:
    with etcd_members() as members:
        yield access_to(members)
