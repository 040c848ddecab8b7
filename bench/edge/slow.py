"""Two megabytes of backlog over 50 kbit/s: all of it comes, and the child does not connect again and again."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tools.servers import free_port

from bench.client.bars import Bar
from bench.edge.tree import BULK, Ends, child, linked, plant, producer, root, wait_until

RATE_BYTES_PER_S, DELAY_S = 6_250, 0.3
_RECORD = 1_000
_CONNECTIONS = 3
"""One to the registry, one of the pipe, and one for what it asks for ahead."""


def bars(folder: Path, is_quick: bool) -> list[Bar]:
    backlog = 200_000 if is_quick else 2_000_000
    port = free_port()
    with linked(RATE_BYTES_PER_S, DELAY_S) as link, root(folder, port) as parent:
        link_port = link.port_to(lambda: port)
        plant(port, link_port)
        writer = producer(parent)
        for _ in range(backlog // _RECORD):
            writer.produce(BULK, os.urandom(_RECORD))
        writer.flush(60)
        with child(folder, link_port) as below:
            ends, began = Ends(below), time.monotonic()
            wait_until(lambda: ends.of(BULK) >= backlog // _RECORD, "the backlog at the child", 900, 0.5)
            took = time.monotonic() - began
            ends.close()
    least = backlog / RATE_BYTES_PER_S
    print(f"  {backlog / 1e6:.1f} MB in {took:.0f} s, {least:.0f} s at the link's rate; {link.connections} connections")
    return [
        Bar("connections over 50 kbit/s beyond the first three", link.connections - _CONNECTIONS, 0, "at most", ""),
        Bar("the time of 2 MB over 50 kbit/s, by the link's rate", took / least, 1.2, "at most"),
    ]
