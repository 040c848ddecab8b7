"""A broker in a process of its own, with a probe on its loop.

It prints its port, then answers every line on stdin with the longest stalls since the last one.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import tempfile
import time

import uvloop

from bench.stalls.crowd import Crowd, settle
from qanat.app.node.node import Node
from qanat.app.node.serving import collect_rarely
from qanat.app.settings.node_settings import NodeSettings
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.servers.kafka.connection import KafkaConnection

BEAT_S = 0.001


class Probe:
    """A timer that measures by how much it is late."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._at_s = time.perf_counter()
        self._cpu_s = time.thread_time()
        self._worst_s = 0.0
        self._worst_cpu_s = 0.0
        self._beat()

    def _beat(self) -> None:
        at_s, cpu_s = time.perf_counter(), time.thread_time()
        self._worst_s = max(self._worst_s, at_s - self._at_s - BEAT_S)
        self._worst_cpu_s = max(self._worst_cpu_s, cpu_s - self._cpu_s)
        self._at_s, self._cpu_s = at_s, cpu_s
        self._loop.call_later(BEAT_S, self._beat)

    def report(self) -> str:
        """The longest stalls since the last report."""
        line = json.dumps({"wall_ms": self._worst_s * 1000, "cpu_ms": self._worst_cpu_s * 1000})
        self._worst_s = self._worst_cpu_s = 0.0
        return line


def _on_fault(connection: KafkaConnection, fault: BaseException) -> None:
    print(f"{connection.peer} was cut off: {fault!r}", file=sys.stderr, flush=True)


async def _serve() -> None:
    broker = BrokerSettings(port=0, host_name="127.0.0.1", auto_create_topics_enable=False)
    with tempfile.TemporaryDirectory() as folder:
        await _serve_in(NodeSettings(data_dir=folder, broker=broker))


async def _serve_in(settings: NodeSettings) -> None:
    async with Node(settings, _on_fault) as node:
        await settle(node.broker, Crowd())
        gc.collect()
        collect_rarely()
        probe, over = Probe(), asyncio.Event()

        def answer() -> None:
            if sys.stdin.readline():
                print(probe.report(), flush=True)
            else:
                over.set()

        asyncio.get_running_loop().add_reader(sys.stdin, answer)
        print(node.listener.port, flush=True)
        await over.wait()


if __name__ == "__main__":
    hardest = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hardest, hardest))  # Every partition has its files open.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())
