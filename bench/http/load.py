"""The HTTP client: requests on many connections, batches of lines, and a stream with a producer."""

from __future__ import annotations

import asyncio
import json
import time
from typing import cast

import msgspec


def request(path: str, body: bytes, media_type: str = "application/json") -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Repeats(asyncio.Protocol):
    """Sends the same request again after each response; responses are small and arrive in one piece."""

    def __init__(self, message: bytes, until: float) -> None:
        self._message = message
        self._until = until
        self.answers = 0
        self.refused = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._message)

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 200 "):
            self.refused += 1
        if not data.endswith(b"}"):
            return
        self.answers += 1
        if time.perf_counter() < self._until:
            self._transport.write(self._message)
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def requests_per_second(port: int, message: bytes, connections: int, seconds: float) -> float:
    """Answered requests a second, each connection with one in flight."""
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    clients = [
        (await loop.create_connection(lambda: _Repeats(message, began + seconds), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    await asyncio.gather(*(client.done for client in clients))
    elapsed = time.perf_counter() - began
    assert not any(client.refused for client in clients), "every request is answered with 200"
    return sum(client.answers for client in clients) / elapsed


async def lines_per_second(port: int, lines: int, connections: int, seconds: float) -> float:
    """Written records a second, in requests of so many lines each."""
    rows = (
        msgspec.json.encode({"key": f"client_{number % 1000}", "value": {"cpu": 0.5, "host": f"h{number % 100}"}})
        for number in range(lines)
    )
    message = request("/api/v1/topics/lines/records", b"\n".join(rows), "application/x-ndjson")
    began = time.perf_counter()

    async def one() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=64 * 1024 * 1024)
        written = 0
        while time.perf_counter() < began + seconds:
            writer.write(message)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(head.partition(b"content-length: ")[2].partition(b"\r")[0])
            body = await reader.readexactly(size)
            assert b" 200 " in head[:16], body[:300]
            written += lines
        writer.close()
        return written

    counts = await asyncio.gather(*(one() for _ in range(connections)))
    return sum(counts) / (time.perf_counter() - began)


async def delivery_ms(port: int, count: int, per_second: float) -> list[float]:
    """The time from an acknowledgement to the record's event on the stream, in milliseconds."""
    acknowledged: dict[int, float] = {}
    arrived: dict[int, float] = {}
    stream, asking = await asyncio.open_connection("127.0.0.1", port)
    made = b'{"name": "streamed"}'
    asking.write(b"POST /api/v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
    asking.write(b"Content-Length: %d\r\n\r\n%b" % (len(made), made))
    head = await stream.readuntil(b"\r\n\r\n")
    await stream.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]))
    asking.write(b"GET /api/v1/topics/streamed/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await stream.readuntil(b"event: open")

    async def listen() -> None:
        while len(arrived) < count:
            line = await stream.readline()
            if line.startswith(b"data: {") and len(line) > 20:
                now = time.perf_counter()
                arrived[json.loads(line[6:])["value"]["n"]] = now

    listening = asyncio.create_task(listen())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.perf_counter()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / per_second - time.perf_counter()))
        body = msgspec.json.encode({"topic": "streamed", "value": {"n": number}})
        writer.write(request("/produce", body))
        await reader.readuntil(b"}")
        acknowledged[number] = time.perf_counter()
    await asyncio.wait_for(listening, 30)
    writer.close()
    asking.close()
    return sorted(max(0.0, arrived[number] - acknowledged[number]) * 1000 for number in range(count))
