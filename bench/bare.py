"""The client of the bare loop (`bare_server`): sends the bytes of a workload, for a limit without Kafka."""

from __future__ import annotations

import socket
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from tools.servers import Running, Server

from bench import bare_server, processes
from bench.workloads import FLUSHED, Sample, Workload

WHAT = "a bare loop from a socket to a file"
_BATCH_BYTES = 1_000_000
_REQUEST_BYTES = 160
"""Overhead of a record that is sent alone: frame, headers, batch header."""


def server() -> Server:
    def command(folder: Path, port: int) -> list[str]:
        return [sys.executable, "-m", "bench.bare_server", str(port), str(folder / "file")]

    return Server(WHAT, "", command)


class BareSide:
    """The loop as one side of a comparison."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def prepare(self, workload: Workload) -> None:
        """Write the bytes that a consumer reads."""
        if workload.is_filled:
            with self._connect() as connection:
                _send_all(connection, workload, _BATCH_BYTES)

    def clear(self, workload: Workload) -> None:
        """The file stays: later consumers read it too."""

    def sample(self, workload: Workload) -> Sample:
        with self._connect() as connection, self._connect() as second:
            if workload.is_cold:
                _send_all(connection, workload, _BATCH_BYTES)
            before = processes.cpu_seconds(self._running.pid)
            found = _catch_up(connection, second, workload) if workload.is_cold else _run(connection, workload)
            return Sample(found, processes.cpu_seconds(self._running.pid) - before)

    def _connect(self) -> socket.socket:
        host, port = self._running.address.split(":")
        connection = socket.create_connection((host, int(port)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def _run(connection: socket.socket, workload: Workload) -> dict[str, float]:
    if workload.mode in ("sync", "endtoend"):
        return _one_at_a_time(connection, workload)
    start = time.perf_counter()
    if workload.mode == "consume":
        _receive_all(connection, workload.size * workload.count)
    elif workload.client.get("batch.num.messages") == "1":
        _send_all(connection, workload, workload.size + _REQUEST_BYTES)
    else:
        records = int(workload.client.get("driver.records", "0"))
        _send_all(connection, workload, workload.size * records + _REQUEST_BYTES if records else _BATCH_BYTES)
    return {"seconds": time.perf_counter() - start, "count": workload.count}


def _catch_up(reading: socket.socket, writing: socket.socket, workload: Workload) -> dict[str, float]:
    """A reader of everything, concurrent with a writer; the file stays in memory as far as there is room."""
    few = replace(workload, count=max(1, workload.rate // 10))
    acks: list[dict[str, float]] = []
    writer = threading.Thread(target=lambda: acks.append(_one_at_a_time(writing, few)))
    start = time.perf_counter()
    writer.start()
    _receive_all(reading, workload.size * workload.count)
    seconds = time.perf_counter() - start
    writer.join()
    return {"seconds": seconds, "count": workload.count, "ack_p99_ms": acks[0]["p99_ms"]}


def _frame(workload: Workload, size: int) -> bytes:
    act = bare_server.SYNC if workload.topic is FLUSHED else bare_server.WRITE
    return bare_server.LENGTH.pack(size) + act.ljust(size, b"x")


def _send_all(connection: socket.socket, workload: Workload, frame_bytes: int) -> None:
    """Send frames without waiting; a thread counts acknowledgements."""
    is_single = frame_bytes == workload.size + _REQUEST_BYTES
    count = workload.count if is_single else max(1, workload.size * workload.count // frame_bytes)
    frame = _frame(workload, frame_bytes)
    counting = threading.Thread(target=_receive, args=(connection, count * len(bare_server.ACKNOWLEDGED)))
    counting.start()
    for _ in range(count):
        connection.sendall(frame)
    counting.join()


def _receive_all(connection: socket.socket, count: int) -> None:
    connection.sendall(bare_server.LENGTH.pack(1) + bare_server.READ)
    _receive(connection, bare_server.LENGTH.size + 8 + count)


def _receive(connection: socket.socket, count: int) -> None:
    buffer = bytearray(1 << 20)
    while count > 0:
        got = connection.recv_into(buffer, min(count, len(buffer)))
        if not got:
            raise ConnectionError("the bare loop has ended")
        count -= got


def _one_at_a_time(connection: socket.socket, workload: Workload) -> dict[str, float]:
    frame = _frame(workload, workload.size + _REQUEST_BYTES)
    took: list[float] = []
    start = time.perf_counter()
    for number in range(workload.count):
        if workload.rate:
            time.sleep(max(0.0, start + number / workload.rate - time.perf_counter()))
        due = start + number / workload.rate if workload.rate else time.perf_counter()
        connection.sendall(frame)
        _receive(connection, len(bare_server.ACKNOWLEDGED))
        took.append((time.perf_counter() - due) * 1e3)
    seconds = time.perf_counter() - start
    took.sort()
    at = {name: took[int(len(took) * share)] for name, share in _SHARES.items()}
    return {"seconds": seconds, "count": len(took), **at}


_SHARES = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
