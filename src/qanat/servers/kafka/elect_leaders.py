"""ElectLeaders (43): let first replicas lead again; or let any replica lead where nobody can.

v0   preferred leaders    v1   the kind of election: 0 preferred, 1 unclean    v2   flexible

Null for the partitions means all; then only those are told whose leader was changed, or could not be.
"""

from __future__ import annotations

from qanat.cluster.image import MetadataImage
from qanat.cluster.reassignments import PartitionPlan, decide_election
from qanat.cluster.rejection import Rejection
from qanat.model.error_codes import ErrorCode
from qanat.servers.kafka.acts import TIMED_OUT, attempt, carry_through
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_PREFERRED, _UNCLEAN = 0, 1


async def handle(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    image = context.broker.metadata.image
    is_all = request.topic_partitions is None
    wanted = {name: list(range(len(topic.partitions))) for name, topic in sorted(image.topics.items())}
    if request.topic_partitions is not None:
        wanted = {topic.topic: list(topic.partitions) for topic in request.topic_partitions}
    answers = {
        name: {number: PartitionResult(number, TIMED_OUT.code, TIMED_OUT.message) for number in numbers}
        for name, numbers in wanted.items()
    }

    async def elect_all() -> None:
        for name, rows in answers.items():
            async for number, row in context.breaths.over(list(rows.items())):
                outcome = await _elect(name, number, context, is_unclean=request.election_type == _UNCLEAN)
                row.error_code, row.error_message = ErrorCode.NONE, None
                if isinstance(outcome, Rejection):
                    row.error_code, row.error_message = outcome.code, outcome.message
                if is_all and row.error_code == ErrorCode.ELECTION_NOT_NEEDED:
                    del rows[number]

    await carry_through(context.broker, elect_all(), request.timeout_ms)
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(name, list(rows.values())) for name, rows in answers.items() if rows
        ]
    )


async def _elect(topic: str, number: int, context: Context, *, is_unclean: bool) -> PartitionPlan | Rejection:
    broker = context.broker

    def decide(image: MetadataImage) -> PartitionPlan | Rejection:
        rules = broker.rules_of(topic)
        return decide_election(image, topic, number, rules, is_unclean=is_unclean)

    return await attempt(broker.carry_out(decide))
