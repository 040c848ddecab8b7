"""A broker as its replica fetchers see it, with a leader that is a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from tests.log.batches import batch, log_settings
from tests.log.directories import TOPIC_ID, opened, running, until

from qanat.adapters.memory_files import MemoryFiles
from qanat.broker.replicas.local_replicas import FollowerReplica
from qanat.broker.replicas.replica_fetchers import ReplicaFetchers
from qanat.broker.runtime.parked_tasks import ParkedTasks
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.cluster.values import PartitionState
from qanat.connection.faults import UnreachableError
from qanat.connection.link import Link as Connection
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.telemetry.broker_counters import BrokerCounters
from qanat.wire.kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

ME, LEADER = 0, 1
EPOCH = 3
RAW_ID = b"\1" * 16
SETTINGS = BrokerSettings()


@dataclass
class Link:
    """A connection to a leader that answers with what is put into it; a request waits for its answer."""

    requests: list[FetchRequest] = field(default_factory=list)
    answers: asyncio.Queue[FetchResponse | Exception] = field(default_factory=asyncio.Queue)
    closed: int = 0

    async def call(self, _key: object, request: FetchRequest, _deadline: object, at_most: int) -> FetchResponse:
        assert at_most == 17
        self.requests.append(request)
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        self.closed += 1

    def answer(self, *rows: PartitionData, error: ErrorCode = ErrorCode.NONE) -> None:
        topics = [FetchableTopicResponse(topic_id=RAW_ID, partitions=list(rows))] if rows else []
        self.answers.put_nowait(FetchResponse(error_code=error.value, session_id=9, responses=topics))


@dataclass
class Host:
    """A broker with followers, as far as fetchers see it."""

    runtime: LogRuntime
    node_id: int = ME
    membership: Any = field(default_factory=lambda: SimpleNamespace(epoch_in_requests=77))
    settings: BrokerSettings = SETTINGS
    counters: BrokerCounters = field(default_factory=BrokerCounters)
    tasks: ParkedTasks = field(default_factory=ParkedTasks)
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    damaged: dict[TopicPartition, None] = field(default_factory=dict)
    throttled: set[TopicPartition] = field(default_factory=set)
    events: list[tuple[Any, ...]] = field(default_factory=list)
    """What other parts are told, in order."""
    unreachable: list[int] = field(default_factory=list)
    failures: int = 0
    """So many attempts to connect fail."""

    def __post_init__(self) -> None:
        def note(name: str) -> Callable[..., None]:
            return lambda *fields: self.events.append((name, *fields))

        self.park = self.tasks.park
        self.link = Link()
        self.peers: Any = SimpleNamespace(address_of=lambda _: ("host", 1))
        self.local_replicas: Any = SimpleNamespace(state_of=self.states.get)
        self.replica_faults: Any = SimpleNamespace(damaged=self.damaged, repaired=self._repaired)
        self.follower_fetching: Any = SimpleNamespace(retire=note("retire"), note_appended=note("appended"))
        self.throttles: Any = SimpleNamespace(must_wait=lambda at: at in self.throttled, note_received=note("received"))
        self.fetchers = ReplicaFetchers(self, self.unreachable.append)

    def _repaired(self, at: TopicPartition) -> None:
        self.events.append(("repaired", at))
        self.damaged.pop(at, None)

    async def open(self, *_: object) -> Link:
        if self.failures:
            self.failures -= 1
            raise UnreachableError("refused")
        return self.link

    async def replica(self, number: int = 0, records: int = 0, **settings: object) -> FollowerReplica:
        at = TopicPartition("t", number)
        log = await self.runtime.create(at, TOPIC_ID, log_settings(**settings))
        for _ in range(records):
            self.runtime.append_own(log, batch(1), EPOCH - 1)
        if records and log.settings.is_synced:
            await self.runtime.flushed(log, records)
        return FollowerReplica(at, RAW_ID, log, LEADER, EPOCH)

    async def following(self, number: int = 0, records: int = 0, **settings: object) -> FollowerReplica:
        replica = await self.replica(number, records, **settings)
        self.fetchers.follow(replica)
        return replica

    async def request(self, number: int) -> FetchRequest:
        """The request of this number, once it is sent."""
        await until(lambda: len(self.link.requests) > number)
        return self.link.requests[number]

    def happened(self, name: str) -> list[list[Any]]:
        return [fields for kind, *fields in self.events if kind == name]


@asynccontextmanager
async def host(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> AsyncIterator[Host]:
    async with running(opened(MemoryFiles())) as runtime:
        found = Host(runtime, settings=BrokerSettings(**settings))
        monkeypatch.setattr(Connection, "open", found.open)
        try:
            yield found
        finally:
            await found.fetchers.close()
            await found.tasks.cancel()


def row(number: int = 0, records: bytes | None = None, high_watermark: int = 0, **fields: Any) -> PartitionData:
    return PartitionData(number, high_watermark=high_watermark, records=records, **fields)


def named(request: FetchRequest) -> list[tuple[int, int]]:
    """The partitions of a request and the offset of each."""
    return [(one.partition, one.fetch_offset) for topic in request.topics for one in topic.partitions]
