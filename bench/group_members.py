"""Members of consumer groups that only take part in the protocol, to measure the group and not the clients."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any, ClassVar

from qanat.connection.assignors import assign_range, decode_assignment, encode_assignment, encode_subscription
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.headers import frame_request, read_response_header
from qanat.wire.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from qanat.wire.kafka.messages.heartbeat import HeartbeatRequest
from qanat.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from qanat.wire.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from qanat.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from qanat.wire.kafka.registry import APIS, ApiKey

_TIMEOUT_MS = 30_000
_CALLED = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


class Wire:
    """One connection with one request under way at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._correlation_id = 0

    @staticmethod
    async def connected(address: str) -> Wire:
        host, _, port = address.rpartition(":")
        return Wire(*await asyncio.open_connection(host, int(port)))

    async def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        self._correlation_id += 1
        codec = APIS[key].codec
        body = codec.write_request(request, version)
        self._writer.write(b"".join(frame_request(key, version, self._correlation_id, "bench", body)))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        frame = memoryview(await self._reader.readexactly(size))
        _, position = read_response_header(frame, key, version)
        return codec.read_response(frame, version, position)

    def close(self) -> None:
        self._writer.close()


class Topic:
    """The topic, and the group of the same name."""

    def __init__(self, name: str, identity: bytes, partitions: int) -> None:
        self.name = name
        self.identity = identity
        self.partitions = partitions


class Member:
    """The common part of both kinds: connections, a task, and the assigned partitions."""

    title: ClassVar[str]

    def __init__(self, wire: Wire, leaving: Wire, topic: Topic, name: str, heartbeat_ms: int) -> None:
        self._wire = wire
        self._leaving = leaving
        """A connection to leave the group on, while the other one waits for a response."""
        self._topic = topic
        self._name = name
        self._pause_s = heartbeat_ms / 1000
        self._task: asyncio.Task[None] | None = None
        self.reads: list[int] = []

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._wire.close()
        self._leaving.close()

    async def leave(self) -> None:
        """Leave the group."""
        assert self._task is not None
        self._task.cancel()
        self.reads = []
        await self._say_goodbye()

    async def _run(self) -> None:
        raise NotImplementedError

    async def _say_goodbye(self) -> None:
        raise NotImplementedError

    async def _pause(self, beats: int) -> None:
        """Until the next heartbeat; the first comes at a random time, so that heartbeats are spread."""
        await asyncio.sleep(self._pause_s if beats else random.uniform(0, self._pause_s))


class ConsumerMember(Member):
    """A member of the new protocol."""

    title = "new protocol"

    async def _run(self) -> None:
        epoch, beats, has_news = 0, 0, True
        while True:
            request = ConsumerGroupHeartbeatRequest(self._topic.name, self._name, epoch)
            if has_news:
                rows = [RequestTopicPartitions(self._topic.identity, self.reads)]
                request.topic_partitions = rows if self.reads else []
            if epoch == 0:
                request.rebalance_timeout_ms, request.subscribed_topic_names = _TIMEOUT_MS, [self._topic.name]
            answer = await self._wire.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
            assert not answer.error_code, answer
            epoch, has_news = answer.member_epoch, False
            if answer.assignment is not None:
                assigned = [number for row in answer.assignment.topic_partitions for number in row.partitions]
                has_news = any(number not in assigned for number in self.reads)
                self.reads = assigned
            if not has_news:
                await self._pause(beats)
                beats += 1

    async def _say_goodbye(self) -> None:
        request = ConsumerGroupHeartbeatRequest(self._topic.name, self._name, -1)
        await self._leaving.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)


class ClassicMember(Member):
    """A classic member: joins, assigns if it is the leader, syncs, sends heartbeats until a rebalance."""

    title = "classic protocol"

    async def _run(self) -> None:
        beats = 0
        self._member_id = ""
        while True:
            generation_id = await self._join_and_sync()
            while generation_id is not None:
                await self._pause(beats)
                beats += 1
                request = HeartbeatRequest(self._topic.name, generation_id, self._member_id)
                answer = await self._wire.ask(ApiKey.HEARTBEAT, 4, request)
                if answer.error_code:
                    assert answer.error_code in _CALLED, answer
                    self.reads, generation_id = [], None

    async def _join_and_sync(self) -> int | None:
        """Join and sync; returns the generation, or None where a rebalance comes meanwhile."""
        protocols = [JoinGroupRequestProtocol("range", encode_subscription([self._topic.name]))]
        request = JoinGroupRequest(
            self._topic.name, _TIMEOUT_MS, _TIMEOUT_MS, self._member_id, None, "consumer", protocols
        )
        joined = await self._wire.ask(ApiKey.JOIN_GROUP, 9, request)
        self._member_id = joined.member_id
        if joined.error_code:
            assert joined.error_code in (ErrorCode.MEMBER_ID_REQUIRED, *_CALLED), joined
            return None
        rows = self._divided([one.member_id for one in joined.members])
        sync = SyncGroupRequest(
            self._topic.name, joined.generation_id, self._member_id, None, "consumer", "range", rows
        )
        synced = await self._wire.ask(ApiKey.SYNC_GROUP, 5, sync)
        if synced.error_code:
            assert synced.error_code in _CALLED, synced
            return None
        self.reads = [at.partition for at in decode_assignment(bytes(synced.assignment))]
        generation_id: int = joined.generation_id
        return generation_id

    def _divided(self, member_ids: list[str]) -> list[SyncGroupRequestAssignment]:
        name = self._topic.name
        given = assign_range({member: [name] for member in member_ids}, {name: self._topic.partitions})
        return [SyncGroupRequestAssignment(member, encode_assignment(held)) for member, held in given.items()]

    async def _say_goodbye(self) -> None:
        request = LeaveGroupRequest(self._topic.name, "", [MemberIdentity(self._member_id)])
        await self._leaving.ask(ApiKey.LEAVE_GROUP, 5, request)
