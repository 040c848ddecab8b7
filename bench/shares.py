"""`python -m bench.shares`: eight share consumers that acknowledge every record, compared with a consumer group.

The same records, read by eight client processes: once as members of an ordinary consumer group that commits by itself
now and then, once as members of a share group that acknowledge each record explicitly and wait until that is durable.
They take turns in the same run; the clock runs from the start signal, when all have partitions, to the last record; the
ratio is taken within the round.

Required: 30 % of what the ordinary group reaches.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from tools.servers import qanat

from bench.share_client import GROUP, SHARE
from qanat.app.groups.group_view import describe_group
from qanat.connection.cluster import Cluster, parse_bootstrap

CLIENTS = 8
PARTITIONS = 8
REQUIRED = 0.3
EXIT_NOT_MET = 1
_TIMEOUT_S = 120.0
_TOPIC = "work"
_SETTINGS = {"group.consumer.heartbeat.interval.ms": 500, "group.share.heartbeat.interval.ms": 500}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench.shares", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a record")
    parser.add_argument("--check", action="store_true", help="exit with 1 where the ratio is below what is required")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, qanat(_SETTINGS).running(Path(folder) / "broker") as broker:
        _fill(broker.address, asked.records, asked.size)
        rounds = []
        for number in range(asked.rounds):
            plain = _rate(broker.address, GROUP, f"group-{number}", asked.records)
            rounds.append((plain, _rate(broker.address, SHARE, f"share-{number}", asked.records)))
    group_rate, share_rate = (statistics.median(rates) for rates in zip(*rounds, strict=True))
    ratio = statistics.median(shared / plain for plain, shared in rounds)
    verdict = "met" if ratio >= REQUIRED else "NOT met"
    print(f"{CLIENTS} clients as a consumer group: {group_rate:,.0f} records/s of {asked.size} B")
    print(f"{CLIENTS} clients as a share group, each record acknowledged: {share_rate:,.0f} records/s")
    print(f"ratio: {ratio:.0%}, required {REQUIRED:.0%}: {verdict}")
    return EXIT_NOT_MET if asked.check and ratio < REQUIRED else 0


def _fill(address: str, records: int, size: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(_TOPIC, PARTITIONS, 1)])[_TOPIC].result(_TIMEOUT_S)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        producer.produce(_TOPIC, b"x" * size, partition=number % PARTITIONS)
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(_TIMEOUT_S) == 0


def _rate(address: str, kind: str, group: str, records: int) -> float:
    """Records a second of eight clients together, from the first record to the last."""
    if kind == SHARE:
        _begin_at_first(address, group)
    with contextlib.ExitStack() as stack:
        progress: SimpleQueue[tuple[int, int, float, float]] = SimpleQueue()
        clients = [stack.enter_context(_client(address, kind, group, number, progress)) for number in range(CLIENTS)]
        asyncio.run(_all_are_there(address, group))
        for client in clients:
            assert client.stdin is not None
            client.stdin.write("go\n")
            client.stdin.flush()
        counts, first, last = [0] * CLIENTS, float("inf"), 0.0
        deadline = time.monotonic() + _TIMEOUT_S
        while sum(counts) < records:
            assert time.monotonic() < deadline, f"{sum(counts)} of {records} records were read"
            with contextlib.suppress(Empty):
                number, count, began, ended = progress.get(timeout=1)
                counts[number] = count
                first, last = min(first, began), max(last, ended)
    return records / (last - first)


async def _all_are_there(address: str, group: str) -> None:
    """Wait until every client has its partitions."""
    deadline = time.monotonic() + _TIMEOUT_S
    async with Cluster(parse_bootstrap(address), "bench", _TIMEOUT_S) as cluster:
        while True:
            assert time.monotonic() < deadline, f"the group {group} does not settle"
            found = await describe_group(cluster, group, cluster.deadline())
            parts = [len(member.assigned) for member in found.members]
            if parts == [PARTITIONS // CLIENTS] * CLIENTS:
                return
            await asyncio.sleep(0.1)


def _begin_at_first(address: str, group: str) -> None:
    resource = ConfigResource(ConfigResource.Type.GROUP, group)
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(_TIMEOUT_S)


@contextlib.contextmanager
def _client(
    address: str, kind: str, group: str, number: int, progress: SimpleQueue[tuple[int, int, float, float]]
) -> Iterator[subprocess.Popen[str]]:
    """A client process, and a thread that reads its output."""
    line = [sys.executable, "-m", "bench.share_client", address, kind, group, _TOPIC]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def listen() -> None:
            assert process.stdout is not None
            for said in process.stdout:
                count, began, ended = said.split()
                progress.put((number, int(count), float(began), float(ended)))

        listener = Thread(target=listen, name=f"client-{number}", daemon=True)
        listener.start()
        try:
            yield process
        finally:
            process.kill()
            listener.join()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
