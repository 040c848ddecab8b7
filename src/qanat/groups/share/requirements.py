"""The checks of a share group's heartbeat."""

from __future__ import annotations

from qanat.groups.consumer.requirements import JOINING, LEAVING, LONGEST_NAME, Refusal
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.requests import ShareHeartbeat
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.records import ShareCurrentRecord
from qanat.model.error_codes import ErrorCode


def malformed(request: ShareHeartbeat) -> Refusal | None:
    """The fault of a heartbeat from any member; None where there is none."""
    fault = _missing(request)
    return None if fault is None else Refusal(ErrorCode.INVALID_REQUEST, fault)


def _missing(request: ShareHeartbeat) -> str | None:
    names = {"GroupId": request.group_id, "MemberId": request.member_id, "RackId": request.rack_id}
    for name, value in names.items():
        if value is not None and not 0 < len(value.strip()) <= LONGEST_NAME:
            return f"{name} can't be empty, or longer than {LONGEST_NAME} characters."
    if request.member_epoch < LEAVING:
        return "MemberEpoch is invalid."
    if request.member_epoch == JOINING and not request.topics:
        return "SubscribedTopicNames must be set in first request."
    return None


def is_taken(builder: DecisionBuilder, group_id: str) -> bool:
    """Whether a group of another kind has this name."""
    return group_id in builder.state.groups or group_id in builder.state.ledger.consumers


def epoch_refusal(current: ShareCurrentRecord, epoch: int) -> Refusal | None:
    """A member may be one epoch behind: the answer with its new one may be lost. It may always start again."""
    if epoch in (current.epoch, JOINING) or (epoch < current.epoch and epoch == current.previous_epoch):
        return None
    size = "greater" if epoch > current.epoch else "smaller"
    text = (
        f"The share group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({current.epoch}). The member must abandon all its partitions and rejoin."
    )
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, text)


def no_share_group(group_id: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")


def unknown_member(group: ShareGroup, member_id: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
