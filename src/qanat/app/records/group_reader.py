"""`qanat consume --group`: a topic read as a member of a group, which shares its partitions.

The member commits what it printed after each round, before the group may change. So no record is printed by two
members, unless one dies between printing and committing.
"""

from __future__ import annotations

from qanat.app.records.consume_plan import ReadingPlan
from qanat.app.records.record_printer import RecordPrinter
from qanat.connection.cluster import Cluster
from qanat.connection.committed import committed_offsets
from qanat.connection.membership import Membership
from qanat.connection.records.topic_reading import Reading, read
from qanat.model.ids import TopicPartition


async def read_as_member(
    cluster: Cluster, plan: ReadingPlan, group: str, printer: RecordPrinter, *, is_committing: bool
) -> None:
    """Print the assigned partitions from the group's positions to the plan's end."""
    # The whole topic; the group assigns a part of it, and another part after a rebalance.
    whole = await plan.reading(cluster)
    read_before: dict[int, int] = {}
    async with Membership(cluster, group, [plan.topic]) as member:
        while True:
            assigned = [at.partition for at in await member.join() if at.topic == plan.topic]
            if not assigned and plan.last is None:
                await member.wait_for_change()
                continue
            committed = await _group_positions(cluster, group, whole, assigned)
            reading = _part(whole, committed, read_before)
            commits = _Commits(member, committed) if is_committing else None
            await _read_part(cluster, reading, printer, member, commits)
            read_before |= reading.positions
            if printer.is_done or member.is_current:
                return


async def _group_positions(cluster: Cluster, group: str, whole: Reading, assigned: list[int]) -> dict[int, int]:
    """The group's committed offsets of the assigned partitions, or the plan's beginning where there are none."""
    committed = await committed_offsets(cluster, group, cluster.deadline())
    starts = {partition: whole.positions.get(partition, 0) for partition in assigned}
    return {at: committed.get(TopicPartition(whole.topic, at), start) for at, start in starts.items()}


def _part(whole: Reading, committed: dict[int, int], read_before: dict[int, int]) -> Reading:
    """The reading of the assigned partitions, without records that were printed but not committed in time."""
    positions = {at: max(offset, read_before.get(at, 0)) for at, offset in committed.items()}
    ends = {partition: end for partition, end in whole.ends.items() if partition in positions}
    return Reading(whole.topic, positions, ends, whole.until_ms, whole.limits)


class _Commits:
    """The offsets that this member has committed."""

    def __init__(self, member: Membership, committed: dict[int, int]) -> None:
        self._member = member
        self._committed = committed

    async def note(self, reading: Reading) -> None:
        moved = {at: offset for at, offset in reading.positions.items() if self._committed[at] != offset}
        if moved and await self._member.commit(
            {TopicPartition(reading.topic, at): offset for at, offset in moved.items()}
        ):
            self._committed |= moved


async def _read_part(
    cluster: Cluster, reading: Reading, printer: RecordPrinter, member: Membership, commits: _Commits | None
) -> None:
    if commits is not None:
        await commits.note(reading)
    async for records in read(cluster, reading):
        printer.print(reading, records)
        if commits is not None:
            await commits.note(reading)
        if printer.is_done or not member.is_current:
            return
