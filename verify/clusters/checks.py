"""Invariants of a simulated cluster, checked by an observer who sees all machines at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from qanat.adapters.memory_store import MemoryStore
from qanat.broker.replicas.partition import Partition
from qanat.cluster import keys, values
from qanat.cluster.store import Delete, Operation
from qanat.log.partition_log import PartitionLog
from qanat.model.ids import Offset, TopicPartition
from qanat.testing.simulation.loop import OWNER
from qanat.wire.batch_header import split_batches
from verify.clusters.machine import Machine


def believed_leader_problems(
    machines: Sequence[Machine], truth: MemoryStore, topic: str, *, is_synced: bool
) -> list[str]:
    """StrongIsr (C24): records that a believed leader counts as committed are on every member of the true ISR.

    Members that have lost them, or may have, and that the controller has not judged yet, are exempt (`is_vouched_for`).
    """
    found = []
    for machine in machines:
        if machine.node is None:
            continue
        for at, partition in machine.node.broker.partitions.items():
            if at.topic == topic and partition.leader is not None:
                found += _problems_of(machine, at, partition, machines, truth, is_synced=is_synced)
    return found


def committing_problems(
    machine: Machine, log: PartitionLog, machines: Sequence[Machine], truth: MemoryStore, *, is_synced: bool
) -> list[str]:
    """The same for one leader, when it counts something as committed."""
    partition = None if machine.node is None else machine.node.broker.partitions.get(log.topic_partition)
    if partition is None or partition.leader is None or partition.log is not log:
        return []
    return _problems_of(machine, log.topic_partition, partition, machines, truth, is_synced=is_synced)


def eviction_problems(machines: Sequence[Machine], operations: Iterable[Operation]) -> list[str]:
    """C18: no broker removes the registration of a live broker while one link at a time refuses."""
    problems = []
    for operation in operations:
        parsed = keys.parse(operation.key) if isinstance(operation, Delete) else None
        if isinstance(parsed, keys.BrokerKey):
            machine = next(one for one in machines if one.node_id == parsed.node_id)
            if machine.is_up and OWNER.get() is not machine.owner:
                problems.append(f"a live broker is evicted: {machine.host} by {OWNER.get().name}")
    return problems


def is_steady(truth: MemoryStore, member: values.Member) -> bool:
    """Whether the member's process is the one that joined the ISR; the controller has yet to judge a later one."""
    entry = truth.peek(keys.broker(member.node_id))
    return entry is not None and entry.create_revision <= member.since


def has_its_disk(truth: MemoryStore, machine: Machine, member: values.Member) -> bool:
    """Whether the member still has the disk with which it joined the ISR."""
    entry = truth.peek(keys.node_directory(member.node_id))
    return entry is not None and max(entry.mod_revision, machine.lied_at) <= member.since


def is_vouched_for(truth: MemoryStore, machine: Machine, member: values.Member, *, is_synced: bool) -> bool:
    """Whether the member must still have its records. It need not where its disk or unflushed records may be lost and
    the controller has not dropped it yet: without the store, a controller drops no member."""
    return is_steady(truth, member) or (is_synced and has_its_disk(truth, machine, member))


def _problems_of(
    machine: Machine,
    at: TopicPartition,
    partition: Partition,
    machines: Sequence[Machine],
    truth: MemoryStore,
    *,
    is_synced: bool,
) -> list[str]:
    assert machine.node is not None
    known = machine.node.broker.metadata.image.topics.get(at.topic)
    if known is None:
        return []
    state = true_state(truth, known, at.partition)
    if state is None:
        return []
    committed = partition.log.high_watermark
    problems = []
    for member in state.in_sync:
        other = next(one for one in machines if one.node_id == member.node_id)
        if other.node is None or other is machine or not is_vouched_for(truth, other, member, is_synced=is_synced):
            continue
        log = other.node.broker.local_replicas.logs.get(at)
        if log is None:
            continue
        if log.end_offset < committed:
            problems.append(
                f"not on the in-sync set: {at} is committed to {committed} says {machine.host} (epoch "
                f"{partition.leader_epoch}), but member {member.node_id} ends at {log.end_offset} (true epoch "
                f"{state.leader_epoch}, true leader {state.leader}, in sync {state.in_sync_nodes})"
            )
        elif committed and epoch_at(log, committed - 1) != epoch_at(partition.log, committed - 1):
            problems.append(f"two histories: {at} differs at {committed - 1} between {machine.host} and {other.host}")
    return problems


def true_state(truth: MemoryStore, topic: values.Topic, number: int) -> values.PartitionState | None:
    """The partition's state in the store; before the first change, the first replica leads and all are in sync.

    None where the topic is deleted.
    """
    if (made := truth.peek(keys.topic_id(topic.identity))) is None:
        return None
    entry = truth.peek(keys.partition(topic.identity, number))
    if entry is not None:
        return decoded_state(entry.value)
    replicas = topic.partitions[number]
    members = tuple(values.Member(node_id, made.create_revision) for node_id in replicas)
    return values.PartitionState(leader=replicas[0], leader_epoch=0, replicas=replicas, in_sync=members)


@lru_cache(256)
def decoded_state(value: bytes) -> values.PartitionState:
    """A decoded state of the store, cached: few are new, and each is checked many times a second."""
    return values.decode(values.PartitionState, value)


def epoch_at(log: PartitionLog, offset: int) -> int:
    return log.epochs.epoch_at(Offset(offset)) if offset >= log.log_start_offset else -1


def agreement_problems(machines: Sequence[Machine], topic: str, partitions: int) -> list[str]:
    """What a healed cluster lacks: leaders, replicas that agree, completed transactions."""
    problems = []
    for number in range(partitions):
        at = TopicPartition(topic, number)
        leaders = [one for one in machines if one.node is not None and at in one.node.broker.partitions]
        if len(leaders) != 1:
            problems.append(f"{at} is led by {[one.host for one in leaders] or 'no broker'}")
            continue
        node = leaders[0].node
        assert node is not None
        problems += _disagreements(at, node.broker.partitions[at], machines)
    return problems


def _disagreements(at: TopicPartition, led: Partition, machines: Sequence[Machine]) -> list[str]:
    problems = []
    if led.leader is not None and set(led.leader.in_sync) != set(led.leader.replicas):
        problems.append(f"{at} has {led.leader.in_sync} of {led.leader.replicas} in sync")
    log = led.log
    if log.high_watermark != log.end_offset:
        problems.append(f"{at} is committed to {log.high_watermark} of {log.end_offset}")
    if log.last_stable_offset != log.high_watermark:
        problems.append(f"{at} has an open transaction at {log.last_stable_offset} of {log.high_watermark}")
    copies = {one.host: one.node.broker.local_replicas.logs.get(at) for one in machines if one.node is not None}
    problems += [f"{at} is damaged on {host}: {copy.damage}" for host, copy in copies.items() if copy and copy.damage]
    if problems:
        return problems
    content = _content(log)
    for host, copy in copies.items():
        if copy is not None and copy is not log and _content(copy) != content:
            problems.append(f"{at} differs on {host}: {copy!r}, and the leader has {log!r}")
    return problems


def _content(log: PartitionLog) -> list[bytes]:
    """Every batch, byte by byte."""
    offset, found = log.log_start_offset, []
    while offset < log.end_offset:
        part = log.read(offset, 1024 * 1024, log.end_offset)
        found += [bytes(batch) for view in part.views() for batch in split_batches(view)]
        offset = part.next_offset
    return found
