"""Election bugs: leaders, the in-sync set, and who may change them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from qanat.broker.controller import controller_loop
from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.broker.metadata.registration import Membership
from qanat.broker.replicas.isr_changes import IsrChanges
from qanat.broker.replicas.replica_faults import ReplicaFaults
from qanat.broker.replicas.replica_logs import ReplicaLogs
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.cluster import elections, failure_detector, reassignments
from qanat.cluster.controller import PartitionChange, commits
from qanat.cluster.elections import Rules
from qanat.cluster.failure_detector import FailureDetector, Verdict
from qanat.cluster.image import MetadataImage
from qanat.cluster.nodes import MemberStatus, MemberStatuses, Nodes
from qanat.cluster.store import Commit, CreatedAt
from qanat.cluster.values import Member, PartitionState
from verify.clusters.bug_bank.bug import Patches


def elect_any_replica(patches: Patches) -> None:
    """C14: without a member of the in-sync set, any replica leads."""
    rules = CurrentSettings.election_rules
    patches.put(
        CurrentSettings,
        "election_rules",
        lambda settings, topic: replace(rules(settings, topic), is_unclean_allowed=True),
    )


def take_an_empty_disk_for_the_old_one(patches: Patches) -> None:
    """C10: a broker that lost its disk stays a member of in-sync sets."""

    async def nothing_noted(membership: Membership) -> None:
        pass

    patches.put(Membership, "_note_directory", nothing_noted)


def take_a_crash_for_a_stop(patches: Patches) -> None:
    """C13: after a crash, a member of a topic that is not flushed is trusted, and so is its next clean stop."""
    status, is_clean = MemberStatuses.of, Nodes.is_clean

    def trusted(standings: MemberStatuses, member: Member) -> MemberStatus:
        found = status(standings, member)
        return MemberStatus.BACK if found is MemberStatus.DOUBTFUL else found

    def stopped(nodes: Nodes, member: Member) -> bool:
        node = nodes.alive.get(member.node_id)
        return is_clean(nodes, member) or (node is not None and node.stopped_at >= member.since)

    patches.put(MemberStatuses, "of", trusted)
    patches.put(Nodes, "is_clean", stopped)


def trust_any_disk_that_is_back(patches: Patches) -> None:
    """T8: a process that is back is a member as it was; its log proves nothing."""
    patches.put(MemberStatuses, "_unfit", lambda standings, member, node: None)


def compare_no_extents(patches: Patches) -> None:
    """C70: of those that are back, any leads, and all are in sync."""
    patches.put(elections, "_best", lambda members, statuses: list(members))


def take_a_log_made_anew_for_the_old_one(patches: Patches) -> None:
    """C10: a replica whose folder was lost and created anew stays the member that it was."""
    described = ReplicaLogs._described

    def ageless(logs: ReplicaLogs, ref: Any, at: Any, generation: int) -> Any:
        return described(logs, ref, at, 0)

    patches.put(ReplicaLogs, "_described", ageless)
    patches.put(elections, "_must_wait", lambda sound, gone, statuses: False)


def report_no_faults(patches: Patches) -> None:
    """C23: a broker does not report that a log is damaged or cannot be opened."""
    patches.put(ReplicaFaults, "_faults", lambda faults: ())


def let_eligible_replicas_stay(patches: Patches) -> None:
    """C13 (KIP-966): a replica that left while nothing could be committed stays eligible after commits resume."""
    from qanat.broker.replicas.local_replicas import LocalReplicas

    with_in_sync, update_leader = elections.with_in_sync, LocalReplicas._update_leader

    def kept(state: PartitionState, in_sync: Sequence[int], joined: Any, rules: Rules) -> PartitionState:
        after = with_in_sync(state, in_sync, joined, rules)
        dropped = [one for one in (*state.in_sync, *state.eligible) if one.node_id not in in_sync]
        return replace(after, eligible=tuple(dropped))

    def told(local_replicas: LocalReplicas, partition: Any, leader: Any, state: PartitionState) -> None:
        update_leader(local_replicas, partition, leader, replace(state, eligible=()))

    patches.put(elections, "with_in_sync", kept)
    patches.put(_module_of(IsrChanges), "with_in_sync", kept)
    patches.put(LocalReplicas, "_update_leader", told)


def control_by_lease_alone(patches: Patches) -> None:
    """C16: a controller commits without comparing whether it still is the controller."""

    def careless(image: MetadataImage, controller: Any, changes: Sequence[PartitionChange]) -> Iterator[Commit]:
        for commit in commits(image, controller, changes):
            yield Commit((), commit.operations)

    patches.put(controller_loop, "commits", careless)


def change_isr_without_comparing(patches: Patches) -> None:
    """C09, C81: a leader writes the in-sync set, whoever has written the state since."""
    commit = IsrChanges._commit_until_known

    async def careless(sets: IsrChanges, compares: Any, operations: Any) -> bool:
        return await commit(sets, [one for one in compares if isinstance(one, CreatedAt)], operations)

    patches.put(IsrChanges, "_commit_until_known", careless)


def keep_an_epoch_when_the_leader_changes(patches: Patches) -> None:
    """C02: an election changes the leader and not the leader epoch."""
    patches.put(
        elections,
        "_led_by",
        lambda state, leader: replace(state, leader=leader, leader_epoch=max(state.leader_epoch, 0)),
    )


def drop_members_silently(patches: Patches) -> None:
    """C13: the last members of an in-sync set are dropped when they are gone, and a live replica leads."""
    members = elections._members

    def forgotten(state: PartitionState, statuses: MemberStatuses, rules: Rules) -> PartitionState:
        after, nodes = members(state, statuses, rules), statuses.nodes
        alive = [nodes.as_member(node_id) for node_id in state.target if nodes.is_ready(node_id)]
        if alive and not any(member.node_id in nodes.alive for member in after.in_sync):
            return replace(after, in_sync=tuple(alive[:1]))
        return after

    patches.put(elections, "_members", forgotten)


def let_a_newcomer_lead_on(patches: Patches) -> None:
    """C20: the leader stays when its reassignment is cancelled, though its replica is to be removed."""
    patches.put(reassignments, "led_by_a_member", lambda state, nodes: state)


def evict_by_one_witness(patches: Patches) -> None:
    """C18: a broker evicts another one on its own word, again and again."""
    patches.put(failure_detector, "WITNESSES", 1)
    patches.put(failure_detector, "back_off_ms", lambda times: 0)
    patches.put(FailureDetector, "decide", lambda detector, suspect, now_ms: Verdict.EVICT)


def never_reconcile(patches: Patches) -> None:
    """C80: changes that a watch misses are never read."""

    async def rest(keeper: ImageWatcher) -> None:
        await asyncio.Event().wait()

    patches.put(ImageWatcher, "_reconcile_for_ever", rest)


def _module_of(part: type) -> object:
    import sys

    return sys.modules[part.__module__]
