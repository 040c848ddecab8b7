"""The judgement on an app under fire. Pure: the evidence is a value.

Rule 1: nothing is lost: every record ends, or is a dead letter where its handler fails for good.
Rule 2: with exactly_once, readers of committed records find every result and every dead letter once, in the order of
        its key.
Rule 3: a record begins only when all earlier ones of its key have ended, or were given up, in whatever worker.
Rule 4: below an offset that was seen committed, every record had ended or was given up by then.
Rule 5: what has ended runs again only where it could not be committed before its partition was taken away, by a kill,
        a freeze or a rebalance: an earlier record of the partition had not ended, or a broker was killed; or in a
        worker that was frozen, and holds it still. An end counts in the worker that has the record. And no
        record begins below an offset that was seen committed, but in a worker that was frozen.
Rule 6: no record is run by two workers at once, unless the first was killed or frozen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from verify.app_fire.journal import BEGIN, END, FAILED, Event

Place = tuple[int, int]
"""Partition and offset."""
COMMIT_S = 2.0
"""How long a commit may take on a busy machine; handlers commit five times a second."""
PROCESS_S = 1.0
"""A handler's process ends a record, of those that it has, for so long after its worker was frozen or killed."""
OUTAGE_S = 20.0
"""For so long after the kill of a broker, commits may fail; longer where none is seen to succeed."""
REASON_S = 30.0
"""For so long after a fault its effect may appear: a client that lost its broker, a worker that was frozen."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as readers of committed records find it."""

    partition: int
    offset: int
    number: int
    key: str


@dataclass(frozen=True, slots=True)
class Seen:
    """A group's committed offset, as another client saw it at a time."""

    group: str
    partition: int
    offset: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Handled:
    """What one handler had to do."""

    name: str
    source: str
    """The topic that it reads."""
    letters: str = ""
    """Its dead-letter topic."""
    results: str = ""
    """Where its results are, exactly once."""
    is_ordered: bool = True
    """Whether keys have an order: not in queues."""


@dataclass
class Evidence:
    """Everything that was noted and read."""

    handlers: Sequence[Handled]
    attempts: int
    """After so many a record is given up."""
    is_broken: Callable[[int], bool]
    """Whether a record of a number fails for good."""
    events: Sequence[Event]
    topics: Mapping[str, Sequence[Stored]]
    seen: Sequence[Seen] = ()
    killed_s: Mapping[int, float] = field(default_factory=dict)
    """When workers were killed."""
    frozen_s: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """When workers were frozen."""
    broker_killed_s: Sequence[float] = ()

    def problems(self) -> list[str]:
        """One sentence for each kind of problem of each handler; none where all is well."""
        return [
            f"{handled.name}: {len(numbers)} {what}, first {min(numbers)}"
            for handled in self.handlers
            for what, numbers in Judgement(self, handled).found().items()
            if numbers
        ]

    def repeated(self, name: str) -> int:
        """How many records ended more than once."""
        ended = Counter(one.number for one in self.events if one.handler == name and one.what == END)
        return sum(count > 1 for count in ended.values())


class Judgement:
    """The checks of one handler."""

    def __init__(self, evidence: Evidence, handled: Handled) -> None:
        self._evidence, self._handled = evidence, handled
        self._events = sorted(
            (one for one in evidence.events if one.handler == handled.name), key=lambda event: event.at_s
        )
        self._source = evidence.topics[handled.source]

    def found(self) -> dict[str, list[int]]:
        """Numbers of records by what is wrong with them."""
        found = {
            "lost": self._lost(),
            "not a dead letter": self._missing_letters(),
            "a dead letter without a reason": self._wrong_letters(),
            "run again without a reason": list(self._run_again()),
            "run by two workers at once": list(self._run_by_two()),
        }
        if self._handled.is_ordered:
            found["begun before an earlier record of its key had ended"] = list(self._begun_early())
            found["committed before it had ended"] = list(self._committed_early())
            found["begun after it was committed"] = list(self._begun_late())
        if self._handled.results:
            found |= self._results()
        return found

    # Rule 1

    def _lost(self) -> list[int]:
        ended = {one.number for one in self._events if one.what == END}
        is_broken = self._evidence.is_broken
        return [one.number for one in self._source if one.number not in ended and not self._may_fail(is_broken, one)]

    def _may_fail(self, is_broken: Callable[[int], bool], one: Stored) -> bool:
        return bool(self._handled.letters) and is_broken(one.number)

    def _letters(self) -> Counter[int]:
        return Counter(one.number for one in self._evidence.topics.get(self._handled.letters, ()))

    def _missing_letters(self) -> list[int]:
        letters, is_broken = self._letters(), self._evidence.is_broken
        return [one.number for one in self._source if self._may_fail(is_broken, one) and one.number not in letters]

    def _wrong_letters(self) -> list[int]:
        return [number for number in self._letters() if not self._evidence.is_broken(number)]

    # Rule 2

    def _results(self) -> dict[str, list[int]]:
        rows = self._evidence.topics[self._handled.results]
        counts, letters = Counter(one.number for one in rows), self._letters()
        wanted = [one.number for one in self._source if not self._may_fail(self._evidence.is_broken, one)]
        return {
            "without a result": [number for number in wanted if not counts[number]],
            "with two results": [number for number, count in counts.items() if count > 1],
            "a dead letter twice": [number for number, count in letters.items() if count > 1],
            "a result before an earlier one of its key": list(_out_of_order(rows)),
        }

    # Rules 3 and 4

    @cached_property
    def _done_s(self) -> dict[Place, float]:
        """When a record had ended, or was given up, for the first time."""
        done: dict[Place, float] = {}
        for event in self._events:
            if self._is_done(event):
                done.setdefault((event.partition, event.offset), event.at_s)
        return done

    def _is_done(self, event: Event) -> bool:
        """Whether the record has ended, or is given up."""
        return event.what == END or (event.what == FAILED and event.attempt >= self._evidence.attempts)

    def _begun_early(self) -> Iterator[int]:
        earlier: dict[Place, Place] = {}
        keys: dict[tuple[int, str], list[Place]] = defaultdict(list)
        for row in self._source:
            keys[row.partition, row.key].append((row.partition, row.offset))
        for places in keys.values():
            earlier |= {second: first for first, second in pairwise(sorted(places))}
        for event in self._events:
            before = earlier.get((event.partition, event.offset))
            if event.what == BEGIN and before and self._done_s.get(before, float("inf")) > event.at_s:
                yield event.number

    def _committed_early(self) -> Iterator[int]:
        commits = self._first_commits()
        for row in self._source:
            committed_s = commits[row.partition].first_past(row.offset)
            if committed_s < self._done_s.get((row.partition, row.offset), float("inf")):
                yield row.number

    def _first_commits(self) -> dict[int, _Commits]:
        found: dict[int, _Commits] = defaultdict(_Commits)
        for one in sorted(self._evidence.seen, key=lambda seen: seen.at_s):
            if one.group == self._handled.name:
                found[one.partition].note(one)
        return found

    # Rules 5 and 6

    def _begun_late(self) -> Iterator[int]:
        commits = self._first_commits()
        for event in self._events:
            if event.what != BEGIN or event.worker in self._evidence.frozen_s:
                continue
            if commits[event.partition].first_past(event.offset) < event.at_s:
                yield event.number

    def _run_again(self) -> Iterator[int]:
        ended: dict[Place, tuple[Event, _Ownership]] = {}
        owners: dict[int, _Ownership] = {}
        holders: dict[Place, int] = {}
        for event in self._events:
            place = (event.partition, event.offset)
            owner = owners.get(event.partition)
            if event.what == BEGIN:
                holders[place] = event.worker
                if owner is None or not owner.has_begun(event) or not self._handled.is_ordered:
                    owner = owners[event.partition] = _Ownership(event)
                if place in ended:
                    if not self._was_frozen(event) and not self._was_too_late(*ended[place], owner.since_s):
                        yield event.number
                    # It has to end once more: until then it may run again for another reason.
                    del ended[place]
            elif owner is not None and self._is_done(event):
                owner.note_done(event)
                # An end in a worker that has lost the record is none: it cannot commit it. The one that has it may be
                # killed before its own end, and then the record runs again.
                if event.what == END and holders.get(place) == event.worker:
                    ended[place] = event, owner

    def _was_frozen(self, event: Event) -> bool:
        """Whether the worker may begin with what it held when it was frozen, and others have ended since."""
        return any(0 <= event.at_s - one <= REASON_S for one in self._evidence.frozen_s.get(event.worker, ()))

    def _was_too_late(self, ended: Event, owner: _Ownership, since_s: float) -> bool:
        """Whether a record that had ended could not be committed before another took its partition."""
        evidence = self._evidence
        taken = [*evidence.frozen_s.get(ended.worker, ()), evidence.killed_s.get(ended.worker, since_s)]
        taken_s = min([since_s, *(one for one in taken if one >= ended.at_s - PROCESS_S)])
        if any(killed_s <= taken_s <= self._outage_end_s(killed_s) for killed_s in evidence.broker_killed_s):
            return True
        could_s = ended.at_s
        if self._handled.is_ordered:
            could_s = owner.committable_s(self._offsets[ended.partition], ended.offset)
        return taken_s <= could_s + COMMIT_S

    def _outage_end_s(self, killed_s: float) -> float:
        """Until when commits may fail after the kill of a broker: at least until the group is seen to commit again.

        Nobody sees what a queue's group commits: then until all other groups do.
        """
        name = self._handled.name
        groups = [name] if name in self._commits_s else list(self._commits_s)
        again_s = [next((at for at in self._commits_s[group] if at > killed_s), float("inf")) for group in groups]
        return max([killed_s + OUTAGE_S, *(one + COMMIT_S for one in again_s)])

    @cached_property
    def _commits_s(self) -> dict[str, list[float]]:
        """When each group was seen to commit: an offset is higher than before."""
        highest: dict[tuple[str, int], int] = {}
        found: dict[str, list[float]] = defaultdict(list)
        for one in sorted(self._evidence.seen, key=lambda seen: seen.at_s):
            if one.offset > highest.get((one.group, one.partition), -1):
                highest[one.group, one.partition] = one.offset
                found[one.group].append(one.at_s)
        return dict(found)

    @cached_property
    def _offsets(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for row in self._source:
            found[row.partition].append(row.offset)
        return {partition: sorted(offsets) for partition, offsets in found.items()}

    def _run_by_two(self) -> Iterator[int]:
        running: dict[Place, Event] = {}
        for event in self._events:
            place = (event.partition, event.offset)
            if event.what != BEGIN:
                if place in running and running[place].worker == event.worker:
                    del running[place]
                continue
            first = running.get(place)
            if first is not None and first.worker != event.worker and not self._has_reason(first, event):
                yield event.number
            running[place] = event

    def _has_reason(self, first: Event, second: Event) -> bool:
        """Whether something happened to the first worker, or to a broker, before the second took the record."""
        evidence = self._evidence
        causes = [*evidence.broker_killed_s, *evidence.frozen_s.get(first.worker, ())]
        if first.worker in evidence.killed_s:
            causes.append(evidence.killed_s[first.worker])
        return any(cause_s <= second.at_s and cause_s >= first.at_s - REASON_S for cause_s in causes)


class _Ownership:
    """A worker's time with a partition, from its first record on."""

    def __init__(self, first: Event) -> None:
        self._worker = first.worker
        self._begun = {(first.offset, first.attempt)}
        self._done_s: dict[int, float] = {}
        self.since_s = first.at_s

    def has_begun(self, event: Event) -> bool:
        """Whether the worker begins this record in the same time; not where it had begun it before."""
        is_new = (event.offset, event.attempt) not in self._begun
        self._begun.add((event.offset, event.attempt))
        return is_new and event.worker == self._worker

    def note_done(self, event: Event) -> None:
        """A record has ended; in another worker it does not count."""
        if event.worker == self._worker:
            self._done_s[event.offset] = event.at_s

    def committable_s(self, offsets: Sequence[int], last: int) -> float:
        """From when on the worker could commit past `last`: all that it began with, up to there, had ended."""
        first = min(offset for offset, _ in self._begun)
        return max(self._done_s.get(one, float("inf")) for one in offsets if first <= one <= last)


class _Commits:
    """Committed offsets of one partition as they were seen, in the order of time."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, float]] = []

    def note(self, seen: Seen) -> None:
        if not self._rows or seen.offset > self._rows[-1][0]:
            self._rows.append((seen.offset, seen.at_s))

    def first_past(self, offset: int) -> float:
        """When an offset past this one was seen first; infinite where none was."""
        index = bisect_right(self._rows, offset, key=lambda row: row[0])
        return self._rows[index][1] if index < len(self._rows) else float("inf")


def _out_of_order(rows: Iterable[Stored]) -> Iterator[int]:
    last: dict[str, int] = {}
    for row in sorted(rows, key=lambda one: (one.partition, one.offset)):
        if row.number < last.get(row.key, -1):
            yield row.number
        last[row.key] = row.number
