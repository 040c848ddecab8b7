"""Checks of the workers' journals and of the dead-letter topic.

A worker that was killed between `doing` and `done` leaves it open whether the broker got its acknowledgement: the
record is neither certainly accepted nor lost, as long as it certainly ends in at most one place.

A worker that slept through its lock acknowledges too late: another worker had the record meanwhile. Where that one has
settled it, and all earlier records are settled as well, the broker has nothing left to refuse, and ignores the late
acknowledgement, as Kafka does. So an acknowledgement of an attempt that another one has followed does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from verify.share_queue.worker import ACCEPT, REJECT, RELEASE, verdict_on


@dataclass(frozen=True, slots=True)
class Event:
    """A line of a journal."""

    worker: str
    what: str
    record: int
    detail: str
    at_s: float


def read_journal(worker: str, text: str) -> list[Event]:
    """The events of one worker; a torn last line is ignored."""
    events = []
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            what, record, detail, at_s = line.split()
            events.append(Event(worker, what, int(record), detail, float(at_s)))
    return events


@dataclass
class Judgement:
    """All evidence, and its checks."""

    records: int
    limit: int
    """The delivery count limit of a record."""
    lock_s: float
    events: list[Event]
    killed_s: Mapping[str, float]
    """When workers were killed."""
    letters: Counter[int] = field(default_factory=Counter)
    letters_may_repeat: bool = False
    """Where the broker was killed: a letter is written before the record is archived."""

    def problems(self) -> list[str]:
        done = self._certain()
        found = {
            "accepted twice": [one for one, verdicts in done.items() if verdicts.count(ACCEPT) > 1],
            "accepted and a dead letter": [one for one in self.letters if ACCEPT in done.get(one, [])],
            "lost": [one for one in range(self.records) if not self._is_accounted_for(one, done)],
            "a dead letter that is none": [one for one in self.letters if verdict_on(one) == ACCEPT],
            "not a dead letter": [one for one in range(self.records) if self._should_be_dead(one)],
            "a dead letter twice": [
                one for one, count in self.letters.items() if count > 1 and not self.letters_may_repeat
            ],
            "delivered too often": self._delivered_too_often(),
            "held by two at once": list(self._doubly_held()),
        }
        return [f"{len(rows)} {what}, first {min(rows)}" for what, rows in found.items() if rows]

    def _certain(self) -> dict[int, list[str]]:
        """The acknowledgements of each record, without late ones."""
        done: dict[int, list[str]] = {}
        for event in self.events:
            if event.what == "done" and not self._is_late(event):
                done.setdefault(event.record, []).append(event.detail)
        return done

    def _is_late(self, done: Event) -> bool:
        got = self._deliveries[done.record]
        own = max(int(one.detail) for one in got if one.worker == done.worker and one.at_s <= done.at_s)
        return any(int(one.detail) > own and one.at_s < done.at_s for one in got)

    @cached_property
    def _deliveries(self) -> dict[int, list[Event]]:
        found: dict[int, list[Event]] = {}
        for event in self.events:
            if event.what == "got":
                found.setdefault(event.record, []).append(event)
        return found

    def late_acknowledgements(self) -> int:
        """How many acknowledgements came too late."""
        return sum(event.what == "lost" or (event.what == "done" and self._is_late(event)) for event in self.events)

    def _is_accounted_for(self, record: int, done: Mapping[int, list[str]]) -> bool:
        if ACCEPT in done.get(record, []) or record in self.letters:
            return True
        return any(one.what == "doing" and one.record == record and one.detail == ACCEPT for one in self.events)

    def _should_be_dead(self, record: int) -> bool:
        return verdict_on(record) in (RELEASE, REJECT) and record not in self.letters

    def _delivered_too_often(self) -> list[int]:
        """By the broker's own count; a killed broker does not remember deliveries in progress."""
        return [one.record for one in self.events if one.what == "got" and int(one.detail) > self.limit]

    def _doubly_held(self) -> Iterable[int]:
        """A worker whose acknowledgement counts had the lock all the while: no other one may have got the record."""
        began: dict[tuple[str, int], float] = {}
        acknowledged: dict[tuple[str, int], float] = {}
        for event in self.events:
            key = (event.worker, event.record)
            if event.what == "got":
                began[key] = event.at_s
            elif event.what == "doing":
                acknowledged[key] = event.at_s
            elif event.what == "done" and not self._is_late(event):
                others = (one for one in self._deliveries[event.record] if one.worker != event.worker)
                if any(began[key] < one.at_s < acknowledged[key] for one in others):
                    yield event.record

    def longest_wait_s(self) -> float:
        """The longest time from a delivery to a killed worker to the next delivery: the lock and a fetch at most."""
        last = {(one.worker, one.record): one for one in self.events}
        waits = [0.0]
        for (worker, record), event in last.items():
            if worker in self.killed_s and event.what == "got":
                later = [one.at_s for one in self._deliveries[record] if one.at_s > event.at_s]
                waits += [min(later) - event.at_s] if later else []
        return max(waits)
