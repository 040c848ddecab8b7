"""The start of an embedded broker: from before the import of the test kit to the first answered request.

Each round is a fresh interpreter with compiled modules, as in the second run of a user's tests.
It is compared with the import of asyncio, in a fresh interpreter too, which every asyncio program needs.
"""

from __future__ import annotations

import os
import subprocess
import sys

from qanat.app.bench.figures import Limit, Required, Row, row

EMBEDDED_REQUIRED = Required("ours", "<=", 0.15)

_START = """
import time
began = time.perf_counter()
from qanat.testing import EmbeddedBroker
import socket, struct
broker = EmbeddedBroker()
broker.start()
host, port = broker.bootstrap_servers.split(":")
client = socket.create_connection((host, int(port)))
body = struct.pack(">hhih", 18, 0, 1, -1)
client.sendall(struct.pack(">i", len(body)) + body)
assert client.recv(4096)
print(time.perf_counter() - began)
client.close()
broker.stop()
"""
_ASYNCIO = """
import time
began = time.perf_counter()
import asyncio
print(time.perf_counter() - began)
"""


def embedded_start(rounds: int, *, is_judged: bool = True) -> Row:
    """The figure; a first round, which is not counted, compiles modules."""
    _seconds(_START)
    ours, bare = zip(*((_seconds(_START), _seconds(_ASYNCIO)) for _ in range(rounds)), strict=True)
    limit = Limit(bare, "import of asyncio")
    required = EMBEDDED_REQUIRED if is_judged else None
    return row("start", "embedded: import, start, first answered request", "s", ours, limit, required)


def _seconds(program: str) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    finished = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return float(finished.stdout)
