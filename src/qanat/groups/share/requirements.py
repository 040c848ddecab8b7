"""The checks of a share group's heartbeat."""

from __future__ import annotations

from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.refusals import JOINING, LEAVING, Refusal, bad_name, fenced
from qanat.groups.requests import ShareHeartbeat
from qanat.groups.share.records import ShareCurrentRecord
from qanat.model.error_codes import ErrorCode


def malformed(request: ShareHeartbeat) -> Refusal | None:
    """The fault of a heartbeat from any member; None where there is none."""
    fault = _missing(request)
    return None if fault is None else Refusal(ErrorCode.INVALID_REQUEST, fault)


def _missing(request: ShareHeartbeat) -> str | None:
    names = (("GroupId", request.group_id), ("MemberId", request.member_id), ("RackId", request.rack_id))
    if (fault := bad_name(names)) is not None:
        return fault
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
    return fenced("share", epoch, current.epoch)
