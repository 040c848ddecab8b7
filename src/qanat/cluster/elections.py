"""Who leads a partition, decided from how its replicas stand now.

`settle` is the whole of it: given a partition's state and the nodes, it says how the state should be. It
looks at levels, not at events: members carry since when they have been members, so that a broker
that went and came back between two looks is seen all the same. Running it twice changes nothing.

Rule 1: only a member of the in-sync set leads. Where none is alive, an eligible replica does (KIP-966: it left while
        nothing could be committed any more, so it misses nothing); failing that, the partition waits without a
        leader, unless its topic allows an unclean election.
Rule 2: every change of the leader, also to none and also to a new process of the same broker, is a new epoch. The sole
        replica of a partition is spared that: nobody else has a copy that could differ.
Rule 3: a member is dropped from the set when its process is gone, as long as somebody is left. The last ones stay, so
        that it is known who must come back.
Rule 4: a node that came back without its data is no member of anything.
Rule 5: after a crash, a member of a topic that is not flushed before it is acknowledged has perhaps lost its end. It
        does not lead while anybody better is known, alive or not; but it is remembered until somebody leads. Where all
        are in doubt, one of those that the set still names leads, alone, else whoever left it last: which of them has
        most is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from qanat.cluster.nodes import Nodes, Standing
from qanat.cluster.values import NO_LEADER, Member, PartitionState


class Rules(Struct, frozen=True):
    """What a topic's settings say about its elections."""

    min_insync_replicas: int = 1
    is_flushed: bool = True
    is_unclean_allowed: bool = False


_SOUND = (Standing.STEADY, Standing.BACK)


def settle(state: PartitionState, nodes: Nodes, rules: Rules) -> PartitionState:
    """The state as it should be; the same object where that is how it is."""
    settled = parted(_elected(_moved(_members(state, nodes, rules)), state, nodes, rules), state)
    return state if settled == state else settled


def parted(after: PartitionState, before: PartitionState) -> PartitionState:
    """Another epoch where somebody is a replica no longer.

    It may hear of that late, and be made a replica again before it does: what it then still says of the copy that
    it is going to delete must not count.
    """
    is_parted = any(node_id not in after.replicas for node_id in before.replicas)
    if not is_parted or after.leader == NO_LEADER or after.leader_epoch > before.leader_epoch:
        return after
    return replace(after, leader_epoch=after.leader_epoch + 1)


def prefer(state: PartitionState, nodes: Nodes, rules: Rules) -> PartitionState:
    """Let the preferred replica lead, if it can; the same object where it does, or cannot."""
    first = state.target[0]
    member = next((member for member in state.in_sync if member.node_id == first), None)
    if state.leader in (first, NO_LEADER) or member is None or not nodes.is_ready(first):
        return state
    if nodes.standing(member, is_flushed=rules.is_flushed) is not Standing.STEADY:
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


def recover(state: PartitionState, nodes: Nodes) -> PartitionState:
    """An operator asks for a leader at any price: the first replica that is alive, and what it has is the truth."""
    alive = [node_id for node_id in state.target if nodes.is_ready(node_id)]
    if state.leader != NO_LEADER or not alive:
        return state
    return _recovered(state, alive[0], nodes)


def led_by_a_member(state: PartitionState, nodes: Nodes) -> PartitionState:
    """Where whoever leads is not in sync any more, because its copy is to go, somebody else leads; or nobody."""
    if state.leader in (NO_LEADER, *state.in_sync_nodes):
        return state
    ready = [node_id for node_id in state.replicas if node_id in state.in_sync_nodes and nodes.is_ready(node_id)]
    return _led_by(state, ready[0] if ready else NO_LEADER)


def _members(state: PartitionState, nodes: Nodes, rules: Rules) -> PartitionState:
    """Who is in sync and who is eligible, as things stand."""
    standing = {
        member.node_id: nodes.standing(member, is_flushed=rules.is_flushed)
        for member in (*state.in_sync, *state.eligible)
    }
    kept = [_renewed(member, standing, nodes) for member in state.in_sync if standing[member.node_id] in _SOUND]
    awaited = [member for member in (*state.in_sync, *state.eligible) if standing[member.node_id] is Standing.GONE]
    sound = [member for member in state.eligible if standing[member.node_id] in _SOUND]
    doubtful = [member for member in state.in_sync if standing[member.node_id] is Standing.DOUBTFUL]
    if not doubtful and not state.in_sync:
        doubtful = [member for member in state.eligible if standing[member.node_id] is Standing.DOUBTFUL]
    stays = [member for member in kept if nodes.is_ready(member.node_id)] or kept
    if not stays and not sound and not awaited:
        # Nobody better is known: what the last one has is all there is.
        last = sorted(doubtful, key=lambda member: member.node_id != state.leader)[:1]
        stays = [_renewed(member, standing, nodes) for member in last]
    if not stays:
        in_sync = [member for member in state.in_sync if standing[member.node_id] is Standing.GONE]
        eligible = [member for member in state.eligible if standing[member.node_id] is not Standing.EMPTY]
        left = [member for member in doubtful if member not in eligible]
        return replace(state, in_sync=tuple(in_sync), eligible=(*left, *eligible))
    return replace(state, in_sync=tuple(stays), eligible=_eligible(state, stays, standing, rules))


def _eligible(
    state: PartitionState, in_sync: Sequence[Member], standing: dict[int, Standing], rules: Rules
) -> tuple[Member, ...]:
    """Whoever left and misses nothing, because too few are left for anything to be committed."""
    if len(in_sync) >= min(rules.min_insync_replicas, len(state.target)):
        return ()
    present = {member.node_id for member in in_sync}
    return tuple(
        member
        for member in (*state.in_sync, *state.eligible)
        if member.node_id not in present and standing[member.node_id] in (*_SOUND, Standing.GONE)
    )


def _renewed(member: Member, standing: dict[int, Standing], nodes: Nodes) -> Member:
    return member if standing[member.node_id] is Standing.STEADY else nodes.as_member(member.node_id)


def _moved(state: PartitionState) -> PartitionState:
    """End a reassignment once every replica of the target is in sync."""
    in_sync = set(state.in_sync_nodes)
    if not (state.adding or state.removing) or not in_sync.issuperset(state.target):
        return state
    kept = tuple(member for member in state.in_sync if member.node_id in state.target)
    return replace(state, replicas=state.target, adding=(), removing=(), in_sync=kept)


def _elected(state: PartitionState, before: PartitionState, nodes: Nodes, rules: Rules) -> PartitionState:
    in_sync = state.in_sync_nodes
    if state.leader in in_sync and _still_leads(state.leader, before, nodes, rules):
        return state
    for candidates in (_steady_first(state, before, nodes), in_sync):
        for node_id in candidates:
            if nodes.is_ready(node_id) or (node_id in nodes.alive and candidates is in_sync):
                return _led_by(state, node_id)
    for member in sorted(state.eligible, key=lambda member: _place(state, member.node_id)):
        if nodes.is_ready(member.node_id) and nodes.standing(member, is_flushed=rules.is_flushed) in _SOUND:
            led = _led_by(state, member.node_id)
            # Whoever was in sync misses nothing either, as long as nothing can be committed without it.
            others = tuple(
                one
                for one in (*state.in_sync, *state.eligible)
                if one.node_id != member.node_id
                and nodes.standing(one, is_flushed=rules.is_flushed) is not Standing.DOUBTFUL
            )
            return replace(led, in_sync=(nodes.as_member(member.node_id),), eligible=others)
    alive = [node_id for node_id in state.target if nodes.is_ready(node_id)]
    if rules.is_unclean_allowed and alive:
        return _recovered(state, alive[0], nodes)
    return state if state.leader == NO_LEADER else _led_by(state, NO_LEADER)


def _still_leads(leader: int, before: PartitionState, nodes: Nodes, rules: Rules) -> bool:
    """Whether the leader there is goes on in its epoch."""
    if len(before.replicas) == 1:
        return leader in nodes.alive
    member = next((member for member in before.in_sync if member.node_id == leader), None)
    if member is None or nodes.standing(member, is_flushed=rules.is_flushed) is not Standing.STEADY:
        return False
    return nodes.is_ready(leader) or not any(nodes.is_ready(node_id) for node_id in before.in_sync_nodes)


def _steady_first(state: PartitionState, before: PartitionState, nodes: Nodes) -> list[int]:
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
