"""Random histories of a share partition on its ledger: members, clocks, holes, slow disks, crashes in every state."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from qanat.groups.share.partition import (
    Acknowledgement,
    AcquiredRange,
    ArchivingRange,
    Change,
    Read,
    SharePartition,
    Span,
    Take,
)
from qanat.groups.share.record_states import AcknowledgeType, RecordState
from qanat.groups.share.rules import ShareRules
from qanat.groups.share.state_codec import decode_record, encode_record
from qanat.groups.share.state_records import LedgerRecord, ShareKey
from qanat.groups.share.state_shard import BeginState, ShareStateShard, WriteState
from qanat.model.clock import Now
from qanat.model.error_codes import ErrorCode

SEEDS = 60
STEPS = 160
KEY = ShareKey("g", bytes(16), 0)
LIMIT = 3
LOCK_MS = 100
MEMBERS = ("a", "b", "c")
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


@dataclass
class Fate:
    """The model of one record, from what members received and were answered."""

    holder: str = ""
    until_ms: int = 0
    deliveries: int = 0
    is_accepted: bool = False
    """And the member got that answer."""
    is_buried: bool = False


@dataclass
class Bench:
    """A share partition, its ledger, the log under both, and a disk that is behind."""

    random: Random
    now_ms: int = 0
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    durable: int = 0
    waiting: list[tuple[int, Change, list[int]]] = field(default_factory=list)
    """Changes that are not durable yet: up to where the log must be, and which records were accepted by them."""
    fates: dict[int, Fate] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.has_letters = self.random.random() < 0.5
        self.rules = ShareRules(
            LOCK_MS,
            LIMIT,
            max_record_locks=self.random.choice((5, 30)),
            backoff_ms=self.random.choice((0, 10)),
            backoff_max_ms=40,
            has_dead_letters=self.has_letters,
        )
        self.load()

    # The world

    def write_log(self) -> None:
        """A batch, a marker, or a hole that compaction left."""
        first = self.spans[-1].last_offset + 1 if self.spans else 0
        size = self.random.randint(1, 6)
        kind = self.random.random()
        if kind < 0.15:
            first += self.random.randint(1, 3)
        self.spans.append(Span(first, first + size - 1, is_wanted=kind < 0.85))
        if kind < 0.85:
            for offset in range(first, first + size):
                self.fates[offset] = Fate()

    def load(self) -> None:
        """Read what is durable, as after a crash."""
        self.shard = ShareStateShard(self.random.choice((0, 2, 20)))
        for key, value in self.log:
            record = decode_record(key, value)
            assert record is not None
            self.shard.apply(record)
        state = self.decide(BeginState(KEY, 0, 0)).state
        assert state is not None
        self.durable = len(self.log)
        self.share = SharePartition(state.start_offset, self.rules, state.batches)
        self.letters = list(self.share.archiving())

    def decide(self, request: Any) -> Any:
        decision = self.shard.decide(request, Now(self.now_ms, self.now_ms))
        self.log += [encode_record(record) for record in decision.records]
        return decision.reply

    def crash(self) -> None:
        self.seen["crash"] += 1
        self.seen["crash with answers outstanding"] += bool(self.waiting)
        kept = self.random.randint(self.durable, len(self.log))
        del self.log[kept:]
        self.waiting.clear()
        for fate in self.fates.values():
            fate.holder = ""
        self.load()

    def flush(self) -> None:
        self.durable = len(self.log)
        for _, change, accepted in self.waiting:
            for offset in accepted:
                self.fates[offset].is_accepted = True
            self.letters += change.archiving
        self.waiting.clear()

    def take(self, change: Change | ErrorCode | None, accepted: list[int] | None = None) -> None:
        """Write a change; it is not answered yet."""
        if isinstance(change, Change):
            reply = self.decide(WriteState(KEY, 0, 0, change.start_offset, change.batches))
            assert reply.error is ErrorCode.NONE
            self.waiting.append((len(self.log), change, accepted or []))

    # What members do

    def fetch(self) -> None:
        offset = self.share.next_fetch_offset(self.now_ms)
        end = self.spans[-1].last_offset + 1 if self.spans else 0
        if offset is None or offset >= end:
            return
        spans = [span for span in self.spans if span.last_offset >= offset][: self.random.randint(1, 4)]
        member = self.random.choice(MEMBERS)
        read = Read(offset, spans, spans[-1].last_offset + 1)
        take = Take(self.random.randint(1, 12), self.random.randint(1, 5), self.random.random() < 0.3)
        for acquired in self.share.acquire(member, read, take, self.now_ms):
            self.hold(member, acquired)

    def hold(self, member: str, acquired: AcquiredRange) -> None:
        for offset in range(acquired.first_offset, acquired.last_offset + 1):
            fate = self.fates.get(offset)
            assert fate is not None, f"{offset} is no record"
            assert not fate.holder, f"{offset} is held by {fate.holder}"
            assert not fate.is_accepted, f"{offset} was accepted"
            assert not fate.is_buried, f"{offset} lies in the dead-letter topic"
            fate.deliveries += 1
            assert acquired.delivery_count <= fate.deliveries
            assert acquired.delivery_count <= LIMIT
            fate.holder, fate.until_ms = member, self.now_ms + LOCK_MS
            self.seen["delivery" if acquired.delivery_count == 1 else "redelivery"] += 1

    def speak(self) -> None:
        member = self.random.choice(MEMBERS)
        held = [offset for offset, fate in self.fates.items() if fate.holder == member]
        if not held:
            return
        first = self.random.choice(held)
        last = first
        while last + 1 in self.fates and self.fates[last + 1].holder == member and self.random.random() < 0.8:
            last += 1
        kinds = self.random.choices((ACCEPT, RELEASE, REJECT), (6, 3, 1), k=last - first + 1)
        change = self.share.acknowledge(member, [Acknowledgement(first, last, kinds)], self.now_ms)
        assert isinstance(change, Change), change
        accepted = [first + number for number, kind in enumerate(kinds) if kind is ACCEPT]
        for offset in range(first, last + 1):
            self.fates[offset].holder = ""
        self.take(change, accepted)

    def speak_out_of_turn(self) -> None:
        """An acknowledgement of records of other members, or of none: all of it is refused."""
        member = self.random.choice(MEMBERS)
        others = [offset for offset, fate in self.fates.items() if fate.holder not in ("", member)]
        if others:
            before = self.share.runs()
            said = [Acknowledgement(others[0], others[0], [ACCEPT])]
            assert self.share.acknowledge(member, said, self.now_ms) is ErrorCode.INVALID_RECORD_STATE
            assert self.share.runs() == before
            self.seen["refused"] += 1

    def leave(self) -> None:
        member = self.random.choice(MEMBERS)
        self.take(self.share.release_member(member, self.now_ms, is_attempt=self.random.random() < 0.5))
        for fate in self.fates.values():
            if fate.holder == member:
                fate.holder = ""

    def pass_time(self) -> None:
        self.now_ms += self.random.choice((1, 10, 60))
        if self.share.next_deadline_ms is not None and self.share.next_deadline_ms <= self.now_ms:
            self.take(self.share.tick(self.now_ms))
        for offset, fate in self.fates.items():
            if fate.holder and fate.until_ms <= self.now_ms:
                fate.holder = ""
                self.seen["timeout"] += 1
                assert all(
                    batch.state is not RecordState.ACQUIRED
                    for batch, _ in self.share.runs()
                    if batch.first_offset <= offset <= batch.last_offset
                ), f"{offset} is held longer than its lock"

    def bury(self) -> None:
        """The dead-letter topic has taken some."""
        if self.letters:
            letter: ArchivingRange = self.letters.pop(0)
            for offset in range(letter.first_offset, letter.last_offset + 1):
                self.fates[offset].is_buried = True
                self.seen["dead letter"] += 1
            self.take(self.share.finish_archiving(letter.first_offset, letter.last_offset))

    def check(self) -> None:
        runs = [batch for batch, _ in self.share.runs()]
        assert [run.first_offset for run in runs[1:]] == [run.last_offset + 1 for run in runs[:-1]]
        assert self.share.start_offset == (runs[0].first_offset if runs else self.share.end_offset)
        held = {offset for offset, fate in self.fates.items() if fate.holder}
        acquired = {
            offset
            for run in runs
            if run.state is RecordState.ACQUIRED
            for offset in range(run.first_offset, run.last_offset + 1)
        }
        assert held == acquired
        assert self.shard.states[KEY].start_offset <= self.share.start_offset

    def drain(self) -> None:
        """Left in peace, everything comes to an end."""
        for _ in range(10_000):
            self.now_ms += LOCK_MS
            self.take(self.share.tick(self.now_ms))
            for fate in self.fates.values():
                fate.holder = ""
            self.flush()
            while self.letters:
                self.bury()
            self.fetch()
            end = self.spans[-1].last_offset + 1 if self.spans else 0
            if self.share.start_offset >= end:
                return
        raise AssertionError(f"never done: {self.share!r}")


STEPS_OF = (
    *[Bench.write_log] * 2,
    *[Bench.fetch] * 5,
    *[Bench.speak] * 5,
    Bench.speak_out_of_turn,
    Bench.leave,
    *[Bench.pass_time] * 3,
    *[Bench.flush] * 3,
    *[Bench.bury] * 2,
    Bench.crash,
)


def history(seed: int) -> Counter[str]:
    """One life of a share partition, checked at every step; what happened in it."""
    bench = Bench(Random(seed))
    for _ in range(STEPS):
        bench.random.choice(STEPS_OF)(bench)
        bench.check()
    bench.drain()
    assert bench.share.start_offset == bench.share.end_offset or not bench.spans
    return bench.seen


def test_no_record_is_lost_held_twice_or_given_out_again_after_it_was_accepted() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen.update(history(seed))

    assert seen["crash"] >= SEEDS // 2, seen
    for what in ("delivery", "redelivery", "timeout", "refused", "dead letter", "crash with answers outstanding"):
        assert seen[what] > 20, f"the histories are dull: {what}, {seen}"


def test_records_are_kafkas_bytes_and_come_back_as_they_were() -> None:
    bench = Bench(Random(7))
    for _ in range(60):
        bench.random.choice((Bench.write_log, Bench.fetch, Bench.speak, Bench.leave))(bench)
    records: list[LedgerRecord | None] = [decode_record(*one) for one in bench.log]
    assert [encode_record(record) for record in records if record is not None] == bench.log
    again = ShareStateShard(10)
    for record in records:
        assert record is not None
        again.apply(record)
    assert again.states == bench.shard.states
