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

    serving: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving[task] = writer
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
        await _a_few_turns()  # What was accepted until now gets its handler.
        if serving:
            # Handlers see the other end go, and close theirs. One that looks at nothing is cancelled.
            await asyncio.wait(serving, timeout=0.5)
        for task, writer in serving.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await _a_few_turns()  # Aborted transports close their sockets.


async def _a_few_turns() -> None:
    for _ in range(4):
        await asyncio.sleep(0)
