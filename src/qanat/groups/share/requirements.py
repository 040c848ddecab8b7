"""What a heartbeat of a share group must be, and who may send it."""

from __future__ import annotations

from qanat.groups.consumer.requirements import JOINING, LEAVING, LONGEST_NAME, Refusal
from qanat.groups.requests import ShareHeartbeat
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.records import ShareCurrentRecord
from qanat.groups.turn import Turn
from qanat.model.error_codes import ErrorCode


def malformed(request: ShareHeartbeat) -> Refusal | None:
    """What is wrong with a heartbeat, whoever sends it; None where nothing is."""
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


def is_taken(turn: Turn, group_id: str) -> bool:
    """Whether a group of another kind has this name."""
    return group_id in turn.state.groups or group_id in turn.state.ledger.consumers


def epoch_refusal(current: ShareCurrentRecord, epoch: int) -> Refusal | None:
    """A member may be one epoch behind: it may not have heard of its new one. It may always begin anew."""
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
