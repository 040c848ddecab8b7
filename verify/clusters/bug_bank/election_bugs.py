"""Who leads, who is in sync, and who may say so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from qanat.broker.broker import Broker
from qanat.broker.controller import controller_loop
from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.broker.metadata.registration import Membership
from qanat.broker.replicas.isr_changes import IsrChanges
from qanat.broker.replicas.replica_faults import ReplicaFaults
from qanat.broker.replicas.replica_logs import ReplicaLogs
from qanat.cluster import elections, failure_detector, reassignments
from qanat.cluster.controller import Commit, PartitionChange, commits
from qanat.cluster.elections import Rules
from qanat.cluster.failure_detector import FailureDetector, Verdict
from qanat.cluster.image import MetadataImage
from qanat.cluster.nodes import Standing, Standings
from qanat.cluster.store import CreatedAt
from qanat.cluster.values import Member, PartitionState
from verify.clusters.bug_bank.bug import Patches


def elect_whoever_is_there(patches: Patches) -> None:
    """C14: without a member of the in-sync set, any replica leads."""
    rules_of = Broker.rules_of
    patches.put(Broker, "rules_of", lambda broker, topic: replace(rules_of(broker, topic), is_unclean_allowed=True))


def take_an_empty_disk_for_the_old_one(patches: Patches) -> None:
    """C10: a broker that lost its disk is the member of in-sync sets that it was."""

    async def nothing_noted(membership: Membership) -> None:
        pass

    patches.put(Membership, "_note_directory", nothing_noted)


def take_a_crash_for_a_stop(patches: Patches) -> None:
    """C13: after a crash, a member of a topic that is not flushed is trusted."""
    standing = Standings.of

    def trusted(standings: Standings, member: Member) -> Standing:
        found = standing(standings, member)
        return Standing.BACK if found is Standing.DOUBTFUL else found

    patches.put(Standings, "of", trusted)


def trust_any_disk_that_is_back(patches: Patches) -> None:
    """T8: a process that is back is a member as it was; its log proves nothing."""
    patches.put(Standings, "_unfit", lambda standings, member, node: None)


def compare_no_extents(patches: Patches) -> None:
    """C70: of those that are back, any leads, and all are in sync."""
    patches.put(elections, "_best", lambda members, look: list(members))


def take_a_log_made_anew_for_the_old_one(patches: Patches) -> None:
    """C10: a folder that was missing and made anew is the member that it was."""
    described = ReplicaLogs._described

    def ageless(logs: ReplicaLogs, ref: Any, at: Any, generation: int) -> Any:
        return described(logs, ref, at, 0)

    patches.put(ReplicaLogs, "_described", ageless)
    patches.put(elections, "_must_wait", lambda sound, gone, look: False)


def report_no_faults(patches: Patches) -> None:
    """C23: a broker keeps to itself that a log is damaged or cannot be opened."""
    patches.put(ReplicaFaults, "_faults", lambda faults: ())


def let_eligible_replicas_stay(patches: Patches) -> None:
    """C13 (KIP-966): who left while nothing could be committed stays eligible when something can be again."""
    from qanat.broker.replicas.local_replicas import LocalReplicas

    with_in_sync, tell_leader = elections.with_in_sync, LocalReplicas._tell_leader

    def kept(state: PartitionState, in_sync: Sequence[int], joined: Any, rules: Rules) -> PartitionState:
        after = with_in_sync(state, in_sync, joined, rules)
        dropped = [one for one in (*state.in_sync, *state.eligible) if one.node_id not in in_sync]
        return replace(after, eligible=tuple(dropped))

    def told(local_replicas: LocalReplicas, partition: Any, leader: Any, state: PartitionState) -> None:
        tell_leader(local_replicas, partition, leader, replace(state, eligible=()))

    patches.put(elections, "with_in_sync", kept)
    patches.put(_module_of(IsrChanges), "with_in_sync", kept)
    patches.put(LocalReplicas, "_tell_leader", told)


def control_by_lease_alone(patches: Patches) -> None:
    """C16: a controller compares nothing; it was one when it decided."""

    def careless(image: MetadataImage, controller: Any, changes: Sequence[PartitionChange]) -> Iterator[Commit]:
        for commit in commits(image, controller, changes):
            yield Commit((), commit.operations)

    patches.put(controller_loop, "commits", careless)


def change_sets_without_comparing(patches: Patches) -> None:
    """C09, C81: a leader writes the in-sync set, whoever has written the state since."""
    insist = IsrChanges._insist

    async def careless(sets: IsrChanges, compares: Any, operations: Any) -> bool:
        return await insist(sets, [one for one in compares if isinstance(one, CreatedAt)], operations)

    patches.put(IsrChanges, "_insist", careless)


def keep_an_epoch_when_the_leader_changes(patches: Patches) -> None:
    """C02: another leader, the same epoch."""
    patches.put(
        elections,
        "_led_by",
        lambda state, leader: replace(state, leader=leader, leader_epoch=max(state.leader_epoch, 0)),
    )


def drop_a_member_without_a_word(patches: Patches) -> None:
    """C13: the last members of an in-sync set are forgotten when they are gone, and whoever is there leads."""
    members = elections._members

    def forgotten(state: PartitionState, look: Standings, rules: Rules) -> PartitionState:
        after, nodes = members(state, look, rules), look.nodes
        alive = [nodes.as_member(node_id) for node_id in state.target if nodes.is_ready(node_id)]
        if alive and not any(member.node_id in nodes.alive for member in after.in_sync):
            return replace(after, in_sync=tuple(alive[:1]))
        return after

    patches.put(elections, "_members", forgotten)


def let_a_newcomer_lead_on(patches: Patches) -> None:
    """C20: whoever leads when a move is taken back leads on, though its copy is to go."""
    patches.put(reassignments, "led_by_a_member", lambda state, nodes: state)


def evict_by_one_witness(patches: Patches) -> None:
    """C18: one broker that is refused by another takes it for dead, and does so again and again."""
    patches.put(failure_detector, "WITNESSES", 1)
    patches.put(failure_detector, "back_off_ms", lambda times: 0)
    patches.put(FailureDetector, "decide", lambda detector, suspect, now_ms: Verdict.EVICT)


def never_reconcile(patches: Patches) -> None:
    """C80: what a watch does not tell is never known."""

    async def rest(keeper: ImageWatcher) -> None:
        await asyncio.Event().wait()

    patches.put(ImageWatcher, "_reconcile_for_ever", rest)


def _module_of(part: type) -> object:
    import sys

    return sys.modules[part.__module__]
