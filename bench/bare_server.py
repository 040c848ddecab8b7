"""A bare loop from a socket to a file, for comparison where Kafka is not available.

    python -m bench.bare_server PORT FILE

A frame is a length of four bytes and a body. By the body's first byte it is written to the file (`w`), written and
synced (`s`), or answered with the whole file (`r`). Everything else is answered with four bytes at once.
It has no topics, offsets, checksums or versions: no server can do less.
"""

from __future__ import annotations

import io
import os
import socket
import struct
import sys
import threading

LENGTH = struct.Struct(">i")
ACKNOWLEDGED = b"\0\0\0\0"
WRITE, SYNC, READ = b"w", b"s", b"r"
_BUFFER_BYTES = 2 << 20


def serve(port: int, path: str) -> None:
    """Serve until the process is ended; one thread per connection."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_answer, args=(connection, fd), daemon=True).start()


def _answer(connection: socket.socket, fd: int) -> None:
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    with connection, io.BufferedReader(socket.SocketIO(connection, "r"), _BUFFER_BYTES) as incoming:
        while len(prefix := incoming.read(LENGTH.size)) == LENGTH.size:
            body = buffer[: LENGTH.unpack(prefix)[0]]
            if incoming.readinto(body) != len(body):
                return
            _take(connection, fd, body)


def _take(connection: socket.socket, fd: int, body: memoryview) -> None:
    act = bytes(body[:1])
    if act == READ:
        _send_file(connection, fd)
        return
    if act in (WRITE, SYNC):
        os.write(fd, body)
    if act == SYNC:
        os.fdatasync(fd)
    connection.sendall(ACKNOWLEDGED)


def _send_file(connection: socket.socket, fd: int) -> None:
    size, sent = os.fstat(fd).st_size, 0
    connection.sendall(LENGTH.pack(0) + size.to_bytes(8, "big"))
    while sent < size:
        sent += os.sendfile(connection.fileno(), fd, sent, size - sent)


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
