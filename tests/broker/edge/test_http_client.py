"""The client of pipes and of the registry: its one connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from tests.connection.brokers import bad_broker

from qanat.broker.edge import http_client
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


class Late:
    """A server that answers each connection's request after these seconds; None is never."""

    def __init__(self, *pauses_s: float | None) -> None:
        self.pauses_s = list(pauses_s)
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pause_s = self.pauses_s[min(self.connections, len(self.pauses_s) - 1)]
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, OSError):
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(60 if pause_s is None else pause_s)
            writer.write(ANSWER)
            await reader.read()
        writer.close()


async def ask_late(server: Late, wait_s: float, overdue_s: float, client_of: type[HttpClient] = HttpClient) -> None:
    async with bad_broker(server.serve) as (host, port):
        client = client_of(f"http://{host}:{port}")
        try:
            answer = await client.request("GET", "/", wait_s=wait_s, is_repeatable=True, overdue_s=overdue_s)
            assert answer.body == b"ok"
        finally:
            await client.close()


def test_an_overdue_request_goes_out_again_long_before_its_connection_is_given_up() -> None:
    server, began = Late(None, 0.0), time.monotonic()
    asyncio.run(ask_late(server, wait_s=30.0, overdue_s=0.1))
    assert server.connections == 2
    assert time.monotonic() - began < 20  # Silence is given up after forty.


def test_a_server_that_is_slower_than_expected_is_heard_at_last() -> None:
    server = Late(1.2)
    asyncio.run(asyncio.wait_for(ask_late(server, wait_s=30.0, overdue_s=0.1), 30))
    assert 2 <= server.connections <= 5


class CutClient(HttpClient):
    """Its second connection and those after it come about only when the link is whole again."""

    opens, whole_s = 0, 0.0

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        CutClient.opens += 1
        if CutClient.opens > 1:
            await asyncio.sleep(max(0.0, CutClient.whole_s - time.monotonic()))
        return await super()._open()


def test_a_cut_that_outlasts_attempts_to_connect_is_over_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt ends after some time, and the next one follows; nobody waits for the connection of before the cut."""
    monkeypatch.setattr(http_client, "SILENCE_S", 0.3)
    CutClient.opens, CutClient.whole_s = 0, time.monotonic() + 1.0
    server, began = Late(None, 0.0), time.monotonic()
    asyncio.run(ask_late(server, wait_s=30.0, overdue_s=0.1, client_of=CutClient))
    assert CutClient.opens >= 3
    assert time.monotonic() - began < 20
