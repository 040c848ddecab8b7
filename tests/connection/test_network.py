"""Listeners on TCP: a connection that is accepted while they close gets its protocol, and is closed with the others."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
from tests.servers.http.serving import node_settings

from qanat.app.node.node import Node
from qanat.connection.network import TCP


class Noted(asyncio.Protocol):
    transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport


async def turns_of_the_loop(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("turns", range(6))
async def test_what_was_accepted_becomes_a_connection(turns: int) -> None:
    made: list[Noted] = []

    def make() -> Noted:
        made.append(Noted())
        return made[-1]

    listening = await TCP.listen(make, "127.0.0.1", 0)
    await listening.start_serving()
    port = listening.port
    with socket.create_connection(("127.0.0.1", port)):
        await turns_of_the_loop(turns)
        listening.close()
        await listening.wait_closed()
        await turns_of_the_loop(5)

        transports = [one.transport for one in made]
        assert None not in transports
        for transport in transports:
            assert transport is not None
            transport.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


@pytest.mark.parametrize("turns", range(6))
async def test_a_broker_s_listener_closes_what_it_accepts_while_it_closes(turns: int) -> None:
    async with Node(node_settings()) as node:
        with socket.create_connection(("127.0.0.1", node.listener.port)) as client:
            client.settimeout(60)
            await turns_of_the_loop(turns)
            await node.listener.close()
            await turns_of_the_loop(10)
            with contextlib.suppress(ConnectionResetError):  # It was not accepted yet.
                assert client.recv(1) == b""
