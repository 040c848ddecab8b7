"""What an unclean election would lose: the replica that would lead, and the offsets that it lacks.

The controller compares the same replicas when it elects; changes between the two are not foreseen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from qanat.app.cluster.cluster_view import PartitionView, view_of
from qanat.app.cluster.replica_faults import copies_of, damage_text, ranges_of
from qanat.app.terminal.listing import Row
from qanat.cluster.proofs import Proof
from qanat.connection.cluster import Cluster
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.get_replica_log_info import PartitionLogInfo

COLUMNS = ("topic", "partition", "broker", "end_offset", "damaged", "outcome")


async def unclean_losses(cluster: Cluster, wanted: Collection[tuple[str, int]]) -> list[Row]:
    """The replicas of these partitions, or of all, without a leader: which would lead, and what would be lost."""
    view = await view_of(cluster)
    partitions = [
        one for one in view.partitions if one.leader < 0 and (not wanted or (one.topic, one.number) in wanted)
    ]
    copies = await copies_of(cluster, [one.node_id for one in view.brokers], partitions)
    return [row for one in partitions for row in _rows(one, copies[one.topic, one.number])]


def _rows(partition: PartitionView, copies: Mapping[int, PartitionLogInfo]) -> list[Row]:
    leader = _best(partition, copies)
    return [
        {
            "topic": partition.topic,
            "partition": partition.number,
            "broker": node_id,
            "end_offset": copies[node_id].log_end_offset if node_id in copies else None,
            "damaged": damage_text(ranges_of(copies[node_id])) if node_id in copies else None,
            "outcome": _outcome(node_id, leader, copies),
        }
        for node_id in partition.replicas
    ]


def _best(partition: PartitionView, copies: Mapping[int, PartitionLogInfo]) -> int | None:
    """The replica that the cluster would elect (`elections.recover`)."""
    there = {one: _proof(copies[one]) for one in partition.replicas if one in copies and not _is_offline(copies[one])}
    return max(there, key=lambda node_id: there[node_id].worth(there.values()), default=None)


def _outcome(node_id: int, leader: int | None, copies: Mapping[int, PartitionLogInfo]) -> str:
    copy = copies.get(node_id)
    if copy is None:
        return "is not alive: records that only it has are lost"
    if _is_offline(copy):
        return f"is offline: {copy.error_message or 'it cannot be opened'}"
    if node_id != leader or leader is None:
        more = copy.log_end_offset - copies[leader].log_end_offset if leader is not None else 0
        return f"follows; its last {more} offsets are lost" if more > 0 else "follows"
    damaged, proofs = damage_text(ranges_of(copy)), [_proof(one) for one in copies.values() if not _is_offline(one)]
    if damaged is None:
        return "leads"
    is_repaired = _proof(copy).worth(proofs)[1] == copy.log_end_offset
    return "leads, and is repaired from the others" if is_repaired else f"leads, without offsets {damaged}"


def _is_offline(copy: PartitionLogInfo) -> bool:
    return copy.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def _proof(copy: PartitionLogInfo) -> Proof:
    return Proof(
        broker_epoch=0,
        directory_id="",
        leader_epoch=copy.current_leader_epoch,
        generation=copy.log_generation,
        last_epoch=copy.last_written_leader_epoch,
        end_offset=copy.log_end_offset,
        damage=ranges_of(copy),
        is_compacted=copy.is_compacted,
    )
