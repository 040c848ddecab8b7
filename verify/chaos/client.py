"""The parts that all client processes share: command line, pacing, reports, the order to finish.

A client reads its orders from standard input: a line, or the end of the stream, means to finish. For consumers the line
names the acknowledged end offsets, because a broker might not know them yet. It reports on standard output, a JSON
object a line. It exits with 0 when it has finished; any other exit is an anomaly.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Message

REPORT_S = 0.2
_LEAST_OWED = 100
FINISH_S = 120.0
"""How long after healing every sent record must be settled and readable."""


@dataclass(frozen=True, slots=True)
class Task:
    """A client's command line."""

    name: str
    bootstrap: str
    folder: Path
    topics: dict[str, int]
    """Names, with their number of partitions."""
    rate: int = 0
    """Records a second; for producers."""

    @property
    def writer(self) -> int:
        return int(self.name.rsplit("-", 1)[1])

    def arguments(self) -> list[str]:
        topics = ",".join(f"{name}:{count}" for name, count in self.topics.items())
        return [self.name, self.bootstrap, str(self.folder), topics, str(self.rate)]

    @staticmethod
    def parse(words: list[str]) -> Task:
        name, bootstrap, folder, topics, rate = words
        pairs = (one.split(":") for one in topics.split(","))
        return Task(name, bootstrap, Path(folder), {topic: int(count) for topic, count in pairs}, int(rate))


class Orders:
    """The order to finish, read from standard input."""

    def __init__(self) -> None:
        self.ends: dict[str, dict[str, int]] = {}
        """The acknowledged end offsets, by topic and partition; for consumers, once they should finish."""
        self._finish = threading.Event()
        threading.Thread(target=self._listen, name="orders", daemon=True).start()

    def _listen(self) -> None:
        line = sys.stdin.readline()
        self.ends = json.loads(line) if line.strip() else {}
        self._finish.set()

    @property
    def is_over(self) -> bool:
        return self._finish.is_set()


class Pace:
    """The number of records that are due, in multiples of a run. Records of a long stall are not sent later."""

    def __init__(self, rate: int, run: int) -> None:
        self._rate, self._run = rate, run
        self._owed = 0.0
        self._last_s = time.monotonic()

    def due(self) -> int:
        now_s = time.monotonic()
        self._owed = min(self._owed + (now_s - self._last_s) * self._rate, max(self._rate * 0.5, _LEAST_OWED))
        self._last_s = now_s
        return int(self._owed) // self._run * self._run

    def sent(self, count: int) -> None:
        self._owed -= count


def acknowledged_offset(message: Message) -> int:
    """Where an acknowledged record is; -1 where librdkafka does not know.

    It takes a batch as written where the answer was lost and a later batch of the partition is acknowledged.
    """
    offset = message.offset()
    return -1 if offset is None else offset


class Reports:
    """Reports of a client: counts periodically, notes and anomalies at once."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self._ends: dict[int, int] = {}
        self.longest_gap_s = 0.0
        self._last_s = time.monotonic()
        self._next_s = 0.0

    def reach(self, partition: int, offset: int) -> None:
        """A record was acknowledged at this offset."""
        self._ends[partition] = max(self._ends.get(partition, 0), offset + 1)

    def count(self, records: int) -> None:
        """So many records were acknowledged just now."""
        now_s = time.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now_s - self._last_s)
        self._last_s = now_s
        self.acknowledged += records

    def send_periodically(self) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + REPORT_S
            self.send(acknowledged=self.acknowledged, gap_s=round(self.longest_gap_s, 3))

    def send_final(self) -> None:
        self.send(acknowledged=self.acknowledged, gap_s=round(self.longest_gap_s, 3), ends=self._ends)

    def send(self, **facts: object) -> None:
        print(json.dumps(facts), flush=True)
