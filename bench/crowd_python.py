"""Many clients at once, each a raw connection: the same as `crowd.c` and `readers.c`, on asyncio."""

from __future__ import annotations

import asyncio
import ssl
import struct
import sys
import time
from abc import ABC, abstractmethod
from typing import Any

_TIMEOUT_S = 60
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_OFFSET_FROM_END = 8 + 8 + 4 + 4 + 2
"""Offset, log start, most bytes, forgotten topics, the length of a rack's name."""
_LAST_DELTA_AT, _RECORDS_AT, _BATCH_HEAD = 23, 57, 61
Settings = dict[str, Any]


def wait_for_go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


class _Work:
    """Requests or clients that are left, shared by all clients."""

    def __init__(self, count: int) -> None:
        self.unsent = count
        self.unanswered = count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(self) -> None:
        self.unanswered -= 1
        if not self.unanswered and not self.done.done():
            self.done.set_result(None)


class _Client(asyncio.Protocol, ABC):
    """A connection that takes whole answers; its first ones are those of its authentication."""

    def __init__(self) -> None:
        self._got = bytearray()
        self._work: _Work | None = None
        self._transport: Any = None
        self._awaited: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        while len(self._got) >= 4 and len(self._got) >= (size := 4 + int.from_bytes(self._got[:4])):
            answer = bytes(self._got[:size])
            del self._got[:size]
            if self._awaited is not None:
                self._awaited.set_result(answer)
            elif self._work is not None:
                self.take(answer, self._work)

    @abstractmethod
    def take(self, answer: bytes, work: _Work) -> None:
        """Take an answer that is not one of the authentication."""

    async def log_in(self, name: str, password: str) -> None:
        token = f"\0{name}\0{password}".encode()
        await self._ask(_SASL_HANDSHAKE, 1, b"\0\5PLAIN")
        await self._ask(_SASL_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)

    async def _ask(self, key: int, version: int, body: bytes) -> None:
        """Send a request with header version 1 and no client id; its answer begins with an error code."""
        self._awaited = asyncio.get_running_loop().create_future()
        self._transport.write(struct.pack(">ihhih", 10 + len(body), key, version, 1, -1) + body)
        answer = await self._awaited
        self._awaited = None
        if any(answer[8:10]):
            raise ConnectionError("the broker refused the client")

    def connection_lost(self, fault: Exception | None) -> None:
        self._fail("the broker closed a connection")

    def _fail(self, why: str) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(ConnectionError(why))
        if self._work is not None and not self._work.done.done():
            self._work.done.set_exception(ConnectionError(why))


class _Writer(_Client):
    def __init__(self, frame: bytes, topic: str) -> None:
        super().__init__()
        self._frame = frame
        # Size, correlation id, topics, name, partitions, index; then the error code.
        self._error_at = 4 + 4 + 4 + 2 + len(topic) + 4 + 4

    def begin(self, work: _Work, in_flight: int) -> None:
        self._work = work
        for _ in range(in_flight):
            self._send(work)

    def _send(self, work: _Work) -> None:
        if work.unsent:
            work.unsent -= 1
            self._transport.write(self._frame)

    def take(self, answer: bytes, work: _Work) -> None:
        if any(answer[self._error_at : self._error_at + 2]):
            self._fail("the broker refused records")
        work.answered()
        self._send(work)


class _Reader(_Client):
    def __init__(self, frame: bytes, topic: str, share: int) -> None:
        super().__init__()
        self._request = bytearray(frame)
        self._left = share
        # Size, correlation id, throttle time, error, session, topics, name, partitions, index; then the error code,
        # three offsets, aborted transactions, the preferred replica, the size of the records.
        self._error_at = 4 + 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4
        self._records_at = self._error_at + 2 + 3 * 8 + 4 + 4 + 4

    def begin(self, work: _Work) -> None:
        self._work = work
        self._transport.write(bytes(self._request))

    def take(self, answer: bytes, work: _Work) -> None:
        """Count the whole batches of an answer, and ask for what follows them."""
        if any(answer[self._error_at : self._error_at + 2]):
            self._fail("the broker refused it")
            return
        at = self._records_at
        while at + _BATCH_HEAD <= len(answer):
            base, size = struct.unpack_from(">qi", answer, at)
            if at + 12 + size > len(answer):
                break
            (delta,) = struct.unpack_from(">i", answer, at + _LAST_DELTA_AT)
            (records,) = struct.unpack_from(">i", answer, at + _RECORDS_AT)
            struct.pack_into(">q", self._request, len(self._request) - _OFFSET_FROM_END, base + delta + 1)
            self._left -= records
            at += 12 + size
        if self._left > 0:
            self._transport.write(bytes(self._request))
        else:
            work.answered()


async def _open(client: _Client, address: str, settings: Settings) -> None:
    host, _, port = address.rpartition(":")
    protocol = settings.get("client.security.protocol", "")
    is_tls = protocol == "SASL_SSL"
    context = ssl.create_default_context(cafile=settings["client.ssl.ca.location"]) if is_tls else None
    await asyncio.get_running_loop().create_connection(lambda: client, host, int(port), ssl=context)
    if protocol:
        await client.log_in(settings["client.sasl.username"], settings["client.sasl.password"])


async def _write(address: str, topic: str, count: int, settings: Settings) -> dict[str, float]:
    how_many, in_flight = int(settings["driver.clients"]), int(settings["driver.in_flight"])
    records = int(settings["driver.records"])
    writers = [_Writer(bytes.fromhex(settings["driver.frame"]), topic) for _ in range(how_many)]
    for one in writers:
        await _open(one, address, settings)
    await _all_of(writers, 1, how_many)
    wait_for_go()
    start = time.perf_counter()
    await _all_of(writers, in_flight, count // records)
    return {"seconds": time.perf_counter() - start, "count": count // records * records}


async def _all_of(writers: list[_Writer], in_flight: int, requests: int) -> None:
    work = _Work(requests)
    for one in writers:
        one.begin(work, in_flight)
    await asyncio.wait_for(work.done, _TIMEOUT_S)


async def _read(address: str, topic: str, count: int, settings: Settings) -> dict[str, float]:
    how_many = int(settings["driver.clients"])
    share = count // how_many
    all_readers = [_Reader(bytes.fromhex(settings["driver.frame"]), topic, share) for _ in range(how_many)]
    for one in all_readers:
        await _open(one, address, settings)
    wait_for_go()
    start = time.perf_counter()
    work = _Work(how_many)
    for one in all_readers:
        one.begin(work)
    await asyncio.wait_for(work.done, _TIMEOUT_S)
    return {"seconds": time.perf_counter() - start, "count": share * how_many}


def clients(address: str, topic: str, size: int, count: int, rate: int, settings: Settings) -> dict[str, float]:
    return asyncio.run(_write(address, topic, count, settings))


def readers(address: str, topic: str, size: int, count: int, rate: int, settings: Settings) -> dict[str, float]:
    return asyncio.run(_read(address, topic, count, settings))
