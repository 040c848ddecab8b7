"""`qanat consume --group`: a topic read as one of a group's members, who share its partitions.

What was printed is committed after each round, before the group may change; so nothing is printed by two members,
unless one of them dies between the two.
"""

from __future__ import annotations

from qanat.app.records.consume_plan import ReadingPlan
from qanat.app.records.record_printer import RecordPrinter
from qanat.app.records.topic_reader import Reading, read
from qanat.connection.cluster import Cluster
from qanat.connection.committed import committed_offsets
from qanat.connection.membership import Membership
from qanat.model.ids import TopicPartition


async def read_as_member(
    cluster: Cluster, plan: ReadingPlan, group: str, printer: RecordPrinter, *, is_committing: bool
) -> None:
    """Print what the group gives us, from where it stands, until the plan's end."""
    # Everything as if we had the topic alone; of which the group gives us a part, and another one later.
    whole = await plan.reading(cluster)
    read_before: dict[int, int] = {}
    async with Membership(cluster, group, [plan.topic]) as member:
        while True:
            assigned = [at.partition for at in await member.join() if at.topic == plan.topic]
            if not assigned and plan.last is None:
                await member.wait_for_change()
                continue
            committed = await _stands(cluster, group, whole, assigned)
            reading = _part(whole, committed, read_before)
            commits = _Commits(member, committed) if is_committing else None
            await _read_part(cluster, reading, printer, member, commits)
            read_before |= reading.positions
            if printer.is_done or member.is_current:
                return


async def _stands(cluster: Cluster, group: str, whole: Reading, assigned: list[int]) -> dict[int, int]:
    """Where the group stands in what is ours; where it has committed nothing, where the plan begins."""
    committed = await committed_offsets(cluster, group, cluster.deadline())
    starts = {partition: whole.positions.get(partition, 0) for partition in assigned}
    return {at: committed.get(TopicPartition(whole.topic, at), start) for at, start in starts.items()}


def _part(whole: Reading, committed: dict[int, int], read_before: dict[int, int]) -> Reading:
    """What to read of what is ours: not again what we have printed, should its commit have come too late."""
    positions = {at: max(offset, read_before.get(at, 0)) for at, offset in committed.items()}
    ends = {partition: end for partition, end in whole.ends.items() if partition in positions}
    return Reading(whole.topic, positions, ends, whole.until_ms, whole.limits)


class _Commits:
    """What the group knows of our reading."""

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
