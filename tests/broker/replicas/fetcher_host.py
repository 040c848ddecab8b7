"""A broker as its replica fetchers see it, with a leader that is a script; in simulated time for tests that ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from types import SimpleNamespace
from typing import Any

from tests.log.batches import batch, log_settings
from tests.log.directories import TOPIC_ID, opened, running, until

from qanat.adapters.memory_files import MemoryFiles
from qanat.broker.replicas.local_replicas import FollowerReplica
from qanat.broker.replicas.replica_fetchers import ReplicaFetchers
from qanat.broker.runtime.parked_tasks import ParkedTasks
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.cluster.values import PartitionState
from qanat.connection.deadline import Deadline
from qanat.connection.faults import UnreachableError
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.telemetry.broker_counters import BrokerCounters
from qanat.testing.simulation.loop import NO_OWNER, SimFsyncThread, SimLoop
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
    times: list[float] = field(default_factory=list)
    """When each request was sent, by the loop's clock."""
    deadlines: list[float] = field(default_factory=list)
    answers: asyncio.Queue[FetchResponse | Exception] = field(default_factory=asyncio.Queue)
    closed: int = 0
    closing_s: float = 0.0
    """How long it takes to close."""

    async def call(self, _key: object, request: FetchRequest, deadline: Deadline, at_most: int) -> FetchResponse:
        assert at_most == 17
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        self.deadlines.append(deadline.at)
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        if self.closing_s:
            await asyncio.sleep(self.closing_s)
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
        self.peers: Any = SimpleNamespace(open=self.open)
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
async def host(**settings: Any) -> AsyncIterator[Host]:
    flusher = SimFsyncThread() if isinstance(asyncio.get_running_loop(), SimLoop) else None
    async with running(opened(MemoryFiles()), flusher) as runtime:
        found = Host(runtime, settings=BrokerSettings(**settings))
        try:
            yield found
        finally:
            await found.fetchers.close()
            await found.tasks.cancel()


def simulated(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in simulated time, where only sleeping and work on a thread take time. A task that dies fails it."""

    @wraps(test)
    def run(*args: Any, **named: Any) -> None:
        loop = SimLoop(1, work_s=0.0001)
        bugs: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: bugs.append(context))
        try:
            loop.run_until_complete(test(*args, **named))
            loop.report_failed(NO_OWNER)
        finally:
            loop.close()
        assert not bugs

    return run


async def soon(condition: Callable[[], bool]) -> None:
    """In simulated time: let the others run until something is so, and look after each piece of work."""
    async with asyncio.timeout(1.0):
        while not condition():  # noqa: ASYNC110 (a thread does it)
            await asyncio.sleep(0.00001)


def row(number: int = 0, records: bytes | None = None, high_watermark: int = 0, **fields: Any) -> PartitionData:
    return PartitionData(number, high_watermark=high_watermark, records=records, **fields)


def named(request: FetchRequest) -> list[tuple[int, int]]:
    """The partitions of a request and the offset of each."""
    return [(one.partition, one.fetch_offset) for topic in request.topics for one in topic.partitions]
