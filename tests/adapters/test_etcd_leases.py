"""Keeping a lease where the connection breaks between etcd's answer and the end of the stream."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import grpc
import pytest
from tests.adapters.etcd_servers import access_to, etcd_members

from qanat.adapters.etcd_connection import EtcdConnection, Stream
from qanat.adapters.etcd_store import EtcdStore
from qanat.app.node.etcd_server import EtcdMember


@pytest.fixture(scope="module")
def member() -> Iterator[EtcdMember]:
    with etcd_members() as (member,):
        yield member


class BreakingConnection(EtcdConnection):
    """Its streams break like those of a killed member: gRPC cannot even begin to close them."""

    async def open_stream(self, method: str, timeout_s: float | None = None) -> Stream:
        stream = await super().open_stream(method, timeout_s)

        async def break_down() -> None:
            raise grpc.aio.InternalError('Failed "execute_batch"')

        stream.done_writing = break_down  # type: ignore[method-assign]
        return stream


async def test_a_lease_is_renewed_though_its_stream_cannot_be_closed(member: EtcdMember) -> None:
    store = await EtcdStore.open(access_to([member]))
    connection = BreakingConnection(access_to([member]))
    try:
        lease = await store.grant_lease(3_000)
        async with asyncio.timeout(30):
            assert await connection.keep_alive(lease.lease_id, timeout_s=10)
    finally:
        await connection.close()
        await store.close()
