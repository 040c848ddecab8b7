"""Proofs and faults: what is known of a partition's replicas besides which brokers are alive.

A broker that is back says in a proof what its log holds (`broker.controller.replica_proofs`, GetReplicaLogInfo). A
broker that finds one of its logs damaged or offline reports it in the store (`broker.replicas.replica_faults`).

Rule: a proof counts only for the process, the data directory and the leader epoch that it was requested of. A stale one
      neither elects nor demotes; it is requested again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from qanat.cluster.values import ReplicaFault


class Proof(Struct, frozen=True):
    """What one replica's log holds, as its broker says."""

    broker_epoch: int
    directory_id: str
    leader_epoch: int
    """The partition's leader epoch when the proof was requested."""
    generation: int
    """The broker epoch in which the log was created: an earlier member had another log."""
    last_epoch: int
    end_offset: int
    damage: tuple[tuple[int, int], ...] = ()
    is_offline: bool = False
    is_compacted: bool = False
    """Then it is repaired as a whole, or not at all."""

    @property
    def is_sound(self) -> bool:
        return not self.damage and not self.is_offline

    @property
    def extent(self) -> tuple[int, int]:
        """The order of replicas: the later epoch knows better than the longer log."""
        return self.last_epoch, self.end_offset

    @property
    def first_damaged(self) -> int:
        return min((first for first, _ in self.damage), default=self.end_offset)

    def worth(self, others: Iterable[Proof]) -> tuple[int, int]:
        """The order of replicas where no sound one is left: in one epoch, the one that leaves most readable records.

        A replica is repaired once it leads if another is sound beyond all of its damage: the other is truncated at its
        own first damage, fetches the rest, is sound then, leads, and the first is repaired from it.
        """
        lost = 0 if any(self._is_repaired_by(other) for other in others) else self._damaged_offsets
        return self.last_epoch, self.end_offset - lost

    @property
    def _damaged_offsets(self) -> int:
        return sum(following - first for first, following in self.damage)

    def _is_repaired_by(self, other: Proof) -> bool:
        if other == self or self.is_compacted or other.is_offline or other.last_epoch != self.last_epoch:
            return False
        return all(following <= other.first_damaged for _, following in self.damage)


UNKNOWN_EXTENT = (-1, -1)


class Evidence(Struct, frozen=True):
    """Proofs and faults of one partition, by node."""

    proofs: Mapping[int, Proof] = {}
    faults: Mapping[int, ReplicaFault] = {}
    is_overdue: bool = False
    """Whether absent brokers have had their time to come back."""
    silent: frozenset[int] = frozenset()
    """Registered brokers that have had their time to prove what they hold."""

    def extent(self, node_id: int) -> tuple[int, int]:
        proof = self.proofs.get(node_id)
        return UNKNOWN_EXTENT if proof is None else proof.extent

    def worth(self, node_id: int) -> tuple[int, int]:
        proof = self.proofs.get(node_id)
        return UNKNOWN_EXTENT if proof is None else proof.worth(self.proofs.values())


NOTHING_KNOWN = Evidence()
