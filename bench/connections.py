"""`python -m bench.connections`: the cost of an idle connection to a broker, with ten thousand of them.

The broker is a process of its own, this is another: together they need two descriptors per connection, and each may
have only so many. Every connection asks once for the versions served, as a client does, and then says nothing more.
"""

from __future__ import annotations

import argparse
import resource
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.servers import FIRST_REQUEST, Running, qanat

from bench.processes import memory

CONNECTIONS = 10_000
BYTES_MAX = 16 * 1024
_SPARE_DESCRIPTORS = 500
EXIT_NOT_MET = 1
EXIT_SKIPPED = 3


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench.connections", description=__doc__)
    parser.add_argument("--count", type=int, default=CONNECTIONS)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a connection costs more than 16 KB")
    asked = parser.parse_args(arguments)
    needed = asked.count + _SPARE_DESCRIPTORS
    hardest = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hardest != resource.RLIM_INFINITY and hardest < needed:
        print(f"skipped: {asked.count:,} connections need {needed:,} descriptors, {hardest:,} is the most (ulimit -Hn)")
        return EXIT_SKIPPED
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hardest))  # The broker inherits it.
    with tempfile.TemporaryDirectory() as folder, qanat().running(Path(folder) / "broker") as broker:
        bytes_each = cost(broker, asked.count)
    print(f"{asked.count:,} idle connections: {bytes_each:,.0f} bytes each in the broker, at most {BYTES_MAX:,}")
    return EXIT_NOT_MET if asked.check and bytes_each > BYTES_MAX else 0


def cost(broker: Running, count: int) -> float:
    """The growth of the broker's own memory per connection, beyond the first hundred."""
    few = [_connected(broker.address) for _ in range(100)]
    before = memory(broker.pid).own_bytes
    many = [_connected(broker.address) for _ in range(count)]
    grown = memory(broker.pid).own_bytes - before
    for one in few + many:
        one.close()
    return grown / count


def _connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    client = socket.create_connection((host, int(port)), 60.0)
    client.sendall(FIRST_REQUEST)
    assert client.recv(65536), "the broker closed the connection"
    return client


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
