"""Transaction bugs: coordinators, markers and producers."""

from __future__ import annotations

from typing import Any

from qanat.broker.coordinators import transaction_coordinator
from qanat.broker.coordinators.coordinator_shard import CoordinatorShard
from qanat.broker.coordinators.internal_topic import InternalTopic
from qanat.broker.coordinators.transaction_coordinator import TransactionCoordinatorShard
from qanat.broker.coordinators.transaction_markers import MarkerWriter
from qanat.broker.replicas.partition import EndMarker, Partition
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.transactions import end_transaction
from verify.clusters.bug_bank.bug import Patches


def send_markers_before_the_verdict_is_durable(patches: Patches) -> None:
    """C38: markers are sent before the verdict is durable, and another coordinator decides otherwise."""
    act = CoordinatorShard.act

    def acted(shard: Any, decision: Any, answer: Any = None) -> None:
        act(shard, decision, answer)
        if isinstance(shard, TransactionCoordinatorShard) and shard.is_serving:
            TransactionCoordinatorShard._follow(shard, decision)

    patches.put(CoordinatorShard, "act", acted)


def give_up_a_marker(patches: Patches) -> None:
    """C39: a marker whose partition has no leader is not retried."""
    write_everywhere = MarkerWriter.write_everywhere

    async def once(writer: MarkerWriter, marker: EndMarker, partitions: Any) -> dict[TopicPartition, ErrorCode]:
        return dict.fromkeys(await write_everywhere(writer, marker, partitions), ErrorCode.NONE)

    patches.put(MarkerWriter, "write_everywhere", once)


def leave_prepared_transactions_alone(patches: Patches) -> None:
    """C38: a new coordinator does not complete transactions that its predecessor prepared."""
    from qanat.transactions.shard import TransactionShard

    start = TransactionShard.start

    def started(shard: TransactionShard, now: Any) -> Any:
        from msgspec.structs import replace

        decision = start(shard, now)
        return replace(decision, markers=type(decision.markers)())

    patches.put(TransactionShard, "start", started)


def load_nothing(patches: Patches) -> None:
    """C50: a new coordinator starts without loading its partition."""

    async def nothing_replayed(partition: Partition, take: Any) -> None:
        pass

    from qanat.broker.coordinators import group_coordinator

    patches.put(transaction_coordinator, "replay", nothing_replayed)
    patches.put(group_coordinator, "replay", nothing_replayed)


def abort_without_fencing(patches: Patches) -> None:
    """C34: an abort by a successor or a timeout does not bump the producer epoch, so the old producer writes on."""

    def aborted(builder: Any, current: Any) -> None:
        record = current.changed(builder.now.wall_ms, state=end_transaction._PREPARED[False])
        end_transaction._write_prepared(builder, record)

    patches.put(end_transaction, "abort_and_fence", aborted)
    from qanat.transactions import init_producer_id, transactional_id_expiration

    for module in (init_producer_id, transactional_id_expiration):
        if "abort_and_fence" in vars(module):
            patches.put(module, "abort_and_fence", aborted)


def keep_a_coordinator_that_was_replaced(patches: Patches) -> None:
    """C38: a coordinator shard serves on when another broker leads its partition."""
    patches.put(InternalTopic, "drop", lambda topic, partition: None)
