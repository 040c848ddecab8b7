"""The target assignment of a share group, written where it differs."""

from __future__ import annotations

from qanat.groups.assignors.assignor import AssignedMember
from qanat.groups.assignors.simple import SimpleAssignor
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.records import ShareTargetEpochRecord, ShareTargetRecord
from qanat.groups.target_assignment import changed_targets

ASSIGNOR = SimpleAssignor()
"""Kafka's only one for share groups, too."""


def assign(builder: DecisionBuilder, group: ShareGroup) -> None:
    """Bring the target to the group's epoch, if it is not there."""
    if group.epoch <= group.target_epoch:
        return
    subscribers = {member_id: AssignedMember(member.topics) for member_id, member in group.members.items()}
    for member_id, target in changed_targets(ASSIGNOR, subscribers, group.targets, builder.state.topics).items():
        builder.write(ShareTargetRecord(group.group_id, member_id, target))
    builder.write(ShareTargetEpochRecord(group.group_id, group.epoch))
