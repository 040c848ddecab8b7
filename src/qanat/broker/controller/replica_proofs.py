"""Replica proofs: what brokers have proved of their logs for the controller's elections, and how long those wait.

Each broker gets one request at a time, for many partitions (GetReplicaLogInfo). A broker that does not answer, or has
not created a log yet, is asked again until the partition no longer needs it. `cluster.elections` says which brokers a
partition waits for and what a proof is worth; after `unclean.recovery.timeout.ms` it decides on the proofs that came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from qanat.broker.metadata.cluster_node import ClusterNode
from qanat.broker.replicas.replica_logs import PartitionRef, ReplicaLog, ReplicaLogs, parse_topic_id
from qanat.broker.runtime.peers import Peers
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.cluster.elections import Awaited
from qanat.cluster.proofs import NOTHING_KNOWN, Evidence, Proof
from qanat.cluster.store import NO_REVISION
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicId
from qanat.telemetry.events import log_event
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.wire.kafka.messages.get_replica_log_info import (
        GetReplicaLogInfoRequest,
        GetReplicaLogInfoResponse,
        PartitionLogInfo,
    )

_AT_ONCE = 2_000
"""Partitions of one request."""
_CALL_S = 5.0
_SILENT_MS = 3 * int(_CALL_S * 1000)
"""After so long, an election is decided without a registered broker that proves nothing."""
_RETRY_S = 0.1
_EVENTS_AT_ONCE = 20


class ReplicaProofs:
    """Gathers proofs; calls `on_proofs` with the topics whose elections may be decided now."""

    def __init__(
        self,
        node: ClusterNode,
        settings: CurrentSettings,
        peers: Peers,
        replica_logs: ReplicaLogs,
        on_proofs: Callable[[Iterable[str]], None],
    ) -> None:
        self._node = node
        self._settings = settings
        self._peers = peers
        self._replica_logs = replica_logs
        self._on_proofs = on_proofs
        self._proofs: dict[PartitionRef, dict[int, Proof]] = {}
        self._since_ms: dict[PartitionRef, int] = {}
        """Since when each partition has waited for brokers."""
        self._wanted: dict[int, dict[PartitionRef, int]] = {}
        """The partitions that each broker is to prove, with their leader epochs."""
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._requested_ms: dict[tuple[int, int], int] = {}
        """Since when each broker, by node id and epoch, has been asked for something that it has not proved yet."""
        self._timer: asyncio.TimerHandle | None = None

    def evidence(self, topic_id: str, number: int) -> Evidence:
        """What is known of a partition's replicas."""
        ref = topic_id, number
        proofs, faults = self._proofs.get(ref), self._node.metadata.image.replica_faults.get(ref)
        if not proofs and not faults and ref not in self._since_ms:
            return NOTHING_KNOWN
        return Evidence(proofs or {}, faults or {}, self._is_overdue(ref), self._silent())

    def expect(self, topic_id: str, number: int, leader_epoch: int, awaited: Awaited) -> None:
        """A partition waits for some brokers, or for none (any more)."""
        ref = topic_id, number
        if not awaited:
            self._forget(ref)
            return
        self._since_ms.setdefault(ref, self._node.steady_ms())
        if self._timer is None:
            self._set_timer()
        for node_id in awaited.unproven:
            self._wanted.setdefault(node_id, {})[ref] = leader_epoch
            epoch = self._node.metadata.image.broker_epochs.get(node_id, NO_REVISION)
            self._requested_ms.setdefault((node_id, epoch), self._node.steady_ms())
            if node_id not in self._requests:
                self._requests[node_id] = self._node.park(self._request_until_done(node_id))

    def clear(self) -> None:
        """Another broker is the controller now."""
        self._proofs.clear()
        self._since_ms.clear()
        self._wanted.clear()
        self._requested_ms.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget(self, ref: PartitionRef) -> None:
        self._proofs.pop(ref, None)
        self._since_ms.pop(ref, None)
        for wanted in self._wanted.values():
            wanted.pop(ref, None)

    # Waiting

    @property
    def awaited(self) -> Iterable[PartitionRef]:
        """Partitions that wait for brokers to come back or to prove what they hold."""
        self._drop_deleted()
        return self._since_ms.keys()

    def _drop_deleted(self) -> None:
        """Wait no more for partitions of topics that were deleted."""
        topics = self._node.metadata.image.topics_by_id
        for ref in [ref for ref in self._since_ms if TopicId.parse(ref[0]) not in topics]:
            self._forget(ref)

    def _silent(self) -> frozenset[int]:
        """Brokers that were asked long ago, in the epoch that they have, and prove nothing."""
        epochs, now_ms = self._node.metadata.image.broker_epochs, self._node.steady_ms()
        return frozenset(
            node_id
            for (node_id, epoch), requested_ms in self._requested_ms.items()
            if epochs.get(node_id) == epoch and now_ms - requested_ms >= _SILENT_MS
        )

    def left_ms(self, topic_id: str, number: int) -> int:
        """How long a partition waits at most from now on."""
        since_ms = self._since_ms.get((topic_id, number), self._node.steady_ms())
        return max(0, since_ms + self._timeout_ms() - self._node.steady_ms())

    def _timeout_ms(self) -> int:
        return self._settings.broker.unclean_recovery_timeout_ms

    def _is_overdue(self, ref: PartitionRef) -> bool:
        since_ms = self._since_ms.get(ref)
        return since_ms is not None and self._node.steady_ms() - since_ms >= self._timeout_ms()

    def _set_timer(self) -> None:
        """Look again when the wait of the next partition, or of the next broker that was asked, is over."""
        now_ms = self._node.steady_ms()
        ends = [since_ms + self._timeout_ms() for since_ms in self._since_ms.values()]
        ends += [requested_ms + _SILENT_MS for requested_ms in self._requested_ms.values()]
        left_ms = min((end - now_ms for end in ends if end > now_ms), default=None)
        if self._timer is None and left_ms is not None:
            self._timer = asyncio.get_running_loop().call_later(left_ms / 1000 + 0.01, self._look_for_overdue)

    def _look_for_overdue(self) -> None:
        self._timer = None
        self._drop_deleted()
        overdue = [ref for ref in self._since_ms if self._is_overdue(ref)]
        for topic_id, number in overdue[:_EVENTS_AT_ONCE]:
            log_event(
                "partition has waited long enough for its replicas", level="warning", partition=number, topic=topic_id
            )
        self._on_proofs(self._names(self._since_ms))
        self._set_timer()

    def _names(self, refs: Iterable[PartitionRef]) -> list[str]:
        topics = self._node.metadata.image.topics_by_id
        found = (topics.get(TopicId.parse(topic_id)) for topic_id, _ in refs)
        return list(dict.fromkeys(topic.name for topic in found if topic is not None))

    # Asking

    async def _request_until_done(self, node_id: int) -> None:
        """Ask a broker until there is nothing left to ask, or it is gone."""
        image = self._node.metadata.image
        while (wanted := self._wanted.get(node_id)) and node_id in image.brokers:
            piece = dict(list(wanted.items())[:_AT_ONCE])
            try:
                proofs = await self.gather(node_id, piece)
            except QanatError as fault:
                log_event("broker does not prove its logs", level="debug", node=node_id, reason=str(fault))
                proofs = {}
            # A broker that is just registering has no epoch, or another: its proof would count for nothing.
            proofs = {ref: one for ref, one in proofs.items() if one.broker_epoch == image.broker_epochs.get(node_id)}
            for ref, proof in proofs.items():
                if wanted.get(ref) == piece[ref]:
                    del wanted[ref]
                if ref in self._since_ms:
                    self._proofs.setdefault(ref, {})[node_id] = proof
            if proofs:
                self._on_proofs(self._names(proofs))
            if len(proofs) < len(piece):
                self._drop_deleted()
                await asyncio.sleep(_RETRY_S)
        # In one step: the next partition that needs this broker starts a new task.
        self._wanted.pop(node_id, None)
        self._requests.pop(node_id, None)
        self._requested_ms = {broker: at_ms for broker, at_ms in self._requested_ms.items() if broker[0] != node_id}

    async def gather(self, node_id: int, wanted: Mapping[PartitionRef, int]) -> dict[PartitionRef, Proof]:
        """What a broker proves now of these partitions, each given with its leader epoch."""
        if node_id == self._node.node_id:
            return self._own(await self._replica_logs.describe(list(wanted)), wanted)
        request = _request(node_id, list(wanted))
        response = await self._peers.call(node_id, ApiKey.GET_REPLICA_LOG_INFO, request, _CALL_S)
        return _proofs_of(response, wanted)

    async def gather_soon(
        self, wanted: Mapping[int, Mapping[PartitionRef, int]]
    ) -> dict[PartitionRef, dict[int, Proof]]:
        """What these brokers prove of these partitions, all asked at once; a broker that does not answer is left
        out."""
        proofs: dict[PartitionRef, dict[int, Proof]] = {}

        async def ask(node_id: int, refs: Sequence[tuple[PartitionRef, int]]) -> None:
            with suppress(QanatError):
                for start in range(0, len(refs), _AT_ONCE):
                    for ref, proof in (await self.gather(node_id, dict(refs[start : start + _AT_ONCE]))).items():
                        proofs.setdefault(ref, {})[node_id] = proof

        await asyncio.gather(*(ask(node_id, list(refs.items())) for node_id, refs in wanted.items()))
        return proofs

    def _own(
        self, described: Mapping[PartitionRef, ReplicaLog], wanted: Mapping[PartitionRef, int]
    ) -> dict[PartitionRef, Proof]:
        membership = self._node.membership
        epoch, directory_id = membership.epoch_in_requests, membership.registration.directory_id
        return {
            ref: Proof(
                epoch,
                directory_id,
                wanted[ref],
                log.generation,
                log.last_epoch,
                log.end_offset,
                log.damage,
                log.is_offline,
                log.is_compacted,
            )
            for ref, log in described.items()
            if log.leader_epoch == wanted[ref]
        }


def _request(node_id: int, refs: Sequence[PartitionRef]) -> GetReplicaLogInfoRequest:
    from qanat.wire.kafka.messages.get_replica_log_info import GetReplicaLogInfoRequest, TopicPartitions

    by_topic: dict[str, list[int]] = {}
    for topic_id, number in refs:
        by_topic.setdefault(topic_id, []).append(number)
    topics = [TopicPartitions(TopicId.parse(topic_id).value.bytes, numbers) for topic_id, numbers in by_topic.items()]
    return GetReplicaLogInfoRequest(broker_id=node_id, topic_partitions=topics)


def _proofs_of(response: GetReplicaLogInfoResponse, wanted: Mapping[PartitionRef, int]) -> dict[PartitionRef, Proof]:
    """A broker whose image differs from ours proves nothing: it may be about to change its log."""
    proofs = {}
    for topic in response.topic_partition_log_info_list:
        topic_id = parse_topic_id(topic.topic_id)
        for row in topic.partition_log_info:
            ref = topic_id, row.partition
            is_known = row.error_code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
            if is_known and wanted.get(ref) == row.current_leader_epoch:
                proofs[ref] = _proof(response, row)
    return proofs


def _proof(response: GetReplicaLogInfoResponse, row: PartitionLogInfo) -> Proof:
    return Proof(
        response.broker_epoch,
        response.directory_id,
        row.current_leader_epoch,
        row.log_generation,
        row.last_written_leader_epoch,
        row.log_end_offset,
        tuple((one.first_offset, one.next_offset) for one in row.damage),
        row.error_code == ErrorCode.KAFKA_STORAGE_ERROR,
        row.is_compacted,
    )
