"""Remote share state: the state of share partitions on another broker, by Kafka's own requests (KIP-932), in order.

The leader of a partition hands its records out; their durable state is in a partition of `__share_group_state`, which
another broker may lead. `SharePersister` is the common protocol.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol, assert_never

from qanat.broker.coordinators.coordinator_shard import Clocks
from qanat.broker.runtime.parked_tasks import TaskOwner
from qanat.broker.runtime.peers import Peers
from qanat.connection.faults import error_code
from qanat.groups.share.record_states import StateBatch
from qanat.groups.share.state_records import ShareKey, ShareSnapshot
from qanat.groups.share.state_shard import (
    BeginState,
    ForgetState,
    InitialiseState,
    ReadState,
    ResetState,
    SnapshotState,
    StateReply,
    StateRequest,
    WriteState,
)
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import NO_LEADER_EPOCH, NO_OFFSET
from qanat.wire.kafka.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    write_share_group_state,
)
from qanat.wire.kafka.registry import ApiKey

_CALL_S = 10.0
"""How long the other broker may take: it waits for its disk, and for its followers."""


class SharePersister(Protocol):
    """Persists the state of a share partition."""

    @property
    def clocks(self) -> Clocks: ...

    def ask(self, request: StateRequest) -> asyncio.Future[StateReply]:
        """The outcome of a request, once it is durable; requests are carried out in the order of these calls."""


class RemoteShareState:
    """A partition's state on another broker."""

    def __init__(self, peers: Peers, tasks: TaskOwner, node_id: int, clocks: Clocks) -> None:
        self._peers = peers
        self._tasks = tasks
        self._node_id = node_id
        self.clocks = clocks
        self._line = asyncio.Lock()

    def ask(self, request: StateRequest) -> asyncio.Future[StateReply]:
        return self._tasks.park(self._in_turn(request))

    async def _in_turn(self, request: StateRequest) -> StateReply:
        async with self._line:
            try:
                return await self._carry_out(request)
            except QanatError:
                # It may have arrived or not: the caller loads the state again.
                return StateReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def _carry_out(self, request: StateRequest) -> StateReply:
        key = request.key
        match request:
            case ReadState():
                return await self._read(key)
            case WriteState():
                return await self._write(request)
            case ForgetState():
                return await self._forget(key)
            case InitialiseState():
                return await self._initialise(request)
            case BeginState():
                known = await self._read(key)
                if known.error is not ErrorCode.NONE or known.state is not None:
                    return known
                return await self._initialise(InitialiseState(key, 0, request.start_offset))
            case ResetState():
                known = await self._read(key)
                if known.error is not ErrorCode.NONE:
                    return known
                state_epoch = 0 if known.state is None else known.state.state_epoch + 1
                return await self._initialise(InitialiseState(key, state_epoch, request.start_offset))
            case SnapshotState():
                return StateReply()
        assert_never(request)

    async def _read(self, key: ShareKey) -> StateReply:
        rows = [read_share_group_state.PartitionData(key.partition, NO_LEADER_EPOCH)]
        topics = [read_share_group_state.ReadStateData(key.topic_id, rows)]
        request = read_share_group_state.ReadShareGroupStateRequest(key.group_id, topics)
        row = await self._call(ApiKey.READ_SHARE_GROUP_STATE, request)
        if row.error_code or row.start_offset == NO_OFFSET:
            return StateReply(error_code(row.error_code))
        batches = tuple(
            StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
            for one in row.state_batches
        )
        return StateReply(state=ShareSnapshot(key, 0, row.state_epoch, NO_LEADER_EPOCH, row.start_offset, batches))

    async def _initialise(self, wanted: InitialiseState) -> StateReply:
        key = wanted.key
        row = initialize_share_group_state.PartitionData(key.partition, wanted.state_epoch, wanted.start_offset)
        topics = [initialize_share_group_state.InitializeStateData(key.topic_id, [row])]
        request = initialize_share_group_state.InitializeShareGroupStateRequest(key.group_id, topics)
        error = error_code((await self._call(ApiKey.INITIALIZE_SHARE_GROUP_STATE, request)).error_code)
        if error is not ErrorCode.NONE:
            return StateReply(error)
        return StateReply(state=ShareSnapshot(key, 0, wanted.state_epoch, NO_LEADER_EPOCH, wanted.start_offset))

    async def _write(self, wanted: WriteState) -> StateReply:
        key = wanted.key
        row = write_share_group_state.PartitionData(
            key.partition,
            wanted.state_epoch,
            wanted.leader_epoch,
            wanted.start_offset,
            state_batches=[write_share_group_state.StateBatch(*batch) for batch in wanted.batches],
        )
        topics = [write_share_group_state.WriteStateData(key.topic_id, [row])]
        request = write_share_group_state.WriteShareGroupStateRequest(key.group_id, topics)
        return StateReply(error_code((await self._call(ApiKey.WRITE_SHARE_GROUP_STATE, request)).error_code))

    async def _forget(self, key: ShareKey) -> StateReply:
        rows = [delete_share_group_state.PartitionData(key.partition)]
        topics = [delete_share_group_state.DeleteStateData(key.topic_id, rows)]
        request = delete_share_group_state.DeleteShareGroupStateRequest(key.group_id, topics)
        return StateReply(error_code((await self._call(ApiKey.DELETE_SHARE_GROUP_STATE, request)).error_code))

    async def _call(self, api_key: ApiKey, request: Any) -> Any:
        """The row of the only partition in the request."""
        answer = await self._peers.call(self._node_id, api_key, request, _CALL_S)
        return answer.results[0].partitions[0]
