"""Election waits: why a partition has no leader yet, for operators.

`elections` decides; this only explains.
"""

from __future__ import annotations

from msgspec import Struct

from qanat.cluster.elections import Rules, awaited
from qanat.cluster.nodes import Nodes
from qanat.cluster.proofs import Evidence
from qanat.cluster.values import NO_LEADER, PartitionState


class Wait(Struct, frozen=True):
    """The brokers that an election waits for. Where there are none, it waits for an operator."""

    unproven: tuple[int, ...] = ()
    """Registered brokers that are to prove what their logs hold."""
    gone: tuple[int, ...] = ()
    """Brokers that are to come back."""
    is_bounded: bool = False
    """Whether it waits no longer than `unclean.recovery.timeout.ms`."""

    @property
    def is_for_operator(self) -> bool:
        return not self.unproven and not self.gone


def wait_of(state: PartitionState, nodes: Nodes, rules: Rules, evidence: Evidence) -> Wait | None:
    """What a partition waits for; None where it has a leader that stays."""
    if waits := awaited(state, nodes, rules, evidence):
        return Wait(waits.unproven, waits.gone, is_bounded=True)
    if state.leader != NO_LEADER:
        return None
    members = dict.fromkeys(member.node_id for member in (*state.in_sync, *state.eligible))
    return Wait(gone=tuple(node_id for node_id in members if node_id not in nodes.alive))


def replica_problems(state: PartitionState, evidence: Evidence) -> list[str]:
    """What is wrong with each replica that cannot lead, with the exact ranges."""
    problems = []
    for node_id in state.replicas:
        fault, proof = evidence.faults.get(node_id), evidence.proofs.get(node_id)
        ranges = proof.damage if proof is not None else () if fault is None else fault.ranges
        if ranges:
            problems.append(f"broker {node_id}: offsets {format_ranges(ranges)} damaged")
        elif fault is not None or (proof is not None and proof.is_offline):
            problems.append(f"broker {node_id}: offline" + (f" ({fault.reason})" if fault and fault.reason else ""))
    return problems


def format_ranges(ranges: tuple[tuple[int, int], ...]) -> str:
    """Offsets as people write them: 4, 7 to 9."""
    whole: list[tuple[int, int]] = []
    for first, following in sorted(ranges):
        if whole and first <= whole[-1][1]:
            whole[-1] = whole[-1][0], max(following, whole[-1][1])
        else:
            whole.append((first, following))
    return ", ".join(
        f"{first}" if following == first + 1 else f"{first} to {following - 1}" for first, following in whole
    )
