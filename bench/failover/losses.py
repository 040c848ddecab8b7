"""A leader goes under steady writes: how long nothing of its partition is acknowledged, and what the writer hears."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from confluent_kafka.admin._metadata import ClusterMetadata
from tools.brokers import BrokerProcesses
from tools.clients import SteadyWriter, read_all

_TOPIC = "steady"
_BROKERS = 3
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Losses:
    """What was seen in all tries."""

    gaps_s: tuple[float, ...]
    """The longest time between two acknowledgements of a partition, of each try."""
    acknowledged: int
    missing: int
    """Acknowledged, and not there at the end."""
    errors: int
    """Messages that the writer was told had failed."""

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
    """The smallest value that so many are not above."""
    ordered = sorted(values)
    place = max(-(-len(ordered) * round(share * 1000) // 1000) - 1, 0)
    return ordered[min(place, len(ordered) - 1)]


def _is_spread(seen: ClusterMetadata) -> bool:
    return len({one.leader for one in seen.topics[_TOPIC].partitions.values()}) == _BROKERS


def measure(tries: int, tell: Tell, *, is_killed: bool) -> Losses:
    """Let the leader go again and again, one broker at a time; it is back and in sync before the next one goes."""
    how = "killed" if is_killed else "stopped"
    gaps: list[float] = []
    # Leaders go back at once, so that the writer has to do with every broker before one of them goes: a client that was
    # refused by a broker for some seconds lets it alone for as long again.
    settings = {"leader.imbalance.check.interval.seconds": "1"}
    with tempfile.TemporaryDirectory() as folder, BrokerProcesses(Path(folder), settings=settings) as brokers:
        brokers.create(_TOPIC, _BROKERS)
        with SteadyWriter(brokers.bootstrap, _TOPIC, _BROKERS) as writer:
            for number in range(tries):
                brokers.until_in_sync(_TOPIC)
                brokers.until(_is_spread, "every broker leads a partition")
                writer.wait_for_more(600)
                leader = number % _BROKERS
                gone = time.monotonic()
                if is_killed:
                    brokers.kill(leader)
                else:
                    brokers.stop(leader)
                writer.wait_for_more(600)
                gaps.append(writer.longest_gap_s(gone))
                tell(f"{how} {number + 1} of {tries}: broker {leader}, {gaps[-1]:.2f} s")
                brokers.start(leader)
        values = writer.values()
        seen = set(read_all(brokers.bootstrap, _TOPIC, len(values)))
    return Losses(tuple(gaps), len(values), len(set(values) - seen), len(writer.errors))
