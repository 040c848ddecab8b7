"""Ten thousand edges reconnect at once: each registers, asks its parent, and waits there. How long until all wait, what
that costs the broker, which is registry and parent of all, and what one of them costs while nothing happens."""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.servers import free_port

from bench.client.bars import Bar
from bench.edge.tree import BULK, call, root
from bench.processes import cpu_seconds, memory, open_files_allowed
from qanat.app.bench.workspace import BenchRefusedError

EDGES = 10_000
_ALL_UP_S = 60.0
_PIPE_KB = 20.0
_WATCH_S = 5.0
_PARKED_MS = 25_000
_ANSWER_S = 60.0
_PLACED_BY = 50
"""Connections that give the edges their places beforehand."""


def bars(folder: Path, is_quick: bool) -> list[Bar]:
    count = 1_000 if is_quick else EDGES
    open_files_allowed()
    port = free_port()
    with root(folder, port) as broker:
        call(port, "PUT", "/api/v1/edge/nodes/root-1", {"role": "ROOT", "url": f"http://127.0.0.1:{port}"})
        _place(port, count)
        before, cpu = memory(broker.pid).own_bytes, cpu_seconds(broker.pid)
        began = time.monotonic()
        edges = [_connected(port) for _ in range(count)]
        _ask_all(edges, lambda number: _register(f"pos-{number}"))
        for number, edge in enumerate(edges):
            edge.sendall(_pull(f"pos-{number}"))
        call(port, "GET", "/health")  # What was sent before it has been read.
        took = time.monotonic() - began
        used = cpu_seconds(broker.pid) - cpu
        each = (memory(broker.pid).own_bytes - before) / count
        idle, began = cpu_seconds(broker.pid), time.monotonic()
        time.sleep(_WATCH_S)
        share = (cpu_seconds(broker.pid) - idle) / (time.monotonic() - began)
        for edge in edges:
            edge.close()
    print(f"  {count:,} edges in {took:.1f} s, {used:.1f} s of CPU; then {each:,.0f} bytes each, {share:.1%} of a core")
    return [
        Bar(f"{count:,} edges at once, until all wait", took, _ALL_UP_S, "at most", "s"),
        Bar(f"{count:,} edges at once, cores of the registry", used / took, 1.0, "at most", "cores"),
        Bar(f"{count:,} idle pipes, each", each / 1024, _PIPE_KB, "at most", "KiB"),
    ]


def _request(method: str, path: str, body: object) -> bytes:
    payload = json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: root\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(payload)}\r\n\r\n".encode() + payload


def _register(node: str) -> bytes:
    return _request("POST", "/api/v1/edge/nodes", {"node": node, "instance": f"instance of {node}"})


def _pull(node: str) -> bytes:
    position = {"topic": BULK, "partition": 0, "offset": 0, "epoch": -1}
    body = {"node": node, "partitions": [position], "timeout_ms": _PARKED_MS, "max_bytes": 65_536}
    return _request("POST", "/api/v1/edge/pipe", body)


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), _ANSWER_S)


def _place(port: int, count: int) -> None:
    """Every edge has its place, and has registered once: a node that returns changes nothing."""
    hands = [_connected(port) for _ in range(_PLACED_BY)]
    place = {"role": "POS", "parents": ["root-1"]}
    for first in range(0, count, _PLACED_BY):
        some = hands[: count - first]
        _ask_all(some, lambda number: _request("PUT", f"/api/v1/edge/nodes/pos-{first + number}", place))  # noqa: B023
        _ask_all(some, lambda number: _register(f"pos-{first + number}"))  # noqa: B023
    for hand in hands:
        hand.close()


def _ask_all(edges: Sequence[socket.socket], request: Callable[[int], bytes]) -> None:
    """Send a request on every connection at once, and take all answers."""
    with selectors.DefaultSelector() as selector:
        for number, edge in enumerate(edges):
            edge.sendall(request(number))
            selector.register(edge, selectors.EVENT_READ, number)
        left, deadline = len(edges), time.monotonic() + _ANSWER_S + len(edges) / 100
        while left:
            if time.monotonic() > deadline:
                raise BenchRefusedError(f"{left} edges have no answer")
            for key, _ in selector.select(1.0):
                edge = edges[key.data]
                answer = edge.recv(65_536)
                if not answer.startswith(b"HTTP/1.1 20"):
                    raise BenchRefusedError(f"edge {key.data}: {answer[:200]!r}")
                selector.unregister(edge)
                left -= 1
