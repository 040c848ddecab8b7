"""`python -m bench.client.queues`: our queue consumers beside confluent's share consumer, on one broker and by turns.

Each client accepts every record of the same topic as the only member of a share group, explicitly, and waits after each
poll until the acknowledgements are durable. The clock runs from its first record to its last acknowledgement.

Required: 0.8 of confluent's rate, and of its records per CPU second.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from tools.servers import qanat

from bench.client.bars import Bar, show
from bench.client.queue_client import CONFLUENT, OURS, OURS_SYNC

REQUIRED = 0.8
EXIT_NOT_MET = 1
PARTITIONS = 4
_TIMEOUT_S = 120.0
_TOPIC = "work"


class Figures(NamedTuple):
    """One client in one round."""

    rate: float
    cpu_us: float
    """CPU of the client process for one record, in microseconds."""
    per_poll: float
    """Records of a poll, after which the client waits for its acknowledgements."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench.client.queues", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a record")
    parser.add_argument("--check", action="store_true", help="exit with 1 where the ratio is below what is required")
    asked = parser.parse_args(arguments)
    missed = show(bars(asked.records, asked.rounds, asked.size))
    return EXIT_NOT_MET if asked.check and missed else 0


def bars(records: int, rounds_wanted: int, size: int = 100) -> list[Bar]:
    """Let the clients accept the records of a topic by turns."""
    kinds = (CONFLUENT, OURS, OURS_SYNC)
    rounds: list[dict[str, Figures]] = []
    with tempfile.TemporaryDirectory() as folder, qanat({}).running(Path(folder) / "broker") as broker:
        _fill(broker.address, records, size)
        for number in range(rounds_wanted):
            turn = kinds[number % len(kinds) :] + kinds[: number % len(kinds)]
            rounds.append({kind: _measure(broker.address, kind, f"{kind}-{number}", records) for kind in turn})
    for kind in kinds:
        rate = statistics.median(one[kind].rate for one in rounds)
        cpu_us = statistics.median(one[kind].cpu_us for one in rounds)
        per_poll = statistics.median(one[kind].per_poll for one in rounds)
        print(f"{kind:>10}: {rate:,.0f} records/s of {size} B, {cpu_us:.1f} µs CPU each, {per_poll:,.0f} a poll")
    return [
        Bar(f"{kind} queue: {what} beside confluent's share consumer", ratio, REQUIRED, "at least")
        for kind in (OURS, OURS_SYNC)
        for what, ratio in {
            "rate": statistics.median(one[kind].rate / one[CONFLUENT].rate for one in rounds),
            "records per CPU second": statistics.median(one[CONFLUENT].cpu_us / one[kind].cpu_us for one in rounds),
        }.items()
    ]


def _fill(address: str, records: int, size: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(_TOPIC, PARTITIONS, 1)])[_TOPIC].result(_TIMEOUT_S)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        producer.produce(_TOPIC, b"x" * size, partition=number % PARTITIONS)
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(_TIMEOUT_S) == 0


def _measure(address: str, kind: str, group: str, records: int) -> Figures:
    resource = ConfigResource(ConfigResource.Type.GROUP, group)
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(_TIMEOUT_S)
    line = [sys.executable, "-m", "bench.client.queue_client", address, kind, group, _TOPIC, str(records)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    count, polls, seconds, cpu = done.stdout.split()
    return Figures(int(count) / float(seconds), float(cpu) / int(count) * 1e6, int(count) / int(polls))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
