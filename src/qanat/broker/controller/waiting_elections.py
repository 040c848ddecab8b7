"""Waiting elections: partitions without a leader, reported to operators once when they begin to wait, and on request.

The controller maintains them; `cluster.election_waits` says what each of them waits for.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from qanat.broker.controller.replica_proofs import ReplicaProofs
from qanat.broker.replicas.replica_logs import PartitionRef
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.cluster import values
from qanat.cluster.controller import Waiting
from qanat.cluster.election_waits import Wait, replica_problems, wait_of
from qanat.cluster.nodes import Nodes
from qanat.cluster.values import NO_LEADER
from qanat.model.ids import TopicId
from qanat.telemetry.events import log_event

_EVENTS_AT_ONCE = 20


class WaitingElection(Struct, frozen=True):
    """A partition without a leader."""

    topic: values.Topic
    number: int
    wait: Wait
    left_ms: int | None
    """How long it waits at most; None where it waits until a broker or an operator acts."""


class WaitingElections:
    """Knows why partitions are without a leader."""

    def __init__(self, settings: CurrentSettings, proofs: ReplicaProofs) -> None:
        self._settings = settings
        self._image = settings.image
        self._proofs = proofs
        self._reported: dict[str, tuple[object, ...]] = {}
        """What was last logged about each partition."""

    def __iter__(self) -> Iterator[WaitingElection]:
        image = self._image
        nodes = Nodes.of(image)
        for topic_id, number in self._refs():
            topic = image.topics_by_id.get(TopicId.parse(topic_id))
            if topic is None or number >= len(topic.partitions):
                continue
            state, evidence = image.state(topic, number), self._proofs.evidence(topic_id, number)
            if (wait := wait_of(state, nodes, self._settings.election_rules(topic.name), evidence)) is not None:
                left_ms = self._proofs.left_ms(topic_id, number) if wait.is_bounded else None
                yield WaitingElection(topic, number, wait, left_ms)

    def __len__(self) -> int:
        return len(self._refs())

    def _refs(self) -> dict[PartitionRef, None]:
        """Partitions without a leader, and those whose former leader has not proved yet what it holds."""
        states = self._image.partition_states
        found = dict.fromkeys(ref for ref, state in states.items() if state.leader == NO_LEADER)
        return found | dict.fromkeys(self._proofs.awaited)

    def note(self, waiting: Waiting) -> None:
        """Log what an election waits for, where that is new; before its proofs are forgotten."""
        at = f"{waiting.topic.name}-{waiting.number}"
        if waiting.awaited.gone:
            self._report_absent(at, waiting.awaited.gone)
        elif waiting.state.leader != NO_LEADER:
            self._reported.pop(at, None)
        elif not waiting.awaited:
            self._report_damage(at, waiting)

    def clear(self) -> None:
        """Another broker is the controller now."""
        self._reported.clear()

    def _report_absent(self, at: str, gone: tuple[int, ...]) -> None:
        if self._is_new(at, gone):
            log_event(
                "election waits for replicas that stopped uncleanly",
                level="warning",
                partition=at,
                waits_for=list(gone),
                at_most_ms=self._settings.broker.unclean_recovery_timeout_ms,
            )

    def _report_damage(self, at: str, waiting: Waiting) -> None:
        state, nodes = waiting.state, Nodes.of(self._image)
        evidence = self._proofs.evidence(waiting.topic.topic_id, waiting.number)
        wait = wait_of(state, nodes, self._settings.election_rules(waiting.topic.name), evidence)
        problems = replica_problems(state, evidence)
        if wait is not None and wait.is_for_operator and problems and self._is_new(at, tuple(problems)):
            log_event(
                "no sound replica is left: partition waits for an operator",
                level="error",
                partition=at,
                members=[member.node_id for member in (*state.in_sync, *state.eligible)],
                copies=problems,
                advice=f"qanat cluster elect {waiting.topic.name}:{waiting.number} --unclean shows what would be lost",
            )

    def _is_new(self, at: str, what: tuple[object, ...]) -> bool:
        if self._reported.get(at) == what:
            return False
        self._reported[at] = what
        return len(self._reported) <= _EVENTS_AT_ONCE
