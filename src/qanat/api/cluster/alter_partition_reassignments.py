"""AlterPartitionReassignments (45): move partitions to other brokers, or cancel a move.

v0   flexible from the start; null for the replicas cancels    v1   whether the number of replicas may change (KIP-860)

The answer comes when the move is decided and stored; ListPartitionReassignments shows whether it is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.admin_tasks import TIMED_OUT, attempt, run_to_end
from qanat.api.cluster.authorization import DENIED, needs_cluster
from qanat.api.request_context import RequestContext
from qanat.cluster.image import MetadataImage
from qanat.cluster.reassignments import PartitionPlan, decide_reassignment
from qanat.cluster.rejection import Rejection
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: AlterPartitionReassignmentsRequest, access: AccessCheck) -> Verdict:
    """ALTER on the cluster."""
    rows = [
        ReassignableTopicResponse(
            topic.name, [ReassignablePartitionResponse(one.partition_index, DENIED, None) for one in topic.partitions]
        )
        for topic in request.topics
    ]
    refused = AlterPartitionReassignmentsResponse(error_code=DENIED, error_message=None, responses=rows)
    return needs_cluster(Operation.ALTER, access, refused)


async def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    may_resize = request.allow_replication_factor_change
    answers = [
        ReassignableTopicResponse(
            topic.name,
            [ReassignablePartitionResponse(one.partition_index, *_error_of(TIMED_OUT)) for one in topic.partitions],
        )
        for topic in request.topics
    ]

    async def move_all() -> None:
        async for topic, answer in context.yielder.over(zip(request.topics, answers, strict=True)):
            for asked, row in zip(topic.partitions, answer.partitions, strict=True):
                outcome = await _move(topic.name, asked, context, may_resize=may_resize)
                row.error_code, row.error_message = _error_of(outcome)

    await run_to_end(context.broker, move_all(), request.timeout_ms)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_resize, error_message=None, responses=answers
    )


async def _move(
    topic: str, asked: ReassignablePartition, context: RequestContext, *, may_resize: bool
) -> PartitionPlan | Rejection:
    def decide(image: MetadataImage) -> PartitionPlan | Rejection:
        known = image.topics.get(topic)
        is_known = known is not None and 0 <= asked.partition_index < len(known.partitions)
        if known is not None and is_known and asked.replicas is not None and not may_resize:
            present = len(image.state(known, asked.partition_index).target)
            if present != len(asked.replicas):
                return Rejection(
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    f"This changes the replication factor from {present} to {len(asked.replicas)}: not allowed.",
                )
        return decide_reassignment(image, topic, asked.partition_index, asked.replicas)

    return await attempt(context.broker.metadata_changes.carry_out(decide))


def _error_of(outcome: PartitionPlan | Rejection) -> tuple[ErrorCode, str | None]:
    return (outcome.code, outcome.message) if isinstance(outcome, Rejection) else (ErrorCode.NONE, None)
