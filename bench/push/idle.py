"""What an idle push connection costs the broker, with ten thousand of them: connected only, and subscribed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tools.servers import Running, qanat

from bench.client.bars import Bar
from bench.processes import cpu_seconds, memory, open_files_allowed

CONNECTIONS = 10_000
BYTES_MAX = 15 * 1024
_FEW = 100
_WATCH_S = 5.0
_TOPIC = "idle"


@contextlib.contextmanager
def crowd(broker: Running, topic: str, count: int, kind: str) -> Iterator[None]:
    """So many clients in a process of their own, all there."""
    command = [sys.executable, "-m", "bench.push.crowd", broker.address, topic, str(count), kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if process.stdout.readline().strip() != "ready":
                raise SystemExit(f"bench.push: the clients of kind {kind} did not connect")
            yield
        finally:
            process.stdin.close()
            process.wait(60)


def bars(folder: Path, count: int = CONNECTIONS) -> list[Bar]:
    open_files_allowed()
    found = []
    for kind in ("greeted", "subscribed"):
        with qanat().running(folder / f"idle-{kind}") as broker, crowd(broker, _TOPIC, _FEW, kind):
            before = memory(broker.pid).own_bytes
            with crowd(broker, _TOPIC, count, kind):
                each = (memory(broker.pid).own_bytes - before) / count
                began = cpu_seconds(broker.pid)
                time.sleep(_WATCH_S)
                share = (cpu_seconds(broker.pid) - began) / _WATCH_S
        print(f"  {count:,} {kind}: {each:,.0f} bytes each, {share:.1%} of a core while idle", flush=True)
        found.append(Bar(f"{count:,} idle connections, {kind}", each / 1024, BYTES_MAX / 1024, "at most", "KiB"))
    return found
