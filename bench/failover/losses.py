"""The loss of a leader under steady writes: the longest gap between acknowledgements, and the writer's errors."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tools.brokers import BrokerProcesses
from tools.clients import SteadyWriter, read_all

from bench.clusters import kafka_node

_TOPIC = "steady"

_REST_S = 11.0
"""For up to ten seconds a client does not reconnect to a broker that refused it (librdkafka's
reconnect.backoff.max.ms): the next leader must be one that the client talks to."""
Show = Callable[[str], None]
Cluster = Callable[[Path], BrokerProcesses]


@dataclass(frozen=True, slots=True)
class Losses:
    """The results of all tries."""

    gaps_s: tuple[float, ...]
    """The longest time between two acknowledgements of a partition, of each try."""
    acknowledged: int
    missing: int
    """Acknowledged messages that are missing at the end."""
    errors: int
    """Messages that failed for the writer."""

    @property
    def typical_s(self) -> float:
        return median(self.gaps_s)

    @property
    def p99_s(self) -> float:
        return quantile(self.gaps_s, 0.99)

    @property
    def worst_s(self) -> float:
        return max(self.gaps_s)


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile: the smallest value that this share of values does not exceed."""
    ordered = sorted(values)
    place = max(-(-len(ordered) * round(share * 1000) // 1000) - 1, 0)
    return ordered[min(place, len(ordered) - 1)]


def of_qanat(folder: Path) -> BrokerProcesses:
    return BrokerProcesses(folder)


def of_kafka(jars: Path) -> Cluster:
    """Three nodes of Kafka with its defaults, each broker and controller."""

    def command(brokers: BrokerProcesses, node_id: int) -> Sequence[str]:
        return kafka_node(jars, brokers.folder, node_id, brokers.ports, brokers.inter_broker_ports)

    return lambda folder: BrokerProcesses(folder, command=command)


def measure(tries: int, show: Show, *, is_killed: bool, cluster: Cluster = of_qanat, name: str = "Qanat") -> Losses:
    """Kill or stop the leader again and again, one broker at a time; it is in sync again before the next one."""
    how = "killed" if is_killed else "stopped"
    gaps: list[float] = []
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as brokers:
        brokers.create(_TOPIC, 1, 3, **{"min.insync.replicas": "2"})
        with SteadyWriter(brokers.bootstrap, _TOPIC) as writer:
            for number in range(tries):
                brokers.until_in_sync(_TOPIC)
                if not is_killed and number:
                    time.sleep(_REST_S)
                writer.wait_for_more(200)
                leader = brokers.look(_TOPIC).topics[_TOPIC].partitions[0].leader
                gone = time.monotonic()
                if is_killed:
                    brokers.kill(leader)
                else:
                    brokers.stop(leader)
                writer.wait_for_more(200)
                gaps.append(writer.longest_gap_s(gone))
                show(f"{name}, {how} {number + 1} of {tries}: broker {leader}, {gaps[-1]:.2f} s")
                brokers.start(leader)
        values = writer.values()
        seen = set(read_all(brokers.bootstrap, _TOPIC, len(values)))
    return Losses(tuple(gaps), len(values), len(set(values) - seen), len(writer.errors))
