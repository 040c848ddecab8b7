"""Elections that wait, told to the operator: once in the log when they begin to, and to whoever asks.

Kept by the controller; `cluster.waits` says what each of them waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from qanat.broker.controller.replica_proofs import ReplicaProofs
from qanat.broker.replicas.replica_logs import PartitionRef
from qanat.cluster import values
from qanat.cluster.controller import Waiting
from qanat.cluster.elections import Rules
from qanat.cluster.nodes import Nodes
from qanat.cluster.values import NO_LEADER
from qanat.cluster.waits import Wait, copies_told, wait_of
from qanat.model.ids import TopicId
from qanat.telemetry.events import log_event

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

_TOLD_AT_ONCE = 20


class WaitingElection(Struct, frozen=True):
    """A partition without a leader."""

    topic: values.Topic
    number: int
    wait: Wait
    left_ms: int | None
    """How long it waits at most; None where it waits until somebody comes."""


class WaitingElections:
    """Knows why partitions are without a leader."""

    def __init__(self, broker: Broker, rules_of: Callable[[str], Rules], proofs: ReplicaProofs) -> None:
        self._broker = broker
        self._rules_of = rules_of
        self._proofs = proofs
        self._told: dict[str, tuple[object, ...]] = {}
        """Of each partition what the operator was told last."""

    def __iter__(self) -> Iterator[WaitingElection]:
        image = self._broker.metadata.image
        nodes = Nodes.of(image)
        for topic_id, number in self._refs():
            topic = image.topics_by_id.get(TopicId.parse(topic_id))
            if topic is None or number >= len(topic.partitions):
                continue
            state, evidence = image.state(topic, number), self._proofs.evidence(topic_id, number)
            if (wait := wait_of(state, nodes, self._rules_of(topic.name), evidence)) is not None:
                left_ms = self._proofs.left_ms(topic_id, number) if wait.is_bounded else None
                yield WaitingElection(topic, number, wait, left_ms)

    def __len__(self) -> int:
        return len(self._refs())

    def _refs(self) -> dict[PartitionRef, None]:
        """Partitions without a leader, and those whose leader of before has not proved yet what it holds."""
        states = self._broker.metadata.image.partition_states
        found = dict.fromkeys(ref for ref, state in states.items() if state.leader == NO_LEADER)
        return found | dict.fromkeys(self._proofs.awaited)

    def note(self, waiting: Waiting) -> None:
        """Say what an election waits for, where that is news; before its proofs are forgotten."""
        at = f"{waiting.topic.name}-{waiting.number}"
        if waiting.whom.gone:
            self._tell_of_absent(at, waiting.whom.gone)
        elif waiting.state.leader != NO_LEADER:
            self._told.pop(at, None)
        elif not waiting.whom:
            self._tell_of_damage(at, waiting)

    def clear(self) -> None:
        """Somebody else is the controller now."""
        self._told.clear()

    def _tell_of_absent(self, at: str, gone: tuple[int, ...]) -> None:
        if self._is_news(at, gone):
            log_event(
                "election waits for replicas that stopped uncleanly",
                level="warning",
                partition=at,
                waits_for=list(gone),
                at_most_ms=self._broker.settings.unclean_recovery_timeout_ms,
            )

    def _tell_of_damage(self, at: str, waiting: Waiting) -> None:
        state, nodes = waiting.state, Nodes.of(self._broker.metadata.image)
        evidence = self._proofs.evidence(waiting.topic.topic_id, waiting.number)
        wait = wait_of(state, nodes, self._rules_of(waiting.topic.name), evidence)
        copies = copies_told(state, evidence)
        if wait is not None and wait.is_for_operator and copies and self._is_news(at, tuple(copies)):
            log_event(
                "no sound copy is left: partition waits for an operator",
                level="error",
                partition=at,
                members=[member.node_id for member in (*state.in_sync, *state.eligible)],
                copies=copies,
                advice=f"qanat cluster elect {waiting.topic.name}:{waiting.number} --unclean shows what would be lost",
            )

    def _is_news(self, at: str, what: tuple[object, ...]) -> bool:
        if self._told.get(at) == what:
            return False
        self._told[at] = what
        return len(self._told) <= _TOLD_AT_ONCE
