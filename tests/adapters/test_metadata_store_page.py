"""The commands of docs/operating/metadata-store.md give a broker's user what it needs in etcd, and nothing else."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.adapters.etcd_servers import access_to, etcd_members
from tests.documents.blocks import ROOT, blocks_of
from tools.toolchains.etcdctl import have_etcdctl
from tools.toolchains.registries import MissingToolError

from qanat.adapters.etcd_store import EtcdStore
from qanat.cluster.store import Committed, Put
from qanat.model.errors import StoreUnavailableError

PAGE = ROOT / "docs" / "operating" / "metadata-store.md"
BEFORE = """
etcdctl user add root:secret
etcdctl user grant-role root root
etcdctl user add qanat-broker:secret
"""


@pytest.fixture(scope="module")
def etcdctl() -> Path:
    try:
        return have_etcdctl()
    except MissingToolError as reason:
        pytest.skip(f"the page is not run: {reason}")


async def test_a_broker_s_user_may_write_below_its_prefix_only(etcdctl: Path) -> None:
    (block,) = [one for one in blocks_of(PAGE) if one.is_shell]
    with etcd_members() as members:
        script = f"set -e\n{BEFORE}{block.text}\netcdctl auth enable"
        environment = {
            **os.environ,
            "PATH": f"{etcdctl.parent}:{os.environ['PATH']}",
            "ETCDCTL_API": "3",
            "ETCDCTL_ENDPOINTS": members[0].plan.client_url,
        }
        done = await asyncio.create_subprocess_exec("sh", "-c", script, env=environment, stderr=asyncio.subprocess.PIPE)
        _, said = await done.communicate()
        assert done.returncode == 0, said.decode()
        store = await EtcdStore.open(access_to(members, username="qanat-broker", password="secret", prefix="qanat:"))
        assert isinstance(await store.commit([], [Put("/a", b"")]), Committed)
        await store.close()
        with pytest.raises(StoreUnavailableError, match="denies this user"):
            await EtcdStore.open(access_to(members, username="qanat-broker", password="secret", prefix="theirs:"))
