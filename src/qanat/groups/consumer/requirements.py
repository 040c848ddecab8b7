"""The checks of a heartbeat.

Versions 0 and 1 differ in who draws a new member's id: the coordinator, or from 1 on the member itself (KIP-1082).
"""

from __future__ import annotations

from collections.abc import Iterable

from qanat.groups.consumer.group import GONE_FOR_A_WHILE, ConsumerGroup
from qanat.groups.consumer.records import ConsumerMemberRecord, CurrentAssignmentRecord, Partitions
from qanat.groups.consumer.subscriptions import expression_error
from qanat.groups.refusals import JOINING, LONGEST_NAME, Refusal, bad_name, fenced
from qanat.groups.requests import ConsumerHeartbeat
from qanat.model.error_codes import ErrorCode

MOST_TOPICS = 10_000
"""Topics of one subscription by name: a group decides in one step, and all other groups wait for it."""


def malformed(request: ConsumerHeartbeat, assignors: Iterable[str]) -> Refusal | None:
    """The fault of a heartbeat from any member; None where there is none."""
    fault = _missing(request)
    if fault is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, fault)
    if request.assignor is not None and request.assignor not in assignors:
        names = ", ".join(assignors)
        return Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {request.assignor} is not supported; there are {names}."
        )
    if request.expression:
        reason = expression_error(request.expression)
        if reason is not None:
            return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex: {reason}")
    return None


def _missing(request: ConsumerHeartbeat) -> str | None:
    names = (("GroupId", request.group_id), ("InstanceId", request.instance_id), ("RackId", request.rack_id))
    if (fault := bad_name(names)) is not None:
        return fault
    if len(request.member_id) > LONGEST_NAME:
        return f"MemberId can't be longer than {LONGEST_NAME} characters."
    if request.topics is not None and len(request.topics) > MOST_TOPICS:
        return f"SubscribedTopicNames can't name more than {MOST_TOPICS} topics; subscribe by an expression."
    epoch = request.member_epoch
    if not request.member_id and (epoch != JOINING or request.brings_its_id):
        return "MemberId can't be empty."
    if epoch == GONE_FOR_A_WHILE and request.instance_id is None:
        return "InstanceId can't be null."
    if epoch < GONE_FOR_A_WHILE:
        return "MemberEpoch is invalid."
    return _missing_to_join(request) if epoch == JOINING else None


def _missing_to_join(request: ConsumerHeartbeat) -> str | None:
    if request.rebalance_timeout_ms < 0:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.owned is None or request.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if request.topics is None and request.expression is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


def epoch_refusal(current: CurrentAssignmentRecord, epoch: int, owned: Partitions | None) -> Refusal | None:
    """A member may be one epoch behind if it owns nothing that is not its own: the answer with its new one may be lost.

    It may always start again: a joining member owns nothing.
    """
    if epoch in (current.epoch, JOINING):
        return None
    is_lost_reply = (
        epoch < current.epoch
        and epoch == current.previous_epoch
        and owned is not None
        and all(at in current.assigned for at in owned)
    )
    return None if is_lost_reply else fenced("consumer", epoch, current.epoch)


def named_refusal(group: ConsumerGroup, member_id: str, instance_id: str) -> Refusal | None:
    """Why a static member is refused; None where it has its instance id."""
    present = group.static_members.get(instance_id)
    if present is None:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if present != member_id:
        text = f"Static member {member_id} with instance id {instance_id} was fenced by member {present}."
        return Refusal(ErrorCode.FENCED_INSTANCE_ID, text)
    return None


def unreleased(group: ConsumerGroup, present: ConsumerMemberRecord, member_id: str) -> Refusal | None:
    """A static member's place goes to another only after it has left it temporarily."""
    if group.current_of(present.member_id).epoch == GONE_FOR_A_WHILE or present.is_classic:
        return None
    text = (
        f"Static member {member_id} with instance id {present.instance_id} cannot join the group because the "
        f"instance id is owned by {present.member_id} member."
    )
    return Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, text)
