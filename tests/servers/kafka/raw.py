"""A client of nothing but frames: requests in exactly the version that a test wants, with our own codec."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from typing import Any

from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.headers import frame_request, read_response_header
from qanat.wire.kafka.registry import APIS, ApiKey

TIMEOUT_S = 60.0
LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
LOADED_WITHIN_S = 120.0


class RawClient:
    """One connection; `ask` waits for the answer."""

    def __init__(
        self, address: str, tls: ssl.SSLContext | None = None, source: str = "", client_id: str = "raw"
    ) -> None:
        """`source` is the client's own address, where the test has several."""
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S, (source, 0) if source else None)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        self._correlation_id = 0
        self._client_id = client_id

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        self.send(key, version, request)
        return self.receive(key, version)

    def ask_coordinator(self, key: ApiKey, version: int, request: Any) -> Any:
        """Again while the coordinator makes its topic or loads it, as every client does."""
        deadline = time.monotonic() + LOADED_WITHIN_S
        while (answer := self.ask(key, version, request)).error_code in LOADING and time.monotonic() < deadline:
            time.sleep(0.05)
        return answer

    def send(self, key: ApiKey, version: int, request: Any) -> None:
        self._correlation_id += 1
        body = APIS[key].codec.write_request(request, version)
        self._socket.sendall(b"".join(frame_request(key, version, self._correlation_id, self._client_id, body)))

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive_bytes(self) -> bytes:
        """The next frame, whatever it holds."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def receive(self, key: ApiKey, version: int) -> Any:
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = memoryview(self._exactly(size))
        correlation_id, position = read_response_header(frame, key, version)
        assert correlation_id == self._correlation_id
        return APIS[key].codec.read_response(frame, version, position)

    def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            more = self._socket.recv(size - len(received))
            if not more:
                raise EOFError("the broker closed the connection")
            received += more
        return bytes(received)
