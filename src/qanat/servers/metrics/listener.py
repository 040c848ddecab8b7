"""`GET /metrics` on an address of its own: HTTP/1.1, one answer per connection, no dependencies.

A slow or long request is closed: a request is a few lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from qanat.broker.broker import Broker
from qanat.model.errors import AddressInUseError
from qanat.servers.kafka.listener import KafkaListener
from qanat.servers.metrics.text import MetricsText
from qanat.telemetry.exposition import CONTENT_TYPE

if TYPE_CHECKING:
    from qanat.security.authentication import Principal
    from qanat.servers.tls.handshake import TlsHandshakes
    from qanat.servers.tls.listener_tls import ListenerTls

_REQUEST_BYTES_MAX = 16 * 1024
_TIMEOUT_S = 10.0
_CONNECTIONS_MAX = 32
_PLAIN = "text/plain; charset=utf-8"


class MetricsListener:
    """Serves one address: `start` and `close`."""

    def __init__(
        self, broker: Broker, kafka: KafkaListener, host: str, port: int, tls: ListenerTls | None = None
    ) -> None:
        self._host = host
        self._wanted_port = port
        self.metrics = MetricsText(broker, kafka)
        self._server: asyncio.Server | None = None
        self._tls = tls
        self._handshakes: TlsHandshakes | None = None
        self._answering: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        assert self._server is not None, "started"
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{self._host}:{self._server.sockets[0].getsockname()[1]}/metrics"

    async def start(self) -> None:
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._factory(), self._host, self._wanted_port
            )
        except OSError as error:
            raise AddressInUseError(
                f"cannot serve metrics on {self._host}:{self._wanted_port}: {error.strerror or error}; "
                "stop what is using it, or choose another metrics.port"
            ) from error
        self.metrics.start()

    def _factory(self) -> Callable[[], asyncio.BaseProtocol]:
        if self._tls is None:
            return self._accept
        from qanat.servers.tls.handshake import TlsHandshakes

        self._handshakes = TlsHandshakes(self._tls, self._accept)
        return self._handshakes

    def _accept(self, principal: Principal | None = None) -> asyncio.StreamReaderProtocol:
        """A connection; a client's certificate only lets it in: metrics are the same for all."""
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=_REQUEST_BYTES_MAX), self._answer)

    async def close(self) -> None:
        self.metrics.close()
        if self._server is not None:
            self._server.close()
            if self._handshakes is not None:
                await self._handshakes.close()
            for task in list(self._answering):
                task.cancel()
            await asyncio.gather(*self._answering, return_exceptions=True)
            await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            if len(self._answering) <= _CONNECTIONS_MAX:
                async with asyncio.timeout(_TIMEOUT_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    await self._respond(head, writer)
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            self._answering.discard(task)
            writer.close()

    async def _respond(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        method, path = _asked(head)
        if path != "/metrics":
            _write(writer, "404 Not Found", _PLAIN, b"Metrics are at /metrics.\n")
        elif method not in ("GET", "HEAD"):
            _write(writer, "405 Method Not Allowed", _PLAIN, b"Only GET is answered.\n", "Allow: GET, HEAD\r\n")
        else:
            body = await self.metrics.text()
            _write(writer, "200 OK", CONTENT_TYPE, body, is_head=method == "HEAD")
        await writer.drain()


def _asked(head: bytes) -> tuple[str, str]:
    """Method and path of a request; empty where it is none."""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    return (words[0], words[1].partition("?")[0]) if len(words) == 3 else ("", "")


def _write(
    writer: asyncio.StreamWriter,
    status: str,
    content_type: str,
    body: bytes,
    more: str = "",
    *,
    is_head: bool = False,
) -> None:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        f"{more}Connection: close\r\n\r\n"
    )
    parts: Iterable[bytes] = (head.encode(),) if is_head else (head.encode(), body)
    writer.writelines(parts)
