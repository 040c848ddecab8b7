"""Who leads a partition, decided from how its replicas stand now.

`settle` is the whole of it: given a partition's state, the nodes and what is known of the copies, it says how the state
should be. It looks at levels, not at events: members carry since when they have been members, so that a broker
that went and came back between two looks is seen all the same. Running it twice changes nothing.

Rule 1: only a member of the in-sync set leads. Where none is alive, an eligible replica does (KIP-966: it left while
        nothing could be committed any more, so it misses nothing); failing that, the partition waits without a
        leader, unless its topic allows an unclean election.
Rule 2: every change of the leader, also to none and also to a new process of the same broker, is a new epoch. The sole
        replica of a partition is spared that: there is no other copy that could differ.
Rule 3: a member is dropped from the set when its process is gone, as long as another is left. The last ones stay, so
        that it is known which must come back.
Rule 4: a node that came back without its data is no member of anything.
Rule 5: a process that is back proves what its log holds before it leads or counts as in sync. Where all members are
        back, the sound copy with the greatest (last leader epoch, end offset) leads, and those that equal it stay in
        sync: a disk may have lost records, or been put back to an older image. After an unclean stop the others
        are waited for, up to a bound. Where a process never stopped, those that are back join it by fetching.
Rule 6: a damaged or offline copy does not lead while a sound one exists. It is a member of nothing until it is repaired
        (`damaged`), and every change of that list is a new epoch, so that progress of before does not count. Where
        no sound copy is left, the partition waits for an operator; a process that leads a damaged copy leads on.
Rule 7: after a crash, a member of a topic that is not flushed before it is acknowledged has perhaps lost its end. It
        does not lead while anybody better is known, alive or not; but it is remembered until somebody leads. Where all
        are in doubt, the one with the greatest extent leads, alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from qanat.cluster.nodes import Nodes, Standing, Standings
from qanat.cluster.proofs import NOTHING_KNOWN, Evidence
from qanat.cluster.values import NO_LEADER, Member, PartitionState


class Rules(Struct, frozen=True):
    """What a topic's settings say about its elections."""

    min_insync_replicas: int = 1
    flushed_since: int | None = 0
    """Since which revision records are on disk before they are acknowledged; None where they are not."""
    is_unclean_allowed: bool = False


def settle(state: PartitionState, nodes: Nodes, rules: Rules, evidence: Evidence = NOTHING_KNOWN) -> PartitionState:
    """The state as it should be; the same object where that is how it is."""
    if _is_well(state, nodes, evidence):
        return state
    look = _look(state, nodes, rules, evidence)
    if _is_awaiting_proofs(state, look):
        return state
    after = _elected(_moved(_members(state, look, rules)), state, look, rules)
    settled = _marked(parted(after, state), state, look)
    return state if settled == state else settled


def _is_well(state: PartitionState, nodes: Nodes, evidence: Evidence) -> bool:
    """Whether there is certainly nothing to do: every partition is looked at whenever a broker comes or goes."""
    if evidence.faults or state.damaged or state.eligible or state.adding or state.removing:
        return False
    members = state.in_sync
    return state.leader in state.in_sync_nodes and all(
        nodes.is_steady(member) and nodes.is_ready(member.node_id) for member in members
    )


class Awaited(Struct, frozen=True):
    """Which nodes a partition without a leader waits for."""

    unproven: tuple[int, ...] = ()
    """Those that are there, and are to prove what they hold."""
    gone: tuple[int, ...] = ()
    """Those that are to come back, after an unclean stop of all."""

    def __bool__(self) -> bool:
        return bool(self.unproven or self.gone)


_NOBODY = Awaited()
_NO_OTHER = (Standing.DOUBTFUL, Standing.FAULTY, Standing.EMPTY, Standing.NEW)
"""Which do not stay eligible beside a leader."""


def awaited(state: PartitionState, nodes: Nodes, rules: Rules, evidence: Evidence) -> Awaited:
    """Whom an election waits for, as long as that may take; nobody, where one of the members can lead."""
    if _is_well(state, nodes, evidence):
        return _NOBODY
    look = _look(state, nodes, rules, evidence)
    if len(state.replicas) == 1 or _has_steady(state, look):
        return _NOBODY
    pool = _pool(state)
    if _are_new(state, look):
        return _unknown_replicas(state, look)
    unproven = tuple(member.node_id for member in pool if look.of(member) is Standing.UNPROVEN)
    gone = tuple(member.node_id for member in pool if look.of(member) is Standing.GONE)
    sound = [member for member in pool if look.of(member) is Standing.BACK]
    return Awaited(unproven, gone if sound and _must_wait(sound, gone, look) else ())


def _look(state: PartitionState, nodes: Nodes, rules: Rules, evidence: Evidence) -> Standings:
    known = NOTHING_KNOWN if len(state.replicas) == 1 else evidence
    return Standings(state, nodes, rules.flushed_since, known)


def _pool(state: PartitionState) -> tuple[Member, ...]:
    """All that may lead without an unclean election."""
    return (*state.in_sync, *state.eligible)


def _are_new(state: PartitionState, look: Standings) -> bool:
    """Whether all members have logs that they made after they became members: lost folders, or none had one yet."""
    pool = _pool(state)
    return bool(pool) and all(look.of(member) is Standing.NEW for member in pool)


def _unknown_replicas(state: PartitionState, look: Standings) -> Awaited:
    """Replicas of which it is not known whether they hold anything."""
    alive = look.nodes.alive
    unproven = [one for one in state.replicas if one in alive and look.proof_of(one, alive[one]) is None]
    return Awaited(tuple(unproven), tuple(one for one in state.replicas if one not in alive))


def _never_written(state: PartitionState, look: Standings) -> bool:
    """Whether all stopped before any of them made its log: no replica, member or not, holds a record."""
    if not _are_new(state, look) or _unknown_replicas(state, look):
        return False
    return all(look.evidence.proofs[node_id].end_offset == 0 for node_id in state.replicas)


def _has_steady(state: PartitionState, look: Standings) -> bool:
    """Whether a process that never stopped can lead."""
    if any(look.of(member) is Standing.STEADY for member in state.in_sync):
        return True
    return any(look.of(one) is Standing.STEADY and look.nodes.is_ready(one.node_id) for one in state.eligible)


def _is_awaiting_proofs(state: PartitionState, look: Standings) -> bool:
    """Whether nothing is decided before brokers that are there have proved what they hold."""
    if _has_steady(state, look):
        return False
    silent = look.evidence.silent
    return any(look.of(one) is Standing.UNPROVEN and one.node_id not in silent for one in _pool(state))


def _must_wait(sound: Sequence[Member], gone: Sequence[object], look: Standings) -> bool:
    """Whether the best copy that is there may be outdone by one that is not: its own disk may be the one that lies."""
    if not gone or look.evidence.is_overdue:
        return False
    return not any(look.nodes.is_clean(member) for member in _best(sound, look))


def _best(members: Sequence[Member], look: Standings) -> list[Member]:
    """Those with the greatest extent; all, where an older broker cannot prove its own."""
    if not all(look.nodes.alive[member.node_id].proves_logs for member in members):
        return list(members)
    extents = {member.node_id: look.evidence.extent(member.node_id) for member in members}
    # An epoch that no leader has had yet is not what was written; where all have one, it is the store that is older.
    possible = [extent for extent in extents.values() if extent[0] <= look.leader_epoch]
    greatest = max(possible or extents.values())
    return [member for member in members if extents[member.node_id] == greatest]


def _marked(after: PartitionState, before: PartitionState, look: Standings) -> PartitionState:
    """Enter and remove replicas that are to be repaired."""
    faults, alive = look.evidence.faults, look.nodes.alive
    # Without a leader there is nobody to repair a copy from, and it may be the best one.
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


def parted(after: PartitionState, before: PartitionState) -> PartitionState:
    """Another epoch where somebody is a replica no longer.

    It may hear of that late, and be made a replica again before it does: what it then still says of the copy that
    it is going to delete must not count.
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
    if _look(state, nodes, rules, evidence).of(member) is not Standing.STEADY:
        return state
    return _led_by(state, first)


def with_in_sync(
    state: PartitionState, in_sync: Sequence[int], joined: Mapping[int, int], rules: Rules
) -> PartitionState:
    """The leader's wish: another in-sync set. `joined` are the broker epochs of those that are new in it."""
    members = {member.node_id: member for member in state.in_sync}
    kept = tuple(members[node_id] if node_id in members else Member(node_id, joined[node_id]) for node_id in in_sync)
    if len(kept) >= min(rules.min_insync_replicas, len(state.target)):
        return replace(state, in_sync=kept, eligible=())
    dropped = tuple(member for member in state.in_sync if member.node_id not in in_sync)
    still = tuple(member for member in state.eligible if member.node_id not in in_sync)
    return replace(state, in_sync=kept, eligible=dropped + still)


def recover(state: PartitionState, nodes: Nodes, evidence: Evidence = NOTHING_KNOWN) -> PartitionState:
    """An operator asks for a leader at any price: the best copy that is there, and what it has is the truth."""
    alive = _alive_by_worth(state, nodes, evidence)
    if state.leader != NO_LEADER or not alive:
        return state
    return _recovered(state, alive[0], nodes)


def _alive_by_worth(state: PartitionState, nodes: Nodes, evidence: Evidence) -> list[int]:
    """Replicas that could lead at any price: those that can be opened, the one that loses least first."""
    alive = [node_id for node_id in state.target if nodes.is_ready(node_id) and not _is_offline(node_id, evidence)]
    return sorted(alive, key=evidence.worth, reverse=True)


def _is_offline(node_id: int, evidence: Evidence) -> bool:
    fault, proof = evidence.faults.get(node_id), evidence.proofs.get(node_id)
    return (fault is not None and fault.is_offline) or (proof is not None and proof.is_offline)


def led_by_a_member(state: PartitionState, nodes: Nodes) -> PartitionState:
    """Where whoever leads is not in sync any more, because its copy is to go, somebody else leads; or nobody."""
    if state.leader in (NO_LEADER, *state.in_sync_nodes):
        return state
    ready = [node_id for node_id in state.replicas if node_id in state.in_sync_nodes and nodes.is_ready(node_id)]
    return _led_by(state, ready[0] if ready else NO_LEADER)


def _members(state: PartitionState, look: Standings, rules: Rules) -> PartitionState:
    """Which replicas are in sync and which are eligible, as things stand."""
    standing = {member.node_id: look.of(member) for member in _pool(state)}
    steady = [member for member in state.in_sync if standing[member.node_id] is Standing.STEADY]
    stays = [member for member in steady if look.nodes.is_ready(member.node_id)] or steady
    if not stays and not _has_steady(state, look):
        stays = _proven(state, standing, look) or _still_serving(state, look)
    if stays:
        return replace(state, in_sync=tuple(stays), eligible=_eligible(state, stays, standing, rules))
    in_sync, eligible = list[Member](), list[Member]()
    for member in state.in_sync:
        if standing[member.node_id] is not Standing.EMPTY:
            (eligible if standing[member.node_id] is Standing.DOUBTFUL else in_sync).append(member)
    eligible += [one for one in state.eligible if standing[one.node_id] is not Standing.EMPTY and one not in eligible]
    return replace(state, in_sync=tuple(in_sync), eligible=tuple(eligible))


def _proven(state: PartitionState, standing: Mapping[int, Standing], look: Standings) -> list[Member]:
    """The members by what their brokers have proved, each as of now; none where others are to be waited for."""
    pool, nodes = _pool(state), look.nodes
    sound = [member for member in pool if standing[member.node_id] is Standing.BACK]
    gone = [member for member in pool if standing[member.node_id] is Standing.GONE]
    if sound:
        return [] if _must_wait(sound, gone, look) else [nodes.as_member(one.node_id) for one in _best(sound, look)]
    if _never_written(state, look):
        return [nodes.as_member(member.node_id) for member in pool]
    doubtful = [member for member in pool if standing[member.node_id] is Standing.DOUBTFUL]
    if not doubtful or gone or any(standing[member.node_id] is Standing.UNPROVEN for member in pool):
        return []
    named = [member for member in doubtful if member in state.in_sync] or doubtful
    best = sorted(_best(doubtful, look), key=lambda one: (one not in named, one.node_id != state.leader))
    return [nodes.as_member(best[0].node_id)]


def _still_serving(state: PartitionState, look: Standings) -> list[Member]:
    """A process that leads a damaged copy, where no sound one is there: it serves what it has."""
    fault = look.evidence.faults.get(state.leader)
    member = next((member for member in state.in_sync if member.node_id == state.leader), None)
    if member is None or fault is None or fault.is_offline or not look.nodes.is_same_process(member):
        return []
    return [member if look.nodes.is_steady(member) else look.nodes.as_member(member.node_id)]


def _eligible(
    state: PartitionState, in_sync: Sequence[Member], standing: Mapping[int, Standing], rules: Rules
) -> tuple[Member, ...]:
    """Members that left and miss nothing, because too few are left for anything to be committed.

    One that is back beside others that are back, too, and proved less than they, may miss something.
    """
    if len(in_sync) >= min(rules.min_insync_replicas, len(state.target)):
        return ()
    present = {member.node_id for member in in_sync}
    allowed = [Standing.STEADY, Standing.GONE, Standing.UNPROVEN]
    if any(member in state.in_sync for member in in_sync):
        allowed.append(Standing.BACK)
    return tuple(one for one in _pool(state) if one.node_id not in present and standing[one.node_id] in allowed)


def _moved(state: PartitionState) -> PartitionState:
    """End a reassignment once every replica of the target is in sync."""
    in_sync = set(state.in_sync_nodes)
    if not (state.adding or state.removing) or not in_sync.issuperset(state.target):
        return state
    kept = tuple(member for member in state.in_sync if member.node_id in state.target)
    return replace(state, replicas=state.target, adding=(), removing=(), in_sync=kept)


def _elected(state: PartitionState, before: PartitionState, look: Standings, rules: Rules) -> PartitionState:
    in_sync, nodes = state.in_sync_nodes, look.nodes
    if state.leader in in_sync and _still_leads(state.leader, before, look):
        return state
    candidates = [node_id for node_id in _steady_first(state, before) if _may_lead(state, node_id, before, look)]
    for node_id in (*(one for one in candidates if nodes.is_ready(one)), *candidates):
        return _led_by(state, node_id)
    for member in sorted(state.eligible, key=lambda member: _place(state, member.node_id)):
        if nodes.is_ready(member.node_id) and look.of(member) is Standing.STEADY:
            return _led_by_eligible(state, member, look)
    alive = _alive_by_worth(state, nodes, look.evidence)
    is_waiting = not look.evidence.is_overdue and bool(awaited(before, nodes, rules, look.evidence).gone)
    if rules.is_unclean_allowed and alive and not is_waiting:
        return _recovered(state, alive[0], nodes)
    return state if state.leader == NO_LEADER else _led_by(state, NO_LEADER)


def _may_lead(state: PartitionState, node_id: int, before: PartitionState, look: Standings) -> bool:
    """Whether a member of the set as it should be is there to lead: it never stopped, or has proved what it holds."""
    member = next(member for member in state.in_sync if member.node_id == node_id)
    if node_id not in look.nodes.alive or not look.nodes.is_steady(member):
        return False
    return member not in before.in_sync or look.of(member) is Standing.STEADY


def _led_by_eligible(state: PartitionState, member: Member, look: Standings) -> PartitionState:
    # A member of the set misses nothing either, as long as nothing can be committed without it.
    others = tuple(one for one in _pool(state) if one.node_id != member.node_id and look.of(one) not in _NO_OTHER)
    led = _led_by(state, member.node_id)
    return replace(led, in_sync=(look.nodes.as_member(member.node_id),), eligible=others)


def _still_leads(leader: int, before: PartitionState, look: Standings) -> bool:
    """Whether the leader there is goes on in its epoch."""
    nodes = look.nodes
    if len(before.replicas) == 1:
        return leader in nodes.alive
    member = next((member for member in before.in_sync if member.node_id == leader), None)
    if member is None or not nodes.is_steady(member):
        return False
    if look.of(member) is Standing.FAULTY:
        return not _is_offline(leader, look.evidence) and not _has_steady(before, look)
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
