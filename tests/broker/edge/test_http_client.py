"""The client of pipes and of the registry: its one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from tests.connection.brokers import bad_broker

from qanat.broker.edge.http_client import HttpClient
from qanat.connection.faults import UnreachableError

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LAST_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


class Answering:
    """A server that sends these answers over each connection, then closes it, and counts connections and requests."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = answers
        self.connections = self.requests = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError):  # The client has left.
            for answer in self.answers:
                await reader.readuntil(b"\r\n\r\n")
                self.requests += 1
                writer.write(answer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def run(server: Answering, use: Callable[[HttpClient], Awaitable[None]]) -> None:
    async def both() -> None:
        async with bad_broker(server.serve) as (host, port):
            client = HttpClient(f"http://{host}:{port}")
            try:
                await use(client)
            finally:
                await client.close()

    asyncio.run(both())


async def ask(client: HttpClient, count: int, *, is_repeatable: bool = True) -> None:
    for _ in range(count):
        assert (await client.request("GET", "/", is_repeatable=is_repeatable)).body == b"ok"
        await asyncio.sleep(0.02)  # Time for a server to close.


def test_one_connection_serves_all_requests() -> None:
    server = Answering(*[ANSWER] * 5)
    run(server, lambda client: ask(client, 5))
    assert (server.connections, server.requests) == (1, 5)


def test_a_connection_that_its_server_ends_is_not_used_again() -> None:
    server = Answering(LAST_ANSWER)
    run(server, lambda client: ask(client, 3, is_repeatable=False))
    assert (server.connections, server.requests) == (3, 3)


def test_a_kept_connection_that_was_closed_in_silence_costs_a_repeatable_request_nothing() -> None:
    server = Answering(ANSWER, ANSWER)
    run(server, lambda client: ask(client, 5))
    assert (server.connections, server.requests) == (3, 5)


def test_another_request_is_told_of_it() -> None:
    server = Answering(ANSWER)
    with pytest.raises(UnreachableError, match="it closed the connection"):
        run(server, lambda client: ask(client, 2, is_repeatable=False))


def test_a_new_connection_that_is_closed_without_an_answer_is_a_fault() -> None:
    with pytest.raises(UnreachableError, match="it closed the connection"):
        run(Answering(), lambda client: ask(client, 1))
