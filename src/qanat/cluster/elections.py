"""Leader elections: which replica leads a partition, decided from the present status of its replicas.

`settle` decides everything: given a partition's state, the nodes and what is known of the replicas, it returns the
state as it should be. It looks at levels, not at events: members carry since when they have been members, so that it
notices a broker that went and came back between two looks. Running it twice changes nothing.

Rule 1: only a member of the in-sync set leads. Where none is alive, an eligible replica does (KIP-966: it left while
        nothing could be committed any more, so it misses nothing); failing that, the partition waits without a leader,
        unless its topic allows an unclean election.
Rule 2: every change of the leader, also to none and also to a new process of the same broker, is a new epoch. The sole
        replica of a partition needs none: there is no other copy that could differ.
Rule 3: a member is removed from the set when its process is gone, as long as another is left. The last ones stay, so
        that it is known which must come back.
Rule 4: a node that came back without its data is a member of no set.
Rule 5: a process that is back proves what its log holds before it leads or counts as in sync. Where all members are
        back, the sound replica with the greatest (last leader epoch, end offset) leads, and those that equal it stay in
        sync: a disk may have lost records, or been restored from an older image. After an unclean stop the election
        waits for the others, up to a bound. Where a process never stopped, those that are back join it by fetching.
Rule 6: a damaged or offline replica does not lead while a sound one exists. It is a member of no set until it is
        repaired (`damaged`), and every change of that list is a new epoch, so that earlier progress does not count.
        Where no sound replica is left, the partition waits for an operator; a process that leads a damaged replica
        continues to lead.
Rule 7: after a crash, a member of a topic that is not flushed before it is acknowledged has perhaps lost its end. It
        does not lead while a better replica is known, alive or not; but it is remembered until a replica leads. Where
        all are in doubt, the one with the greatest extent leads, alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from qanat.cluster.nodes import MemberStatus, MemberStatuses, Nodes
from qanat.cluster.proofs import NOTHING_KNOWN, Evidence
from qanat.cluster.values import NO_LEADER, Member, PartitionState


class Rules(Struct, frozen=True):
    """What a topic's settings say about its elections."""

    min_insync_replicas: int = 1
    flushed_since: int | None = 0
    """Since which revision records are on disk before they are acknowledged; None where they are not."""
    is_unclean_allowed: bool = False


def settle(state: PartitionState, nodes: Nodes, rules: Rules, evidence: Evidence = NOTHING_KNOWN) -> PartitionState:
    """The state as it should be; the same object where nothing changes."""
    if _is_well(state, nodes, evidence):
        return state
    statuses = _statuses(state, nodes, rules, evidence)
    if _is_awaiting_proofs(state, statuses):
        return state
    after = _elected(_moved(_members(state, statuses, rules)), state, statuses, rules)
    settled = _marked(with_epoch_after_removal(after, state), state, statuses)
    return state if settled == state else settled


def _is_well(state: PartitionState, nodes: Nodes, evidence: Evidence) -> bool:
    """Whether there is certainly nothing to do: every partition is checked whenever a broker comes or goes."""
    if evidence.faults or state.damaged or state.eligible or state.adding or state.removing:
        return False
    members = state.in_sync
    return state.leader in state.in_sync_nodes and all(
        nodes.is_steady(member) and nodes.is_ready(member.node_id) for member in members
    )


class Awaited(Struct, frozen=True):
    """The nodes that a partition without a leader waits for."""

    unproven: tuple[int, ...] = ()
    """Registered nodes that are to prove what they hold."""
    gone: tuple[int, ...] = ()
    """Nodes that are to come back, after an unclean stop of all."""

    def __bool__(self) -> bool:
        return bool(self.unproven or self.gone)


_NO_NODES = Awaited()
_NO_OTHER = (MemberStatus.DOUBTFUL, MemberStatus.FAULTY, MemberStatus.EMPTY, MemberStatus.NEW)
"""Statuses that do not stay eligible beside a leader."""


def awaited(state: PartitionState, nodes: Nodes, rules: Rules, evidence: Evidence) -> Awaited:
    """The nodes that an election waits for, as long as that may take; none, where one of the members can lead."""
    if _is_well(state, nodes, evidence):
        return _NO_NODES
    statuses = _statuses(state, nodes, rules, evidence)
    if len(state.replicas) == 1 or _has_steady(state, statuses):
        return _NO_NODES
    pool = _pool(state)
    if _are_new(state, statuses):
        return _unknown_replicas(state, statuses)
    unproven = tuple(member.node_id for member in pool if statuses.of(member) is MemberStatus.UNPROVEN)
    gone = tuple(member.node_id for member in pool if statuses.of(member) is MemberStatus.GONE)
    sound = [member for member in pool if statuses.of(member) is MemberStatus.BACK]
    return Awaited(unproven, gone if sound and _must_wait(sound, gone, statuses) else ())


def _statuses(state: PartitionState, nodes: Nodes, rules: Rules, evidence: Evidence) -> MemberStatuses:
    known = NOTHING_KNOWN if len(state.replicas) == 1 else evidence
    return MemberStatuses(state, nodes, rules.flushed_since, known)


def _pool(state: PartitionState) -> tuple[Member, ...]:
    """All members that may lead without an unclean election."""
    return (*state.in_sync, *state.eligible)


def _are_new(state: PartitionState, statuses: MemberStatuses) -> bool:
    """Whether all members have logs that they created after they became members: lost folders, or none had one yet."""
    pool = _pool(state)
    return bool(pool) and all(statuses.of(member) is MemberStatus.NEW for member in pool)


def _unknown_replicas(state: PartitionState, statuses: MemberStatuses) -> Awaited:
    """Replicas that may hold records or not: that is unknown."""
    alive = statuses.nodes.alive
    unproven = [one for one in state.replicas if one in alive and statuses.proof_of(one, alive[one]) is None]
    return Awaited(tuple(unproven), tuple(one for one in state.replicas if one not in alive))


def _never_written(state: PartitionState, statuses: MemberStatuses) -> bool:
    """Whether all stopped before any of them created its log: no replica, member or not, holds a record."""
    if not _are_new(state, statuses) or _unknown_replicas(state, statuses):
        return False
    return all(statuses.evidence.proofs[node_id].end_offset == 0 for node_id in state.replicas)


def _has_steady(state: PartitionState, statuses: MemberStatuses) -> bool:
    """Whether a process that never stopped can lead."""
    if any(statuses.of(member) is MemberStatus.STEADY for member in state.in_sync):
        return True
    return any(
        statuses.of(one) is MemberStatus.STEADY and statuses.nodes.is_ready(one.node_id) for one in state.eligible
    )


def _is_awaiting_proofs(state: PartitionState, statuses: MemberStatuses) -> bool:
    """Whether the decision waits for registered brokers to prove what they hold."""
    if _has_steady(state, statuses):
        return False
    silent = statuses.evidence.silent
    return any(statuses.of(one) is MemberStatus.UNPROVEN and one.node_id not in silent for one in _pool(state))


def _must_wait(sound: Sequence[Member], gone: Sequence[object], statuses: MemberStatuses) -> bool:
    """Whether an absent replica may surpass the best one that is there, whose disk may be the one that lies."""
    if not gone or statuses.evidence.is_overdue:
        return False
    return not any(statuses.nodes.is_clean(member) for member in _best(sound, statuses))


def _best(members: Sequence[Member], statuses: MemberStatuses) -> list[Member]:
    """Those with the greatest extent; all, where an older broker cannot prove its own."""
    if not all(statuses.nodes.alive[member.node_id].proves_logs for member in members):
        return list(members)
    extents = {member.node_id: statuses.evidence.extent(member.node_id) for member in members}
    # An epoch that no leader has had yet was never written; where all have one, the store is the older one.
    possible = [extent for extent in extents.values() if extent[0] <= statuses.leader_epoch]
    greatest = max(possible or extents.values())
    return [member for member in members if extents[member.node_id] == greatest]


def _marked(after: PartitionState, before: PartitionState, statuses: MemberStatuses) -> PartitionState:
    """Add and remove replicas that are to be repaired."""
    faults, alive = statuses.evidence.faults, statuses.nodes.alive
    # Without a leader a replica cannot be repaired, and it may be the best one.
    may_be_new = after.leader != NO_LEADER
    damaged = tuple(
        node_id
        for node_id in after.replicas
        if node_id not in after.in_sync_nodes
        and (node_id in before.damaged or may_be_new)
        and (node_id in faults or (node_id in before.damaged and node_id not in alive))
    )
    if damaged == after.damaged:
        return after
    eligible = tuple(member for member in after.eligible if member.node_id not in damaged)
    epoch = after.leader_epoch + (after.leader_epoch == before.leader_epoch)
    return replace(after, damaged=damaged, eligible=eligible, leader_epoch=epoch)


def with_epoch_after_removal(after: PartitionState, before: PartitionState) -> PartitionState:
    """Removing a replica bumps the leader epoch, so that its stale progress no longer counts.

    A removed replica may learn of that late, and become a replica again before it does: what it then still reports of
    the log that it is going to delete must not count.
    """
    is_parted = any(node_id not in after.replicas for node_id in before.replicas)
    if not is_parted or after.leader == NO_LEADER or after.leader_epoch > before.leader_epoch:
        return after
    return replace(after, leader_epoch=after.leader_epoch + 1)


def prefer(state: PartitionState, nodes: Nodes, rules: Rules, evidence: Evidence = NOTHING_KNOWN) -> PartitionState:
    """Let the preferred replica lead, if it can; the same object where it does, or cannot."""
    first = state.target[0]
    member = next((member for member in state.in_sync if member.node_id == first), None)
    if state.leader in (first, NO_LEADER) or member is None or not nodes.is_ready(first):
        return state
    if _statuses(state, nodes, rules, evidence).of(member) is not MemberStatus.STEADY:
        return state
    return _led_by(state, first)


def with_in_sync(
    state: PartitionState, in_sync: Sequence[int], joined: Mapping[int, int], rules: Rules
) -> PartitionState:
    """The state with the in-sync set that the leader wants. `joined` are the broker epochs of its new members."""
    members = {member.node_id: member for member in state.in_sync}
    kept = tuple(members[node_id] if node_id in members else Member(node_id, joined[node_id]) for node_id in in_sync)
    if len(kept) >= min(rules.min_insync_replicas, len(state.target)):
        return replace(state, in_sync=kept, eligible=())
    dropped = tuple(member for member in state.in_sync if member.node_id not in in_sync)
    still = tuple(member for member in state.eligible if member.node_id not in in_sync)
    return replace(state, in_sync=kept, eligible=dropped + still)


def recover(state: PartitionState, nodes: Nodes, evidence: Evidence = NOTHING_KNOWN) -> PartitionState:
    """An operator's unclean election: the best replica that is there leads, and its log is the truth."""
    alive = _alive_by_worth(state, nodes, evidence)
    if state.leader != NO_LEADER or not alive:
        return state
    return _recovered(state, alive[0], nodes)


def _alive_by_worth(state: PartitionState, nodes: Nodes, evidence: Evidence) -> list[int]:
    """Replicas that could lead in an unclean election: those that can be opened, the one that loses least first."""
    alive = [node_id for node_id in state.target if nodes.is_ready(node_id) and not _is_offline(node_id, evidence)]
    return sorted(alive, key=evidence.worth, reverse=True)


def _is_offline(node_id: int, evidence: Evidence) -> bool:
    fault, proof = evidence.faults.get(node_id), evidence.proofs.get(node_id)
    return (fault is not None and fault.is_offline) or (proof is not None and proof.is_offline)


def led_by_a_member(state: PartitionState, nodes: Nodes) -> PartitionState:
    """Where the leader is not in sync any more, because its replica is to be removed, another member leads, or none."""
    if state.leader in (NO_LEADER, *state.in_sync_nodes):
        return state
    ready = [node_id for node_id in state.replicas if node_id in state.in_sync_nodes and nodes.is_ready(node_id)]
    return _led_by(state, ready[0] if ready else NO_LEADER)


def _members(state: PartitionState, statuses: MemberStatuses, rules: Rules) -> PartitionState:
    """Which replicas are in sync and which are eligible, by their present status."""
    status = {member.node_id: statuses.of(member) for member in _pool(state)}
    steady = [member for member in state.in_sync if status[member.node_id] is MemberStatus.STEADY]
    stays = [member for member in steady if statuses.nodes.is_ready(member.node_id)] or steady
    if not stays and not _has_steady(state, statuses):
        stays = _proven(state, status, statuses) or _still_serving(state, statuses)
    if stays:
        return replace(state, in_sync=tuple(stays), eligible=_eligible(state, stays, status, rules))
    in_sync, eligible = list[Member](), list[Member]()
    for member in state.in_sync:
        if status[member.node_id] is not MemberStatus.EMPTY:
            (eligible if status[member.node_id] is MemberStatus.DOUBTFUL else in_sync).append(member)
    eligible += [one for one in state.eligible if status[one.node_id] is not MemberStatus.EMPTY and one not in eligible]
    return replace(state, in_sync=tuple(in_sync), eligible=tuple(eligible))


def _proven(state: PartitionState, status: Mapping[int, MemberStatus], statuses: MemberStatuses) -> list[Member]:
    """The members that their brokers' proofs elect, each as of now; none where the election waits for others."""
    pool, nodes = _pool(state), statuses.nodes
    sound = [member for member in pool if status[member.node_id] is MemberStatus.BACK]
    gone = [member for member in pool if status[member.node_id] is MemberStatus.GONE]
    if sound:
        return (
            []
            if _must_wait(sound, gone, statuses)
            else [nodes.as_member(one.node_id) for one in _best(sound, statuses)]
        )
    if _never_written(state, statuses):
        return [nodes.as_member(member.node_id) for member in pool]
    doubtful = [member for member in pool if status[member.node_id] is MemberStatus.DOUBTFUL]
    if not doubtful or gone or any(status[member.node_id] is MemberStatus.UNPROVEN for member in pool):
        return []
    named = [member for member in doubtful if member in state.in_sync] or doubtful
    best = sorted(_best(doubtful, statuses), key=lambda one: (one not in named, one.node_id != state.leader))
    return [nodes.as_member(best[0].node_id)]


def _still_serving(state: PartitionState, statuses: MemberStatuses) -> list[Member]:
    """A process that leads a damaged replica, where no sound one is there: it serves what it has."""
    fault = statuses.evidence.faults.get(state.leader)
    member = next((member for member in state.in_sync if member.node_id == state.leader), None)
    if member is None or fault is None or fault.is_offline or not statuses.nodes.is_same_process(member):
        return []
    return [member if statuses.nodes.is_steady(member) else statuses.nodes.as_member(member.node_id)]


def _eligible(
    state: PartitionState, in_sync: Sequence[Member], status: Mapping[int, MemberStatus], rules: Rules
) -> tuple[Member, ...]:
    """Members that left and miss nothing, because too few are left for anything to be committed.

    A replica that is back beside others that are back, too, and proved less than they, may miss something.
    """
    if len(in_sync) >= min(rules.min_insync_replicas, len(state.target)):
        return ()
    present = {member.node_id for member in in_sync}
    allowed = [MemberStatus.STEADY, MemberStatus.GONE, MemberStatus.UNPROVEN]
    if any(member in state.in_sync for member in in_sync):
        allowed.append(MemberStatus.BACK)
    return tuple(one for one in _pool(state) if one.node_id not in present and status[one.node_id] in allowed)


def _moved(state: PartitionState) -> PartitionState:
    """End a reassignment once every replica of the target is in sync."""
    in_sync = set(state.in_sync_nodes)
    if not (state.adding or state.removing) or not in_sync.issuperset(state.target):
        return state
    kept = tuple(member for member in state.in_sync if member.node_id in state.target)
    return replace(state, replicas=state.target, adding=(), removing=(), in_sync=kept)


def _elected(state: PartitionState, before: PartitionState, statuses: MemberStatuses, rules: Rules) -> PartitionState:
    in_sync, nodes = state.in_sync_nodes, statuses.nodes
    if state.leader in in_sync and _still_leads(state.leader, before, statuses):
        return state
    candidates = [node_id for node_id in _steady_first(state, before) if _may_lead(state, node_id, before, statuses)]
    for node_id in (*(one for one in candidates if nodes.is_ready(one)), *candidates):
        return _led_by(state, node_id)
    for member in sorted(state.eligible, key=lambda member: _place(state, member.node_id)):
        if nodes.is_ready(member.node_id) and statuses.of(member) is MemberStatus.STEADY:
            return _led_by_eligible(state, member, statuses)
    alive = _alive_by_worth(state, nodes, statuses.evidence)
    is_waiting = not statuses.evidence.is_overdue and bool(awaited(before, nodes, rules, statuses.evidence).gone)
    if rules.is_unclean_allowed and alive and not is_waiting:
        return _recovered(state, alive[0], nodes)
    return state if state.leader == NO_LEADER else _led_by(state, NO_LEADER)


def _may_lead(state: PartitionState, node_id: int, before: PartitionState, statuses: MemberStatuses) -> bool:
    """Whether a member of the new set is there to lead: it never stopped, or has proved what it holds."""
    member = next(member for member in state.in_sync if member.node_id == node_id)
    if node_id not in statuses.nodes.alive or not statuses.nodes.is_steady(member):
        return False
    return member not in before.in_sync or statuses.of(member) is MemberStatus.STEADY


def _led_by_eligible(state: PartitionState, member: Member, statuses: MemberStatuses) -> PartitionState:
    # A member of the set misses nothing either, as long as nothing can be committed without it.
    others = tuple(one for one in _pool(state) if one.node_id != member.node_id and statuses.of(one) not in _NO_OTHER)
    led = _led_by(state, member.node_id)
    return replace(led, in_sync=(statuses.nodes.as_member(member.node_id),), eligible=others)


def _still_leads(leader: int, before: PartitionState, statuses: MemberStatuses) -> bool:
    """Whether the present leader goes on in its epoch."""
    nodes = statuses.nodes
    if len(before.replicas) == 1:
        return leader in nodes.alive
    member = next((member for member in before.in_sync if member.node_id == leader), None)
    if member is None or not nodes.is_steady(member):
        return False
    if statuses.of(member) is MemberStatus.FAULTY:
        return not _is_offline(leader, statuses.evidence) and not _has_steady(before, statuses)
    return nodes.is_ready(leader) or not any(nodes.is_ready(node_id) for node_id in before.in_sync_nodes)


def _steady_first(state: PartitionState, before: PartitionState) -> list[int]:
    """Members in the order of preference, those whose process has not changed before the others."""
    steady = {member for member in state.in_sync if member in before.in_sync}
    ordered = sorted(state.in_sync, key=lambda member: (member not in steady, _place(state, member.node_id)))
    return [member.node_id for member in ordered]


def _place(state: PartitionState, node_id: int) -> int:
    return state.replicas.index(node_id) if node_id in state.replicas else len(state.replicas)


def _led_by(state: PartitionState, leader: int) -> PartitionState:
    return replace(state, leader=leader, leader_epoch=state.leader_epoch + 1, is_recovered=False)


def _recovered(state: PartitionState, leader: int, nodes: Nodes) -> PartitionState:
    led = _led_by(state, leader)
    return replace(led, in_sync=(nodes.as_member(leader),), eligible=(), is_recovered=True)
