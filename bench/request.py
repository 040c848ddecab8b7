"""CPU time of one small produce request inside the broker, without a socket: the interpreter's share.

    python -m bench.request              per request, at the best of some rounds and in the middle
    python -m bench.request --profile    where it goes, by function

A busy machine disturbs this less than anything with a client; compare two trees by turns (`PYTHONPATH=other/src`).
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, cast

from bench.workloads import UNFLUSHED
from qanat.servers.kafka.connection import KafkaConnection
from qanat.servers.kafka.connection_limits import ConnectionLimits
from qanat.servers.kafka.dispatch import Dispatcher
from qanat.testing import BrokerHere
from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData, write_request
from qanat.wire.records import Record, encode_batch

TOPIC = "single"
VERSION = 7
"""The version that librdkafka sends."""
TOGETHER = 8
"""Requests that arrive in one read."""
ROUNDS, READS = 15, 400


class Nowhere:
    """A transport that discards every response, except for its size."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 1

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def writelines(self, chunks: list[bytes]) -> None:
        self.size_bytes += sum(map(len, chunks))


def request() -> bytes:
    record = Record(offset=0, timestamp=int(time.time() * 1000), key=None, value=bytes(100))
    data = PartitionProduceData(0, memoryview(encode_batch([record])))
    message = ProduceRequest(None, -1, 30_000, [TopicProduceData(TOPIC, partition_data=[data])])
    return b"".join(frame_request(0, VERSION, 1, "bench", write_request(message, VERSION)))


class OneConnection:
    """A connection of a real broker, without a socket."""

    def __init__(self, broker: BrokerHere, arriving: bytes | None = None) -> None:
        """`arriving` are the bytes of one read; by default small produce requests."""
        limits = ConnectionLimits(max_request_bytes=10**8, max_unanswered=1000, max_inflight_bytes=10**9)
        handle = Dispatcher(broker.node.broker).handle
        self._connection = KafkaConnection(handle, limits, lambda _: None, _refuse)
        self.nowhere = Nowhere()
        self._connection.connection_made(cast(Any, self.nowhere))
        self._arriving = request() * TOGETHER if arriving is None else arriving

    def read(self, times: int) -> None:
        """Receive `TOGETHER` requests, so many times."""
        connection, arriving = self._connection, self._arriving
        size = len(arriving)
        for _ in range(times):
            connection.get_buffer(-1)[:size] = arriving
            connection.buffer_updated(size)


def _refuse(_: KafkaConnection, fault: BaseException) -> None:
    raise fault


async def run(*, is_profiled: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with BrokerHere(data_dir=folder) as broker:
            await broker.create_topic(TOPIC, configs=UNFLUSHED)
            connection = OneConnection(broker)
            connection.read(READS)
            if is_profiled:
                with cProfile.Profile() as profile:
                    connection.read(READS * ROUNDS)
                pstats.Stats(profile).sort_stats("tottime").print_stats(40)
                return
            found: list[float] = []
            for _ in range(ROUNDS):
                began = time.process_time_ns()
                connection.read(READS)
                found.append((time.process_time_ns() - began) / (READS * TOGETHER * 1000))
            print(f"{min(found):.1f} us of CPU time per request at best, {statistics.median(found):.1f} in the middle")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m bench.request", description="CPU time of one produce request.")
    parser.add_argument("--profile", action="store_true", help="where it goes, by function; everything takes longer")
    asyncio.run(run(is_profiled=parser.parse_args(arguments).profile))


if __name__ == "__main__":
    main(sys.argv[1:])
