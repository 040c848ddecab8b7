"""The controller loop: the broker that holds `/qanat/controller` elects the leaders of partitions.

Every broker is a candidate. The one whose candidacy the store accepts looks at everything once, and then at what
changes; `cluster.controller` decides what to do, and every commit compares the controller's epoch. A broker that loses
the key, or the lease under it, is no longer the controller from that moment on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from qanat.broker.controller.auto_rebalance import AutoRebalance
from qanat.broker.controller.replica_proofs import ReplicaProofs
from qanat.broker.controller.waiting_elections import WaitingElections
from qanat.broker.metadata.cluster_node import ClusterNode
from qanat.broker.metadata.confirmed_lease import confirmed
from qanat.broker.replicas.replica_logs import ReplicaLogs
from qanat.broker.runtime.peers import Peers
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.cluster import keys, values
from qanat.cluster.controller import (
    PARTITIONS_AT_ONCE,
    PartitionChange,
    commits,
    leaders_to_move,
    partitions_to_settle,
    partitions_waiting,
)
from qanat.cluster.store import Absent, CreatedAt, Delete, Event, Put
from qanat.cluster.values import NO_LEADER
from qanat.model.errors import LeaseExpiredError, StoreUnavailableError
from qanat.telemetry.events import log_event

_RETRY_S = 0.5
_TOPICS_AT_ONCE = 50
_EVENTS_AT_ONCE = 20
SETTLED_S = 10.0
"""How long a broker is registered before it gets its preferred partitions back: clients that it refused while it was
down avoid it for as long (librdkafka's longest pause between attempts), and would miss what it leads meanwhile."""


class ControllerLoop:
    """Candidate, or controller."""

    def __init__(self, node: ClusterNode, settings: CurrentSettings, peers: Peers, replica_logs: ReplicaLogs) -> None:
        self._node = node
        self._settings = settings
        self._membership = node.membership
        self._rules_of = settings.election_rules
        self._image = node.metadata.image
        self._awake = asyncio.Event()
        self._all = True
        """Whether everything must be looked at."""
        self._topics: dict[str, None] = {}
        self._arrived: dict[int, tuple[int, int]] = {}
        """The epoch of each broker, and since when, by our clock, we know of it."""
        self._auto_rebalance = AutoRebalance(settings, self._carry_out, node.metadata.commit)
        self.proofs = ReplicaProofs(node, settings, peers, replica_logs, self.look_at)
        self.waiting = WaitingElections(settings, self.proofs)
        self.unclean_elections = 0
        """Leaders that were elected although they may lack records."""

    @property
    def is_controller(self) -> bool:
        """Whether this very process is the controller."""
        controller, epoch = self._image.controller, self._membership.epoch
        if controller is None or epoch is None or controller.node_id != self._node.node_id:
            return False
        return self._image.controller_epoch > epoch

    def note(self, events: Iterable[Event]) -> None:
        """Something has changed in the store."""
        for event in events:
            match keys.parse(event.key):
                case keys.BrokerKey(node_id):
                    self._note_arrival(node_id)
                    self._all = True
                case keys.ControllerKey() | keys.NodeDirectoryKey() | keys.BrokerConfigKey() | keys.ReplicaFaultsKey():
                    self._all = True
                case keys.TopicKey(name) | keys.TopicConfigKey(name):
                    self._topics[name] = None
                case keys.PartitionKey(topic_id, _) if (topic := self._image.topics_by_id.get(topic_id)) is not None:
                    self._topics[topic.name] = None
                case _:
                    continue
            self._awake.set()

    def _note_arrival(self, node_id: int) -> None:
        epoch = self._image.broker_epochs.get(node_id)
        if epoch is None:
            self._arrived.pop(node_id, None)
        elif self._arrived.get(node_id, (None, 0))[0] != epoch:
            self._arrived[node_id] = (epoch, self._node.steady_ms())

    def _is_settled(self, node_id: int) -> bool:
        _, since_ms = self._arrived.get(node_id, (None, 0))
        return self._node.steady_ms() - since_ms >= SETTLED_S * 1000

    def wake(self) -> None:
        """Look at everything again."""
        self._all = True
        self._awake.set()

    def look_at(self, topics: Iterable[str]) -> None:
        """Look at some topics again."""
        self._topics.update(dict.fromkeys(topics))
        self._awake.set()

    async def run(self) -> None:
        """Be a candidate, and act while we are the controller, for ever."""
        rebalancing = self._node.park(self._rebalance_for_ever())
        try:
            while True:
                try:
                    await self.campaign()
                    if self.is_controller:
                        await self._settle()
                    else:
                        self.proofs.clear()
                        self.waiting.clear()
                except (StoreUnavailableError, LeaseExpiredError) as fault:
                    log_event("the controller cannot reach the store", level="warning", reason=str(fault))
                    await asyncio.sleep(_RETRY_S)
                    continue
                if not self._has_work():
                    self._awake.clear()
                    await self._awake.wait()
        finally:
            rebalancing.cancel()

    def _has_work(self) -> bool:
        if self._image.controller is None:
            return self._membership.epoch is not None
        return self.is_controller and (self._all or bool(self._topics))

    def _is_leftover(self) -> bool:
        """Whether the controller is the process that ran before us."""
        controller, epoch = self._image.controller, self._membership.epoch
        if controller is None or epoch is None or controller.node_id != self._node.node_id:
            return False
        return self._image.controller_epoch < epoch

    async def campaign(self) -> None:
        """Become the controller, if there is none and the store agrees."""
        epoch, kept = self._membership.epoch, self._membership.kept_lease
        if epoch is None or kept is None or not (self._image.controller is None or self._is_leftover()):
            return
        metadata = self._node.metadata
        ours = CreatedAt(keys.broker(self._node.node_id), epoch)
        if self._is_leftover():
            await metadata.commit([self._image.unchanged(keys.CONTROLLER), ours], [Delete(keys.CONTROLLER)])
        value = values.encode(values.Controller(node_id=self._node.node_id))
        put = Put(keys.CONTROLLER, value, kept.lease.lease_id)
        if await metadata.commit([Absent(keys.CONTROLLER), ours], [put]):
            self._all = True
            self.proofs.clear()  # Waits of an earlier time as the controller do not count.
            log_event("this broker is the controller", node=self._node.node_id, epoch=self._image.controller_epoch)

    # What the controller does

    async def _settle(self) -> None:
        is_all, topics = self._all, self._take_topics()
        for start in range(0, len(topics), _TOPICS_AT_ONCE):
            piece = topics[start : start + _TOPICS_AT_ONCE]
            changes = list(partitions_to_settle(self._image, self._rules_of, self.proofs.evidence, piece))
            is_done = False
            try:
                is_done = await self._carry_out(changes)
            finally:
                if not is_done:  # No event will say that there is still something to do.
                    self._topics.update(dict.fromkeys(topics[start:]))
            if not is_done:
                return
            self._await_proofs(piece)
            await asyncio.sleep(0)
        if is_all:
            await self._auto_rebalance.complete_internal_topics()

    def _await_proofs(self, topics: Sequence[str]) -> None:
        """Have brokers prove what elections need to know, and report what elections wait for."""
        for waiting in partitions_waiting(self._image, self._rules_of, self.proofs.evidence, topics):
            self.waiting.note(waiting)
            self.proofs.expect(waiting.topic.topic_id, waiting.number, waiting.state.leader_epoch, waiting.awaited)

    def _take_topics(self) -> list[str]:
        topics = (
            list(self._image.topics) if self._all else [name for name in self._topics if name in self._image.topics]
        )
        self._all = False
        self._topics.clear()
        # Coordinators first: without them, groups and transactions wait.
        return sorted(topics, key=lambda name: not self._image.topics[name].is_internal)

    async def _carry_out(self, changes: Sequence[PartitionChange]) -> bool:
        """Commit; False where a compare did not hold, or we are not the controller any more."""
        for start in range(0, len(changes), PARTITIONS_AT_ONCE):
            piece = changes[start : start + PARTITIONS_AT_ONCE]
            for commit in commits(self._image, self._image.controller_epoch, piece):
                await confirmed(self._membership)
                if not self.is_controller or not await self._node.metadata.commit(commit.compares, commit.operations):
                    return False
            _log_elections(piece)
            self.unclean_elections += sum(_is_unclean(change) for change in piece)
        return True

    async def _leaders_to_move(self) -> list[PartitionChange]:
        """Of all topics, some at a time: requests go first."""
        found: list[PartitionChange] = []
        topics = list(self._image.topics)
        for first in range(0, len(topics), _TOPICS_AT_ONCE):
            some = topics[first : first + _TOPICS_AT_ONCE]
            moves = leaders_to_move(self._image, self._rules_of, self.proofs.evidence, some)
            found += [move for move in moves if self._is_settled(move.after.leader)]
            await asyncio.sleep(0)
        return found

    async def _rebalance_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.broker.leader_imbalance_check_interval_seconds)
            if not self.is_controller:
                continue
            try:
                if self._settings.broker.auto_leader_rebalance_enable:
                    await self._carry_out(await self._leaders_to_move())
                await self._auto_rebalance.complete_internal_topics()
                await self._auto_rebalance.spread()
            except StoreUnavailableError:
                continue


def _is_unclean(change: PartitionChange) -> bool:
    """Whether a leader was elected that may lack records."""
    before, after = change.before, change.after
    return after.leader not in (NO_LEADER, before.leader) and after.is_recovered


def _log_elections(changes: Sequence[PartitionChange]) -> None:
    moved = [change for change in changes if change.before.leader != change.after.leader]
    for change in moved[:_EVENTS_AT_ONCE]:
        after = change.after
        at = f"{change.topic.name}-{change.number}"
        if after.leader == NO_LEADER:
            missing = [member.node_id for member in (*after.in_sync, *after.eligible)]
            log_event("partition has no leader", level="error", partition=at, waits_for=missing)
        elif after.is_recovered:
            log_event("leader elected that may lack records", level="error", partition=at, leader=after.leader)
        else:
            log_event("leader elected", partition=at, leader=after.leader, epoch=after.leader_epoch)
    if len(moved) > _EVENTS_AT_ONCE:
        log_event("leaders elected", partitions=len(moved))
