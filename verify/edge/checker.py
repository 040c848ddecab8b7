"""What must hold: at every act of a child, and when all links and machines are well again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from qanat.edge.mirror import Gap, OnGap
from verify.edge.logs import ModelBatch, ModelLog
from verify.edge.world import EdgeMismatchError

if TYPE_CHECKING:
    from verify.edge.child import Child
    from verify.edge.origin import Origin


def may_append(root: Origin, name: str, batch: ModelBatch) -> None:
    """Only what was committed at the root goes down, byte by byte."""
    if batch not in root.committed:
        raise EdgeMismatchError(f"{name} appends {batch}, which was never below the root's high watermark")


def may_restart(child: Child, number: int, offset: int) -> None:
    """A log is emptied only where nothing was heard of the partition, or by `refresh` with a recorded gap."""
    log, name = child.disk.logs[number], f"{child.name}-{number}"
    if not log.batches and (offset <= log.end_offset or not child.heard[number]):
        return
    if child.on_gap is not OnGap.REFRESH:
        raise EdgeMismatchError(f"{name} begins at {offset} after {log.end_offset} with on.gap={child.on_gap.value}")
    if not any(gap.first <= log.end_offset and gap.end >= offset for gap in child.disk.gaps[number]):
        raise EdgeMismatchError(f"{name} begins at {offset} after {log.end_offset}, and no gap is recorded")


def may_truncate(root: Origin, number: int, name: str, log: ModelLog, end: int) -> None:
    """Nothing is cut off that the root still has."""
    for batch in log.batches:
        if batch.next_offset > end and root.truth[number].get(batch.base_offset) == batch:
            raise EdgeMismatchError(f"{name} truncates to {end}, but the root has {batch}")


def check_gaps(name: str, log: ModelLog, gaps: Iterable[Gap]) -> None:
    """Holes of a log are its recorded gaps, exactly."""
    edges = [log.start, *(at for one in log.batches for at in (one.base_offset, one.next_offset)), log.end_offset]
    holes = [Gap(first, end) for first, end in pairwise(edges[::1]) if first < end]
    covered = {(one.base_offset, one.next_offset) for one in log.batches}
    for hole in holes:
        if (hole.first, hole.end) in covered:
            if any(gap.first < hole.end and hole.first < gap.end for gap in gaps):
                raise EdgeMismatchError(f"{name} reports a gap of {list(gaps)}, but has {hole.first} to {hole.end}")
        elif not any(gap.first <= hole.first and hole.end <= gap.end for gap in gaps):
            raise EdgeMismatchError(f"{name} lacks {hole.first} to {hole.end}, which no gap reports: {list(gaps)}")


def check_child(root: Origin, child: Child, above: Callable[[Child], Iterable[Child]]) -> None:
    """A child after healing: everything is there, as it is at the root. Where it is stopped, or a node that its records
    come through, nobody could tell it yet what an unclean election has replaced."""
    for number, log in enumerate(child.disk.logs):
        name = f"{child.name}-{number}"
        truth, gaps = root.truth[number], child.disk.gaps[number]
        check_gaps(name, log, gaps)
        if is_stopped(child, number) or any(is_stopped(one, number) for one in above(child)):
            continue
        for batch in log.batches:
            if truth.get(batch.base_offset) != batch and batch not in child.unjudged[number]:
                found = truth.get(batch.base_offset)
                raise EdgeMismatchError(f"{name} has {batch}, the root {found}")
        if log.end_offset != root.high_watermark[number]:
            raise EdgeMismatchError(
                f"{name} ends at {log.end_offset}, the root's high watermark is {root.high_watermark[number]}"
            )


def is_stopped(child: Child, number: int) -> bool:
    """Whether a partition rightly waits for records that its parent does not have any more."""
    stopped = None if child.process is None else child.process.stopped.get(number)
    if stopped is None:
        return False
    end = child.disk.logs[number].end_offset
    if child.on_gap is not OnGap.STOP or stopped.first != end:
        raise EdgeMismatchError(f"{child.name}-{number} stopped at {stopped}, but ends at {end}, {child.on_gap}")
    return True


def may_bind(child: Child, topic_id: str) -> None:
    """Another topic gets records only where the operator has decided so: it lacks all that was sent before."""
    bound = child.disk.bound
    if bound is not None and bound.topic_id != topic_id and not child.resends:
        raise EdgeMismatchError(f"{child.name} sends to {topic_id} after {bound.topic_id}, and nobody was asked")


def check_up(root: Origin, child: Child, *, is_over: bool) -> None:
    """Records of an outbox are at the root once and in order; at the end, all of them that its topic was to get."""
    target, bound = root.target(child.name), child.disk.bound
    base = 0 if bound is None else bound.base
    if bound is not None and bound.topic_id != target.topic_id:
        base = child.disk.outbox_start  # Made again: what was up is gone, and nothing else.
    records, expected = target.records, child.accepted[base:]
    if records != expected[: len(records)]:
        wrong = next(place for place, one in enumerate(records) if expected[place : place + 1] != [one])
        raise EdgeMismatchError(f"{child.name}: record {wrong} at the root is {records[wrong]}, lost or doubled before")
    if is_over and len(records) != len(expected):
        raise EdgeMismatchError(f"{child.name}: {len(records)} of {len(expected)} records are at the root")
