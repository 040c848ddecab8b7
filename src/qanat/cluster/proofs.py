"""What is known of a partition's copies besides who is alive: proofs that were asked for, faults that were reported.

A broker that is back says in a proof what its log holds (`broker.replica_proofs`, GetReplicaLogInfo). A broker
that finds one of its logs damaged or offline reports it in the store (`broker.replica_faults`).

Rule: a proof counts only for the process, the data directory and the leader epoch that it was asked of. A stale one
      neither elects nor demotes; it is asked for again.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qanat.cluster.values import ReplicaFault


class Proof(Struct, frozen=True):
    """What one replica's log holds, as its broker says."""

    broker_epoch: int
    directory_id: str
    leader_epoch: int
    """The partition's when the proof was asked for."""
    generation: int
    """The epoch of the broker that made the log: a member of before that had another one."""
    last_epoch: int
    end_offset: int
    damage: tuple[tuple[int, int], ...] = ()
    is_offline: bool = False

    @property
    def is_sound(self) -> bool:
        return not self.damage and not self.is_offline

    @property
    def extent(self) -> tuple[int, int]:
        """By which copies compare: the later epoch knows better than the longer log."""
        return self.last_epoch, self.end_offset


UNKNOWN_EXTENT = (-1, -1)


class Evidence(Struct, frozen=True):
    """Proofs and faults of one partition, by node."""

    proofs: Mapping[int, Proof] = {}
    faults: Mapping[int, ReplicaFault] = {}
    is_overdue: bool = False
    """Whether those that are awaited have had their time."""

    def extent(self, node_id: int) -> tuple[int, int]:
        proof = self.proofs.get(node_id)
        return UNKNOWN_EXTENT if proof is None else proof.extent


NOTHING_KNOWN = Evidence()
