"""Brokers to connect to: ours in memory, and sockets that behave badly."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from qanat.app.node.node import Node
from qanat.app.settings.node_settings import NodeSettings
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.connection.cluster import Address, Cluster

Served = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@contextlib.asynccontextmanager
async def our_cluster(timeout_s: float = 15.0) -> AsyncIterator[Cluster]:
    """A client of a broker in memory."""
    settings = NodeSettings(storage_engine="memory", broker=BrokerSettings(port=0))
    async with Node(settings) as node, Cluster([("127.0.0.1", node.listener.port)], timeout_s=timeout_s) as cluster:
        yield cluster


@contextlib.asynccontextmanager
async def bad_broker(serve: Served) -> AsyncIterator[Address]:
    """A server that treats every connection as the test says."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await serve(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield "127.0.0.1", server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.sleep(0.05)  # The handlers see the other end go, and close theirs.
