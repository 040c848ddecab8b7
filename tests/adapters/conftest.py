"""One etcd for all tests of a process that leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.adapters.etcd_servers import etcd_members

from qanat.app.node.etcd_server import EtcdMember


@pytest.fixture(scope="session")
def etcd_member() -> Iterator[EtcdMember]:
    with etcd_members() as (member,):
        yield member
