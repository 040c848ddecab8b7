"""ListPartitionReassignments (46): partitions that are being moved, with the brokers they leave and join.

v0   flexible from the start; null for the topics means all
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.cluster.authorization import DENIED, needs_cluster
from qanat.api.request_context import RequestContext
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: ListPartitionReassignmentsRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on the cluster."""
    rows = [
        OngoingTopicReassignment(
            topic.name, [OngoingPartitionReassignment(number) for number in topic.partition_indexes]
        )
        for topic in request.topics or ()
    ]
    refused = ListPartitionReassignmentsResponse(error_code=DENIED, error_message=None, topics=rows)
    return needs_cluster(Operation.DESCRIBE, access, refused)


async def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    image = context.broker.metadata.image
    asked: dict[str, list[int] | None] = dict.fromkeys(sorted(image.topics))
    if request.topics is not None:
        asked = {topic.name: topic.partition_indexes for topic in request.topics}
    found: list[OngoingTopicReassignment] = []
    async for name, numbers in context.yielder.over(asked.items()):
        topic = image.topics.get(name)
        if topic is None:
            continue
        rows = []
        for number in range(len(topic.partitions)) if numbers is None else numbers:
            if 0 <= number < len(topic.partitions):
                state = image.state(topic, number)
                if state.adding or state.removing:
                    rows.append(
                        OngoingPartitionReassignment(
                            number, list(state.replicas), list(state.adding), list(state.removing)
                        )
                    )
        if rows:
            found.append(OngoingTopicReassignment(name, rows))
    return ListPartitionReassignmentsResponse(error_message=None, topics=found)
