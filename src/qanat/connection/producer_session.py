"""A producer's identity at the cluster, and its transactions: the requests to the coordinator.

Transactions use the classic protocol, which every broker with transactions speaks: partitions are added
before they are written to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from qanat.connection.cluster import Cluster, Kind
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check
from qanat.connection.link import Link
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from qanat.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from qanat.wire.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from qanat.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import INT32_MAX

_CLASSIC = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.TXN_OFFSET_COMMIT: 4,
    ApiKey.END_TXN: 4,
}
"""The last versions of the classic protocol."""


class GroupMember(msgspec.Struct, frozen=True):
    """The member of a consumer group that commits offsets: a former one is refused."""

    group: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class ProducerSession:
    """A producer id and epoch from the cluster. Made by `idempotent` or `transactional`."""

    def __init__(self, cluster: Cluster, producer_id: int, epoch: int, transactional_id: str | None) -> None:
        self._cluster = cluster
        self.producer_id = producer_id
        self.epoch = epoch
        self.transactional_id = transactional_id
        self._added: set[TopicPartition] = set()
        self.is_open = False
        """Whether the coordinator may have an open transaction, which must be ended."""

    @staticmethod
    async def idempotent(cluster: Cluster, deadline: Deadline) -> ProducerSession:
        request = InitProducerIdRequest(None, transaction_timeout_ms=INT32_MAX)

        async def attempt() -> InitProducerIdResponse:
            response: InitProducerIdResponse = await cluster.call(
                ApiKey.INIT_PRODUCER_ID, request, deadline, is_question=True
            )
            # A broker that has just started has no ids yet.
            is_denied = response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            hint = "this user may write to no topic: allow WRITE on one" if is_denied else None
            check("a producer id", response.error_code, hint)
            return response

        found = await cluster.persist(attempt, deadline)
        return ProducerSession(cluster, found.producer_id, found.producer_epoch, None)

    @staticmethod
    async def transactional(
        cluster: Cluster, transactional_id: str, timeout_ms: int, deadline: Deadline
    ) -> ProducerSession:
        """Initialize the transactional id: its former producer is fenced, its open transaction is ended."""
        request = InitProducerIdRequest(transactional_id, timeout_ms)

        async def attempt() -> InitProducerIdResponse:
            link = await cluster.coordinator_link(transactional_id, deadline, Kind.TRANSACTION)
            response: InitProducerIdResponse = await _call(link, ApiKey.INIT_PRODUCER_ID, request, deadline)
            check(f"transactional id {transactional_id}", response.error_code)
            return response

        found = await cluster.persist(attempt, deadline)
        return ProducerSession(cluster, found.producer_id, found.producer_epoch, transactional_id)

    async def renew(self, timeout_ms: int, deadline: Deadline) -> None:
        """Go on after a transaction whose end is unknown: it is ended, and this producer gets a new epoch (KIP-360).

        Unlike `transactional` it fences nobody: where another producer has the transactional id, it raises.
        """
        name = self.transactional_id or ""
        request = InitProducerIdRequest(name, timeout_ms, self.producer_id, self.epoch)

        async def attempt() -> None:
            response: InitProducerIdResponse = await self._call_coordinator(ApiKey.INIT_PRODUCER_ID, request, deadline)
            check(f"transactional id {name}", response.error_code)
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch

        await self._cluster.persist(attempt, deadline)
        self._added.clear()
        self.is_open = False

    async def commit_offsets(
        self,
        member: GroupMember,
        offsets: Mapping[TopicPartition, int],
        deadline: Deadline,
        *,
        metadata: str | Mapping[TopicPartition, str] = "",
    ) -> None:
        """Make a group's offsets part of the transaction; `metadata` is a note stored with each, or one for each."""
        group = member.group
        name = self.transactional_id or ""
        adding = AddOffsetsToTxnRequest(name, self.producer_id, self.epoch, group)
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for at, offset in offsets.items():
            note = metadata if isinstance(metadata, str) else metadata[at]
            topics.setdefault(at.topic, []).append(
                TxnOffsetCommitRequestPartition(at.partition, offset, committed_metadata=note)
            )
        committing = TxnOffsetCommitRequest(
            name,
            group,
            self.producer_id,
            self.epoch,
            member.generation,
            member.member_id,
            member.instance_id,
            topics=[TxnOffsetCommitRequestTopic(topic, partitions) for topic, partitions in topics.items()],
        )

        async def add() -> None:
            response: AddOffsetsToTxnResponse = await self._call_coordinator(
                ApiKey.ADD_OFFSETS_TO_TXN, adding, deadline
            )
            check(f"group {group} in the transaction of {name}", response.error_code)

        async def commit() -> None:
            link = await self._cluster.coordinator_link(group, deadline)
            response: TxnOffsetCommitResponse = await _call(link, ApiKey.TXN_OFFSET_COMMIT, committing, deadline)
            for topic in response.topics:
                for partition in topic.partitions:
                    check(f"commit of group {group} to {topic.name}", partition.error_code)

        self.is_open = True
        await self._cluster.persist(add, deadline)
        await self._cluster.persist(commit, deadline)

    async def end(self, deadline: Deadline, *, is_committed: bool) -> None:
        """Commit everything since the last end, or abort it."""
        name = self.transactional_id or ""
        request = EndTxnRequest(name, self.producer_id, self.epoch, is_committed)

        async def attempt() -> None:
            response: EndTxnResponse = await self._call_coordinator(ApiKey.END_TXN, request, deadline)
            check(f"end of the transaction of {name}", response.error_code)

        await self._cluster.persist(attempt, deadline)
        self._added.clear()
        self.is_open = False

    async def add(self, partitions: Iterable[TopicPartition], deadline: Deadline) -> None:
        """Make partitions part of the transaction, before they are written to."""
        new = [at for at in partitions if at not in self._added]
        if not new:
            return
        name = self.transactional_id or ""
        topics: dict[str, list[int]] = {}
        for at in new:
            topics.setdefault(at.topic, []).append(at.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, numbers) for topic, numbers in topics.items()],
        )

        async def attempt() -> None:
            response: AddPartitionsToTxnResponse = await self._call_coordinator(
                ApiKey.ADD_PARTITIONS_TO_TXN, request, deadline
            )
            for topic in response.results_by_topic_v3_and_below:
                for result in topic.results_by_partition:
                    check(f"{topic.name}-{result.partition_index} in the transaction", result.partition_error_code)

        self.is_open = True
        await self._cluster.persist(attempt, deadline)
        self._added.update(new)

    async def _call_coordinator(self, api_key: ApiKey, request: object, deadline: Deadline) -> Any:
        link = await self._cluster.coordinator_link(self.transactional_id or "", deadline, Kind.TRANSACTION)
        return await _call(link, api_key, request, deadline)


async def _call(link: Link, api_key: ApiKey, request: object, deadline: Deadline) -> Any:
    return await link.call(api_key, request, deadline, at_most=_CLASSIC[api_key])
