"""One member's next step from its current to its target assignment: revoke first, then assign.

    STABLE ─ new target ─▶ UNREVOKED ─ has revoked ─▶ UNRELEASED ─ others have revoked ─▶ STABLE

A state without anything to wait for is skipped. Only in UNREVOKED a member stays in its old epoch: so
its commits for the partitions that it revokes still count.
"""

from __future__ import annotations

from collections.abc import Mapping

from qanat.groups.consumer.records import CurrentAssignmentRecord, MemberState, Partitions, TopicIdPartition


def next_step(
    current: CurrentAssignmentRecord,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    owners: Mapping[TopicIdPartition, str],
) -> CurrentAssignmentRecord:
    """The member's state after a heartbeat in which it reports to own `owned`; None where it reports nothing."""
    match current.state:
        case MemberState.STABLE:
            is_behind = current.epoch != target_epoch
            return _towards(current, current.epoch, target_epoch, target, owned, owners) if is_behind else current
        case MemberState.UNREVOKED:
            if _still_has(current.revoking, owned):
                return current
            return _towards(current, current.epoch + 1, target_epoch, target, owned, owners)
        case MemberState.UNRELEASED:
            return _towards(current, current.epoch, target_epoch, target, owned, owners)


def _still_has(revoking: Partitions, owned: Partitions | None) -> bool:
    return owned is None or any(at in revoking for at in owned)


def _towards(
    current: CurrentAssignmentRecord,
    epoch: int,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    owners: Mapping[TopicIdPartition, str],
) -> CurrentAssignmentRecord:
    wanted = dict.fromkeys(target)
    kept = tuple(at for at in current.assigned if at in wanted)
    revoking = tuple(at for at in current.assigned if at not in wanted)
    if revoking and _still_has(revoking, owned):
        return _moved(current, epoch, MemberState.UNREVOKED, kept, revoking)
    had = dict.fromkeys(kept)
    missing = [at for at in target if at not in had]
    free = [at for at in missing if at not in owners]
    state = MemberState.UNRELEASED if len(free) < len(missing) else MemberState.STABLE
    return _moved(current, target_epoch, state, tuple(sorted([*kept, *free])), ())


def _moved(
    current: CurrentAssignmentRecord, epoch: int, state: MemberState, assigned: Partitions, revoking: Partitions
) -> CurrentAssignmentRecord:
    return CurrentAssignmentRecord(current.group_id, current.member_id, epoch, current.epoch, state, assigned, revoking)
