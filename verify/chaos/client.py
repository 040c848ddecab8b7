"""What every client's process shares: what it is told, how it paces itself, what it reports, the order to finish.

A client reads its orders from standard input: a line, or the end of it, means to finish. Readers are told with it how
far everything acknowledged goes, because a broker that was asked might not know yet. It reports on standard output,
a JSON object a line. It ends with 0 when it has finished; any other end is an anomaly.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

REPORT_S = 0.2
_LEAST_OWED = 100
FINISH_S = 120.0
"""How long after healing everything that was sent must be settled, and readable."""


@dataclass(frozen=True, slots=True)
class Task:
    """A client's command line."""

    name: str
    bootstrap: str
    folder: Path
    topics: dict[str, int]
    """Names, with their number of partitions."""
    rate: int = 0
    """Records a second; for writers."""

    @property
    def writer(self) -> int:
        return int(self.name.rsplit("-", 1)[1])

    def words(self) -> list[str]:
        topics = ",".join(f"{name}:{count}" for name, count in self.topics.items())
        return [self.name, self.bootstrap, str(self.folder), topics, str(self.rate)]

    @staticmethod
    def parse(words: list[str]) -> Task:
        name, bootstrap, folder, topics, rate = words
        pairs = (one.split(":") for one in topics.split(","))
        return Task(name, bootstrap, Path(folder), {topic: int(count) for topic, count in pairs}, int(rate))


class Orders:
    """Whether to finish."""

    def __init__(self) -> None:
        self.ends: dict[str, dict[str, int]] = {}
        """By topic and partition: after the last record that was acknowledged. For readers, once it is over."""
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
    """How many records are due, in runs of so many. A stall of more than a moment is not made up for."""

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


class Reports:
    """Counts of what was acknowledged, told now and then; and what should not have happened, told at once."""

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
        """Something was acknowledged just now."""
        now_s = time.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now_s - self._last_s)
        self._last_s = now_s
        self.acknowledged += records

    def tell_now_and_then(self) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + REPORT_S
            self.tell(acknowledged=self.acknowledged, gap_s=round(self.longest_gap_s, 3))

    def tell_in_the_end(self) -> None:
        self.tell(acknowledged=self.acknowledged, gap_s=round(self.longest_gap_s, 3), ends=self._ends)

    def tell(self, **facts: object) -> None:
        print(json.dumps(facts), flush=True)
