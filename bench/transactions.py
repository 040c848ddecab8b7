"""`python -m bench.transactions`: the cost of commits every 100 ms for a producer, compared with no transactions.

The same client, records and topic, by turns in the same run; the ratio is taken within the round.

Required: 80 % of the plain idempotent producer's throughput.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tools.servers import qanat

COMMIT_S = 0.1
REQUIRED = 0.8
PARTITIONS = 4
EXIT_NOT_MET = 1
_TIMEOUT_S = 60.0
_TOPIC = "load"
_OPTIONS = {"enable.idempotence": True, "linger.ms": 5, "queue.buffering.max.messages": 200_000}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench.transactions", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each producer in each round")
    parser.add_argument("--size", type=int, default=1_000, help="bytes of a record")
    parser.add_argument("--check", action="store_true", help="exit with 1 where the ratio is below what is required")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, qanat().running(Path(folder) / "broker") as broker:
        _make_topic(broker.address)
        _load(broker.address, asked.size, min(asked.seconds, 1.0), None)
        rounds = []
        for number in range(asked.rounds):
            plain = _load(broker.address, asked.size, asked.seconds, None)
            rounds.append((plain, _load(broker.address, asked.size, asked.seconds, f"bench-{number}")))
    plain_rate, rate = (statistics.median(rates) for rates in zip(*rounds, strict=True))
    ratio = statistics.median(in_transactions / alone for alone, in_transactions in rounds)
    verdict = "met" if ratio >= REQUIRED else "NOT met"
    print(f"plain idempotent: {plain_rate:,.0f} records/s of {asked.size} B")
    print(f"with commits every {COMMIT_S * 1000:.0f} ms: {rate:,.0f} records/s")
    print(f"ratio: {ratio:.0%}, required {REQUIRED:.0%}: {verdict}")
    return EXIT_NOT_MET if asked.check and ratio < REQUIRED else 0


def _make_topic(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(_TOPIC, PARTITIONS, 1)])[_TOPIC].result(_TIMEOUT_S)


def _load(address: str, size: int, seconds: float, transactional_id: str | None) -> float:
    """Records a second, from the first to the last that is acknowledged and committed."""
    identity = {} if transactional_id is None else {"transactional.id": transactional_id}
    producer, value, count = Producer({"bootstrap.servers": address, **_OPTIONS, **identity}), b"x" * size, 0
    if transactional_id is not None:
        producer.init_transactions(_TIMEOUT_S)
        producer.begin_transaction()
    began = committed = time.perf_counter()
    while (now := time.perf_counter()) - began < seconds:
        for _ in range(200):
            try:
                producer.produce(_TOPIC, value)
                count += 1
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
        if transactional_id is not None and now - committed >= COMMIT_S:
            producer.commit_transaction(_TIMEOUT_S)
            producer.begin_transaction()
            committed = time.perf_counter()
    if transactional_id is not None:
        producer.commit_transaction(_TIMEOUT_S)
    assert producer.flush(_TIMEOUT_S) == 0
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
