"""Who may commit and fetch offsets of a group of the new protocol: its members, in their current epoch.

Other clients may fetch at any time, and commit while the group is empty.
"""

from __future__ import annotations

from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.records import ConsumerMemberRecord
from qanat.groups.requests import CommitOffsets, CommitTransactionOffsets, FetchOffsets
from qanat.model.error_codes import ErrorCode


def commit_error(group: ConsumerGroup, request: CommitOffsets) -> ErrorCode:
    if request.generation_id < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not member.is_classic and not request.knows_member_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    return _epoch_error(group, member, request.generation_id)


def transaction_commit_error(group: ConsumerGroup, request: CommitTransactionOffsets) -> ErrorCode:
    """Producers from before KIP-447 name no member; the transaction alone fences them."""
    if request.generation_id < 0 and (not group.members or request.member_id == ""):
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = _epoch_error(group, member, request.generation_id)
    return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error


def fetch_error(group: ConsumerGroup, request: FetchOffsets) -> ErrorCode:
    if request.member_id is None and request.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(request.member_id or "")
    return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _epoch_error(group, member, request.member_epoch)


def _epoch_error(group: ConsumerGroup, member: ConsumerMemberRecord, epoch: int) -> ErrorCode:
    if group.current_of(member.member_id).epoch == epoch:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
