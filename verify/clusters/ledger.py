"""The ledger of a simulated cluster: committed offsets and stored partition states, which the cluster may never revoke.

An observer outside of the cluster checks it whenever a leader counts something as committed, and whenever the store
takes another state of a partition. So a bug that would cost records only if the wrong machine died next is found
without that machine's death.

- Every in-sync and every eligible replica has everything that any leader ever counted as committed.
- A leader epoch never goes back, and changes with the leader.
- The leader is in sync.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qanat.adapters.memory_store import MemoryStore
from qanat.cluster import keys, values
from qanat.cluster.store import Operation, Put
from qanat.cluster.values import NO_LEADER, Member, PartitionState
from qanat.log.partition_log import PartitionLog
from qanat.model.ids import TopicPartition
from verify.clusters.checks import committing_problems, decoded_state, epoch_at, has_its_disk, is_steady
from verify.clusters.machine import Machine


class Ledger:
    """The ledger of one topic."""

    def __init__(self, machines: Sequence[Machine], truth: MemoryStore, topic: str, *, is_synced: bool) -> None:
        self._machines = machines
        self._truth = truth
        self._topic = topic
        self._is_synced = is_synced
        self._committed: dict[TopicPartition, tuple[int, int]] = {}
        """The end offset, and the leader epoch of the last record."""
        self._states: dict[TopicPartition, PartitionState] = {}

    def committed(self, machine: Machine, log: PartitionLog) -> list[str]:
        """Note that a machine counts something as committed; returns the problems."""
        at = log.topic_partition
        partition = None if machine.node is None else machine.node.broker.partitions.get(at)
        if at.topic != self._topic or partition is None or partition.log is not log:
            return []
        end_offset = log.high_watermark
        if end_offset > self._committed.get(at, (0, -1))[0]:
            self._committed[at] = end_offset, epoch_at(log, end_offset - 1)
        return committing_problems(machine, log, self._machines, self._truth, is_synced=self._is_synced)

    def stored(self, operations: Iterable[Operation]) -> list[str]:
        """Note what the store has taken; returns the problems."""
        problems = []
        for operation in operations:
            if isinstance(operation, Put) and (at := self._partition_of(operation.key)) is not None:
                after = decoded_state(operation.value)
                before = self._states.get(at)
                self._states[at] = after
                problems += self._steps(at, before, after)
                problems += self.missing(at, after)
        return problems

    def all_missing(self) -> list[str]:
        """Committed records that any replica lacks now."""
        return [problem for at, state in self._states.items() for problem in self.missing(at, state)]

    def _partition_of(self, key: str) -> TopicPartition | None:
        parsed = keys.parse(key)
        entry = self._truth.peek(keys.topic(self._topic))
        if entry is None or not isinstance(parsed, keys.PartitionKey):
            return None
        topic = values.decode(values.Topic, entry.value)
        return TopicPartition(self._topic, parsed.partition) if parsed.topic_id == topic.identity else None

    def _steps(self, at: TopicPartition, before: PartitionState | None, after: PartitionState) -> list[str]:
        problems = []
        if after.leader not in (NO_LEADER, *after.in_sync_nodes):
            problems.append(
                f"leads without being in sync: {at} is led by {after.leader}, in sync {after.in_sync_nodes}"
            )
        if before is None:
            return problems
        if after.leader_epoch < before.leader_epoch:
            problems.append(f"a leader epoch goes back: {at} from {before.leader_epoch} to {after.leader_epoch}")
        if after.leader != before.leader and after.leader_epoch <= before.leader_epoch:
            problems.append(f"two leaders of one epoch: {at}, {before.leader} and {after.leader}")
        return problems

    def missing(self, at: TopicPartition, state: PartitionState) -> list[str]:
        """Committed records that an in-sync or eligible replica lacks."""
        end_offset, epoch = self._committed.get(at, (0, -1))
        problems = []
        members = [(member, "in sync") for member in state.in_sync if is_steady(self._truth, member)]
        if self._is_synced:
            members += [(one, "eligible") for one in state.eligible if self._has_its_disk(one)]
        for member, standing in members:
            log = self._log(member.node_id, at)
            if log is None or state.is_recovered:
                continue
            if log.end_offset < end_offset:
                problems.append(f"lacks what is committed: {at} to {end_offset}, {member} is {standing}: {log!r}")
            elif end_offset and epoch_at(log, end_offset - 1) != epoch:
                problems.append(f"two histories: {at}@{end_offset - 1} has another epoch on {member} than committed")
        return problems

    def _has_its_disk(self, member: Member) -> bool:
        machine = next(machine for machine in self._machines if machine.node_id == member.node_id)
        return has_its_disk(self._truth, machine, member)

    def _log(self, node_id: int, at: TopicPartition) -> PartitionLog | None:
        node = next(machine.node for machine in self._machines if machine.node_id == node_id)
        return None if node is None else node.broker.local_replicas.logs.get(at)
