"""Power cuts at every operation of the disk: what was acknowledged is held once, and generations are never mixed.

A script plays the broker: deliveries, a truncation, a refresh that is completed and one that is given up. The power
fails in front of each operation of the disk; the machine starts again with one of the images that a real disk could
show, and an index as it is, as it was, or without one; and the broker goes on as it would: it repeats what was not
answered.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest
from tests.app.edge.consuming.stores import (
    P0,
    P1,
    TOPIC,
    VolatileIndexes,
    caught_up,
    everything,
    open_simulated,
    run,
    stored,
    values,
)

from qanat.app.edge.consuming.partition_copy import CopyRecord, PartitionCopy
from qanat.app.edge.consuming.reading import Query
from qanat.app.edge.consuming.record_store import RecordStore, State
from qanat.edge.generations import Generations
from qanat.edge.kept_records import Place
from qanat.log.atomic_files import write_volatile
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.testing.simulation.crash_image import CrashMode
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.disk_faults import DiskFaults, PowerLoss

VARIANTS: tuple[CrashMode, ...] = ("drop_all", "keep_all", "random", "random")


@dataclass(frozen=True)
class Deliver:
    at: TopicPartition
    records: Sequence[CopyRecord]
    refresh: str = ""


@dataclass(frozen=True)
class Void:
    at: TopicPartition
    offset: int


@dataclass(frozen=True)
class Reset:
    refresh: str
    ends: dict[TopicPartition, tuple[int, int]]


@dataclass(frozen=True)
class Ready:
    refresh: str
    partitions: tuple[TopicPartition, ...]


Act = Deliver | Void | Reset | Ready

SCRIPT: tuple[Act, ...] = (
    Deliver(P0, run(0, 5, "a")),
    Deliver(P1, run(10, 14, "a")),
    Deliver(P0, run(5, 10, "a", epoch=1)),
    Void(P0, 7),
    Deliver(P0, run(7, 12, "b", epoch=2)),
    Reset("r1", {P0: (0, 12), P1: (10, 14)}),
    Deliver(P0, run(0, 6, "c", epoch=2), "r1"),
    Deliver(P1, run(10, 14, "c"), "r1"),
    Deliver(P0, run(6, 12, "c", epoch=2), "r1"),
    Ready("r1", (P0, P1)),
    Deliver(P0, run(12, 15, "d", epoch=2)),
    Reset("r2", {P0: (0, 15)}),
    Deliver(P0, run(0, 4, "x", epoch=2), "r2"),
    Deliver(P0, run(15, 18, "d", epoch=2)),  # Of what is served: r2 was given up.
)
EXPECTED = {P0: [f"c{n}" for n in range(12)] + [f"d{n}" for n in range(12, 18)], P1: [f"c{n}" for n in range(10, 14)]}


@dataclass
class Truth:
    """What must be served after the acts that were answered."""

    served: dict[TopicPartition, dict[int, str]] = field(default_factory=lambda: {P0: {}, P1: {}})
    filling: dict[str, dict[TopicPartition, dict[int, str]]] = field(default_factory=dict)

    def done(self, act: Act) -> None:
        match act:
            case Deliver(at, records, ""):
                self.served[at] |= {one.record.offset: (one.record.value or b"").decode() for one in records}
            case Deliver(at, records, refresh):
                new = {one.record.offset: (one.record.value or b"").decode() for one in records}
                self.filling[refresh].setdefault(at, {}).update(new)
            case Void(at, offset):
                self.served[at] = {n: value for n, value in self.served[at].items() if n < offset}
            case Reset(refresh):
                self.filling.setdefault(refresh, {})
            case Ready(refresh, partitions):
                self.served |= {at: self.filling[refresh][at] for at in partitions}


def do(store: RecordStore, act: Act) -> None:
    match act:
        case Deliver(at, records, refresh):
            stored(store, at, records, refresh)
        case Void(at, offset):
            store.void(at, offset)
        case Reset(refresh, ends):
            store.reset(refresh, ends)
        case Ready(refresh, partitions):
            store.ready(refresh, partitions)


def play(disk: SimDisk, indexes: VolatileIndexes) -> int:
    """Play the script until the end, or the power fails; returns how many acts were answered."""
    answered = 0
    try:
        store = open_simulated(disk, indexes)
        for act in SCRIPT:
            do(store, act)
            answered += 1
            indexes.note()
        store.close()
    except PowerLoss:
        pass
    return answered


def repeated(answered: int) -> list[Act]:
    """What the broker sends after a restart: a refresh under way from its RESET on, and what was not answered."""
    begun = [number for number, act in enumerate(SCRIPT[: answered + 1]) if isinstance(act, Reset)]
    if begun:
        reset = SCRIPT[begun[-1]]
        assert isinstance(reset, Reset)
        ended = [n for n, act in enumerate(SCRIPT) if isinstance(act, Ready) and act.refresh == reset.refresh]
        if not ended or answered <= ended[0]:
            return list(SCRIPT[begun[-1] :])
    return list(SCRIPT[answered:])


def served(store: RecordStore) -> dict[TopicPartition, dict[int, str]]:
    return {
        at: {one.record.offset: (one.record.value or b"").decode() for one in everything(store, Query(TOPIC, at[1]))}
        for at in (P0, P1)
    }


def check_after_cut(store: RecordStore, answered: int, where: str) -> None:
    """What was answered is there; of the act that was not, all, some or nothing may be."""
    before, after = Truth(), Truth()
    for act in SCRIPT[:answered]:
        before.done(act)
    for act in SCRIPT[: answered + 1]:
        after.done(act)
    found = served(store)
    for at in (P0, P1):
        is_swap = answered < len(SCRIPT) and isinstance(SCRIPT[answered], Ready)
        if is_swap:
            assert found[at] in (before.served[at], after.served[at]), f"{where}: {at} is mixed: {found[at]}"
            continue
        certain = {n: value for n, value in before.served[at].items() if after.served[at].get(n) == value}
        possible = {**before.served[at], **after.served[at]}
        assert certain.items() <= found[at].items(), f"{where}: {at} lost {certain.items() - found[at].items()}"
        assert found[at].items() <= {*before.served[at].items(), *possible.items()}, f"{where}: {at} has {found[at]}"
    if answered < len(SCRIPT) and isinstance(SCRIPT[answered], Ready):
        assert (found[P0] == before.served[P0]) == (found[P1] == before.served[P1]), f"{where}: one partition swapped"


def cut(operation: int, mode: CrashMode, variant: int) -> None:
    where = f"power cut before operation {operation}, image {mode} {variant}"
    disk = SimDisk(operation, DiskFaults(power_loss_at_operation=operation, tears_write=True), is_traced=False)
    indexes = VolatileIndexes()
    answered = play(disk, indexes)
    image = disk.crash(mode, variant=variant, faults=DiskFaults())
    indexes = indexes.after_cut(zlib.crc32(where.encode()))
    store = caught_up(open_simulated(image, indexes))
    check_after_cut(store, answered, where)
    for act in repeated(answered):
        if isinstance(act, Deliver) and act.refresh:
            # The broker continues where the application says that it has what comes before.
            place = store.reset(act.refresh, reset_of(act.refresh).ends).get(act.at)
            first = place.offset if place is not None else 0
            act = Deliver(act.at, [one for one in act.records if one.record.offset >= first], act.refresh)
        do(store, act)
    caught_up(store)
    for at, expected in EXPECTED.items():
        found = everything(store, Query(TOPIC, at.partition))
        assert values(found) == expected, f"{where}: at the end {at} has {values(found)}"
    by_key = [one.record.offset for n in range(3) for one in everything(store, Query(TOPIC, key=b"k%d" % n))]
    assert len(by_key) == len(EXPECTED[P0]) + len(EXPECTED[P1]), f"{where}: the index by key"
    assert store.generations.under_way == {}
    store.close()


def reset_of(refresh: str) -> Reset:
    return next(act for act in SCRIPT if isinstance(act, Reset) and act.refresh == refresh)


def cut_everywhere(operations: range) -> None:
    for operation in operations:
        for variant, mode in enumerate(VARIANTS):
            cut(operation, mode, variant)


def operations() -> int:
    disk = SimDisk(0, is_traced=False)
    assert play(disk, VolatileIndexes()) == len(SCRIPT)
    return disk.operations


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=[pytest.mark.long, pytest.mark.data] if part else []) for part in range(8)]
)
def test_nothing_is_lost_and_nothing_mixed_wherever_the_power_fails(part: int) -> None:
    total = operations()
    assert total > 100
    cut_everywhere(range(1 + part, total + 1, 8))


def test_a_process_that_is_killed_between_two_acts_goes_on() -> None:
    for answered in range(len(SCRIPT)):
        disk, indexes = SimDisk(1), VolatileIndexes()
        store = open_simulated(disk, indexes)
        for act in SCRIPT[:answered]:
            do(store, act)
        indexes.note()
        again = caught_up(open_simulated(disk.crash("keep_all"), indexes.after_cut(0)))
        check_after_cut(again, answered, f"killed after act {answered}")


def _stores_without_flush(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionCopy, "flush", lambda self: self.log.advance_high_watermark(self.log.end_offset))


def _cuts_whole_batches(patch: pytest.MonkeyPatch) -> None:
    kept = PartitionCopy._truncation_at

    def forgotten(self: PartitionCopy, offset: int) -> object:
        return msgspec.structs.replace(kept(self, offset), batch=b"")

    patch.setattr(PartitionCopy, "_truncation_at", forgotten)


def _fills_what_is_served(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecordStore, "_target", lambda self, at, refresh: (self.generations.held(at).served, at))


def _swaps_partition_by_partition(patch: pytest.MonkeyPatch) -> None:
    swap = RecordStore.ready

    def one_by_one(self: RecordStore, refresh: str, partitions: Sequence[TopicPartition]) -> None:
        for at in partitions:
            swap(self, refresh, [at])

    patch.setattr(RecordStore, "ready", one_by_one)


def _trusts_the_index(patch: pytest.MonkeyPatch) -> None:
    compare = RecordStore._compare_index

    def trusted(self: RecordStore) -> None:
        compare(self)
        self._behind = []

    patch.setattr(RecordStore, "_compare_index", trusted)


def _keeps_an_abandoned_refresh(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Generations, "cancelled", lambda self, at: self)


def _resumes_beyond_what_it_has(patch: pytest.MonkeyPatch) -> None:
    answer = RecordStore.reset

    def beyond(
        self: RecordStore, refresh: str, ends: dict[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, Place]:
        places = answer(self, refresh, ends)
        return {at: Place(place.offset + 1, place.epoch) for at, place in places.items()}

    patch.setattr(RecordStore, "reset", beyond)


def _forgets_what_is_served(patch: pytest.MonkeyPatch) -> None:
    def volatile(self: RecordStore, topics: list[str], group: str, generations: Generations) -> None:
        content = msgspec.json.encode(State(1, topics, group, generations))
        write_volatile(self._files, f"{self.path}/application.json", content)
        self._topics, self._group, self.generations = topics, group, generations

    patch.setattr(RecordStore, "_save", volatile)


BUGS = (
    _stores_without_flush,
    pytest.param(_cuts_whole_batches, marks=[pytest.mark.long, pytest.mark.data]),
    _fills_what_is_served,
    pytest.param(_swaps_partition_by_partition, marks=[pytest.mark.long, pytest.mark.data]),
    pytest.param(_trusts_the_index, marks=[pytest.mark.long, pytest.mark.data]),
    _keeps_an_abandoned_refresh,
    _resumes_beyond_what_it_has,
    _forgets_what_is_served,
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__.strip("_"))
def test_a_planted_bug_is_found(bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    total = operations()
    bug(monkeypatch)
    with pytest.raises((AssertionError, QanatError, msgspec.MsgspecError)):
        cut_everywhere(range(1, total + 1))
