"""Share partitions: those that this broker leads, and the progress of groups in all of them.

A share partition is loaded when a member first fetches from it. A group that is new to a partition starts where its
`share.auto.offset.reset` says, and that is persisted at once: it starts there after a crash as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from qanat.broker.coordinators.coordinator_shard import Clocks
from qanat.broker.replicas.partition import Partition
from qanat.broker.runtime.detached_work import to_the_end
from qanat.broker.share.dead_letters import DeadLetters
from qanat.broker.share.delivery_policies import SharePolicies
from qanat.broker.share.share_host import ShareHost
from qanat.broker.share.share_partition import LedSharePartition
from qanat.broker.share.share_sessions import ShareSessions
from qanat.broker.share.state_coordinator import ShareCoordinator
from qanat.groups.consumer.records import TopicIdPartition
from qanat.groups.share.record_states import RecordState
from qanat.groups.share.standing import ShareStanding
from qanat.groups.share.state_records import ShareKey
from qanat.groups.share.state_shard import BeginState, ForgetState, ReadState, ResetState
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicId
from qanat.telemetry.share_counters import ShareCounters

_DONE = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class SharePartitions:
    """Loads and drops share partitions."""

    def __init__(
        self, host: ShareHost, policies: SharePolicies, clocks: Clocks, on_progress: Callable[[Partition], None]
    ) -> None:
        settings = host.current_settings.at_start.groups
        self._host = host
        self._on_progress = on_progress
        self.policies = policies
        self.states = ShareCoordinator(host, settings, clocks)
        self.sessions = ShareSessions(settings.group_share_max_share_sessions)
        self.watched: WeakSet[Any] = WeakSet()
        """Connections whose loss ends sessions."""
        self._led: dict[ShareKey, LedSharePartition] = {}
        self._loading: dict[ShareKey, asyncio.Task[LedSharePartition | ErrorCode]] = {}
        self.counters = ShareCounters()
        self._letters = DeadLetters(host, self.counters)

    def take_over(self, partition: Partition) -> None:
        """Load what a partition of the internal topic holds, and resume what was under way: dead letters must be
        written, and logs start where their groups are."""
        self.states.topic.take_over(partition)
        self._host.park(self._resume(partition))

    async def _resume(self, partition: Partition) -> None:
        if partition.log.end_offset == 0:
            return
        shard = await self.states.topic.shard(partition.at.partition)
        while shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and not partition.is_retired:
            shard = await self.states.topic.shard(partition.at.partition)
        if isinstance(shard, ErrorCode):
            return  # The next user resumes what was under way.
        topics = self._host.metadata.image.topics_by_id
        for key, state in list(shard.shard.states.items()):
            if TopicId.of(key.topic_id) not in topics:
                await shard.ask(ForgetState(key))
            elif any(batch.state == RecordState.ARCHIVING for batch in state.batches):
                await self.lead(key)
            at = self._host.lookup.led_by_id(key.topic_id, key.partition)
            if isinstance(at, Partition):
                self._on_progress(at)

    def close(self) -> None:
        for led in self._led.values():
            led.end()
        self.states.close()

    # For members

    def all_led(self) -> list[LedSharePartition]:
        """All share partitions that are loaded here."""
        return list(self._led.values())

    def led(self, key: ShareKey) -> LedSharePartition | None:
        """A share partition that is loaded and serves."""
        led = self._led.get(key)
        if led is None or not led.is_serving:
            return None
        if self._host.lookup.led_by_id(key.topic_id, key.partition) is not led.partition:
            return None  # It is led in another epoch, elsewhere, or its topic is deleted.
        led.apply_settings(self.policies.of(key.group_id))
        return led

    async def lead(self, key: ShareKey) -> LedSharePartition | ErrorCode:
        """The same, loaded if need be; all requests meanwhile wait for the same load."""
        if (led := self.led(key)) is not None:
            return led
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = self._host.park(self._load(key))
            loading.add_done_callback(lambda _: self._loading.pop(key, None))
        return await to_the_end(loading)

    async def _load(self, key: ShareKey) -> LedSharePartition | ErrorCode:
        partition = self._host.lookup.led_by_id(key.topic_id, key.partition)
        if isinstance(partition, ErrorCode):
            return partition
        persister = await self.states.persister_of(key)
        if isinstance(persister, ErrorCode):
            return persister
        policy = self.policies.of(key.group_id)
        begun = await persister.ask(ReadState(key))
        if begun.error is ErrorCode.NONE and begun.state is None:
            try:
                offset = await self.policies.first_offset(key.group_id, partition)
            except QanatError as fault:
                return fault.code
            begun = await persister.ask(BeginState(key, partition.leader_epoch, offset))
        if begun.error is not ErrorCode.NONE or begun.state is None:
            return begun.error or ErrorCode.UNKNOWN_SERVER_ERROR
        self._drop(key)
        led = LedSharePartition(key, partition, persister, begun.state, policy, self._letters.write, self._on_durable)
        led.counters = self.counters
        self._led[key] = led
        return led

    def _on_durable(self, led: LedSharePartition) -> None:
        """A group's durable offset in a partition has advanced."""
        self._on_progress(led.partition)

    def _drop(self, key: ShareKey) -> None:
        led = self._led.pop(key, None)
        if led is not None:
            led.end()

    def release(self, group_id: str, member: str, *, is_attempt: bool) -> None:
        """Release all records that a member of a group holds."""
        for key, led in self._led.items():
            if key.group_id == group_id and led.is_serving:
                led.release(member, is_attempt=is_attempt)

    # For administrators

    async def progress(self, group_id: str, at: TopicIdPartition) -> ShareStanding:
        """How far a group is in a partition; asking creates nothing."""
        key = ShareKey(group_id, at.topic_id, at.partition)
        if (led := self.led(key)) is not None:
            start_offset, done_count = led.records.start_offset, led.records.done_count
            return ShareStanding(start_offset, led.partition.leader_epoch, done_count)
        state = await self.states.state_of(key)
        if isinstance(state, ErrorCode):
            return ShareStanding(error=state)
        if state is None:
            return ShareStanding()
        done_count = sum(batch.last_offset - batch.first_offset + 1 for batch in state.batches if batch.state in _DONE)
        return ShareStanding(state.start_offset, state.leader_epoch, done_count)

    async def reset(self, group_id: str, at: TopicIdPartition, start_offset: int) -> ErrorCode:
        """Let a group start again at an offset; durable when this returns."""
        key = ShareKey(group_id, at.topic_id, at.partition)
        persister = await self.states.persister_of(key)
        if isinstance(persister, ErrorCode):
            return persister
        self._drop(key)
        return (await persister.ask(ResetState(key, start_offset))).error

    async def forget(self, group_id: str, at: TopicIdPartition) -> ErrorCode:
        """Delete a group's state in a partition; it is no error where there is none."""
        key = ShareKey(group_id, at.topic_id, at.partition)
        if not self.states.topic.is_there:
            return ErrorCode.NONE
        persister = await self.states.persister_of(key)
        if isinstance(persister, ErrorCode):
            return persister
        self._drop(key)
        return (await persister.ask(ForgetState(key))).error

    async def forget_topic(self, topic_id: bytes) -> None:
        """Delete the state of all groups in a deleted topic."""
        for key in [key for key in self._led if key.topic_id == topic_id]:
            self._drop(key)
        for shard in self.states.topic.loaded():
            for key in [key for key in shard.shard.states if key.topic_id == topic_id]:
                await shard.ask(ForgetState(key))
