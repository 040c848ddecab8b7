"""ElectLeaders (43): elect the preferred leader, or any replica where a partition has no leader.

v0   preferred leaders    v1   the kind of election: 0 preferred, 1 unclean    v2   flexible

Null for the partitions means all; the answer then names only those whose leader changed, or could not.

Before an unclean election the live replicas report what they hold, and the one that loses least becomes leader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from qanat.api.admin_tasks import TIMED_OUT, attempt, run_to_end
from qanat.api.cluster.authorization import DENIED, needs_cluster
from qanat.api.request_context import RequestContext
from qanat.broker.replicas.replica_logs import PartitionRef
from qanat.cluster.image import MetadataImage
from qanat.cluster.proofs import NOTHING_KNOWN, Evidence, Proof
from qanat.cluster.reassignments import PartitionPlan, decide_election
from qanat.cluster.rejection import Rejection
from qanat.cluster.values import NO_LEADER
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_PREFERRED, _UNCLEAN = 0, 1
Proofs = Mapping[PartitionRef, Mapping[int, Proof]]


def authorize(request: ElectLeadersRequest, access: AccessCheck) -> Verdict:
    """ALTER on the cluster. A refusal stands at every partition as well: version 0 has no other place for it."""
    rows = [
        ReplicaElectionResult(topic.topic, [PartitionResult(number, DENIED, None) for number in topic.partitions])
        for topic in request.topic_partitions or ()
    ]
    refused = ElectLeadersResponse(error_code=DENIED, replica_election_results=rows)
    return needs_cluster(Operation.ALTER, access, refused)


async def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
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
        proofs = await _proofs(wanted, context) if request.election_type == _UNCLEAN else {}
        for name, rows in answers.items():
            async for number, row in context.yielder.over(list(rows.items())):
                outcome = await _elect(name, number, context, proofs, is_unclean=request.election_type == _UNCLEAN)
                row.error_code, row.error_message = ErrorCode.NONE, None
                if isinstance(outcome, Rejection):
                    row.error_code, row.error_message = outcome.code, outcome.message
                if is_all and row.error_code == ErrorCode.ELECTION_NOT_NEEDED:
                    del rows[number]

    await run_to_end(context.broker, elect_all(), request.timeout_ms)
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(name, list(rows.values())) for name, rows in answers.items() if rows
        ]
    )


async def _elect(
    topic: str, number: int, context: RequestContext, proofs: Proofs, *, is_unclean: bool
) -> PartitionPlan | Rejection:
    broker = context.broker

    def decide(image: MetadataImage) -> PartitionPlan | Rejection:
        rules, evidence = broker.current_settings.election_rules(topic), _evidence(image, topic, number, proofs)
        return decide_election(image, topic, number, rules, evidence, is_unclean=is_unclean)

    return await attempt(broker.metadata_changes.carry_out(decide))


def _evidence(image: MetadataImage, topic: str, number: int, proofs: Proofs) -> Evidence:
    """The evidence about the replicas now; a proof of another leader epoch or broker epoch is void."""
    found = image.topics.get(topic)
    if found is None or not 0 <= number < len(found.partitions):
        return NOTHING_KNOWN
    ref, epoch = (found.topic_id, number), image.state(found, number).leader_epoch
    valid = {
        node_id: proof
        for node_id, proof in proofs.get(ref, {}).items()
        if proof.leader_epoch == epoch and proof.broker_epoch == image.broker_epochs.get(node_id)
    }
    return Evidence(valid, image.replica_faults.get(ref, {}))


async def _proofs(wanted: Mapping[str, Sequence[int]], context: RequestContext) -> Proofs:
    """What the live replicas hold of partitions without a leader, as far as they report it soon."""
    image, by_node = context.broker.metadata.image, dict[int, dict[PartitionRef, int]]()
    for name, numbers in wanted.items():
        topic = image.topics.get(name)
        async for number in context.yielder.over(numbers if topic is not None else ()):
            if topic is None or not 0 <= number < len(topic.partitions):
                continue
            state = image.state(topic, number)
            for node_id in state.target if state.leader == NO_LEADER else ():
                if node_id in image.brokers:
                    by_node.setdefault(node_id, {})[topic.topic_id, number] = state.leader_epoch
    return await context.broker.controller_loop.proofs.gather_soon(by_node)
