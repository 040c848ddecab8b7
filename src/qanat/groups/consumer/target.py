"""The target assignment: made by an assignor, written where it differs."""

from __future__ import annotations

from qanat.groups.assignors.assignor import AssignedMember, Assignor
from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.records import TargetAssignmentRecord, TargetEpochRecord
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.target_assignment import changed_targets


def assign(builder: DecisionBuilder, group: ConsumerGroup) -> None:
    """Bring the target to the group's epoch, if it is not there."""
    if group.epoch <= group.target_epoch:
        return
    assignor = builder.state.assignors[preferred_assignor(group, builder.state.assignors)]
    subscribers = {
        member_id: AssignedMember(group.topics_of(member), instance_id=member.instance_id, rack_id=member.rack_id)
        for member_id, member in group.members.items()
    }
    for member_id, target in changed_targets(assignor, subscribers, group.targets, builder.state.topics).items():
        builder.write(TargetAssignmentRecord(group.group_id, member_id, target))
    builder.write(TargetEpochRecord(group.group_id, group.epoch))


def preferred_assignor(group: ConsumerGroup, installed: dict[str, Assignor]) -> str:
    """The assignor that most members request; the broker's first where none is requested."""
    votes: dict[str, int] = {}
    for member in group.members.values():
        if member.assignor in installed:
            votes[member.assignor] = votes.get(member.assignor, 0) + 1
    return max(votes, key=votes.__getitem__) if votes else next(iter(installed))
