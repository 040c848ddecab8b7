"""TCP, and a Unix domain socket beside each port: programs of this machine need no port, and a file says who may."""

import asyncio
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from qanat.connection.network import BACKLOG, TCP, Listening

Made = TypeVar("Made", bound=asyncio.BaseProtocol)
FOLDER = "SOCKETS_DIR"
_HERE = ("localhost", "127.0.0.1", "::1")


def path_of(port: int) -> Path:
    """The socket beside a port: `9092.sock` in the folder that the variable SOCKETS_DIR names."""
    return Path(os.environ.get(FOLDER, ".")) / f"{port}.sock"


class Both:
    """A port and its socket."""

    def __init__(self, tcp: Listening, unix: asyncio.Server) -> None:
        self._tcp = tcp
        self._unix = unix
        self.port = tcp.port

    async def start_serving(self) -> None:
        await self._unix.start_serving()
        await self._tcp.start_serving()

    def close(self) -> None:
        self._tcp.close()
        self._unix.close()
        with suppress(FileNotFoundError):
            path_of(self.port).unlink()

    async def wait_closed(self) -> None:
        await self._tcp.wait_closed()
        await self._unix.wait_closed()


class UnixNetwork:
    """The network `unix`."""

    async def listen(
        self, make: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, is_shared: bool = False
    ) -> Listening:
        tcp = await TCP.listen(make, host, port, is_shared=is_shared)
        if is_shared:
            return tcp  # Several brokers listen on this port, and one socket belongs to one of them.
        path = path_of(tcp.port)
        try:
            # The port is ours: a socket that is there was left by a process that was killed.
            with suppress(FileNotFoundError):
                path.unlink()
            loop = asyncio.get_running_loop()
            unix = await loop.create_unix_server(make, path, backlog=BACKLOG, start_serving=False)
            path.chmod(0o600)
        except BaseException:
            tcp.close()
            raise
        return Both(tcp, unix)

    async def connect(
        self, make: Callable[[], Made], host: str, port: int, tls: ssl.SSLContext | None = None, *, close_s: float = 0.0
    ) -> tuple[asyncio.BaseTransport, Made]:
        path = path_of(port)
        if host not in _HERE or tls is not None or not path.exists():
            return await TCP.connect(make, host, port, tls, close_s=close_s)
        return await asyncio.get_running_loop().create_unix_connection(make, str(path))
