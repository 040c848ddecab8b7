"""Receiving: what the broker pushes is stored, and then acknowledged.

Rule 1: nothing is acknowledged before it is durable. What was not acknowledged comes again, and is recognized.
Rule 2: a full disk is waited for: nothing is acknowledged meanwhile, so the broker's credit runs out and it waits.
        Any other fault of the storage ends the receiving; what is stored is served on.
Rule 3: RESET and READY of a refresh are answered once the store has made the step that they ask for durable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from qanat.app.edge.consuming.partition_copy import CopyRecord
from qanat.app.edge.consuming.record_index import DamagedIndexError
from qanat.app.edge.consuming.record_store import Arrived, RecordStore
from qanat.client.push.consumers import AsyncPushConsumer, Delivered
from qanat.connection.push.receiving import ResumePoint
from qanat.edge.resume import RECREATED, TRUNCATED
from qanat.model.errors import DiskFullError, QanatError, StorageError
from qanat.model.ids import TopicPartition
from qanat.telemetry.events import log_event
from qanat.wire.records import Record

if TYPE_CHECKING:
    from qanat.app.edge.consuming.counters import Counters
    from qanat.app.edge.consuming.health import Condition
    from qanat.app.edge.consuming.settings import ConsumerSettings
    from qanat.app.edge.consuming.store_thread import StoreThread
    from qanat.connection.push.refreshing import Refresh
    from qanat.wire.push.control import Reset

Rest = ParamSpec("Rest")
Result = TypeVar("Result")

BATCH_RECORDS = 10_000
CREDIT_RECORDS, CREDIT_BYTES = 10_000, 8 * 1024 * 1024
"""What may be on its way: the storage makes everything durable at once that has arrived."""
_RETRY_S, _RETRY_MAX_S = 0.5, 10.0
_REFUSED_S = 5.0


class Receiver:
    """Receives for one application; belongs to one event loop."""

    def __init__(
        self,
        settings: ConsumerSettings,
        protection: Mapping[str, str],
        thread: StoreThread,
        condition: Condition,
        counters: Counters,
    ) -> None:
        self._settings = settings
        self._protection = protection
        self._thread = thread
        self._condition = condition
        self._counters = counters
        self._consumer: AsyncPushConsumer | None = None
        self._told = ""
        """Why there is no connection, as it was logged last."""

    def observe(self) -> None:
        """Bring what is known of the connection up to date."""
        consumer, condition = self._consumer, self._condition
        was_connected = condition.is_connected
        condition.is_connected = consumer is not None and consumer.is_connected
        if consumer is not None and not condition.is_connected:
            condition.connection = consumer.fault or f"{self._address} has not answered yet"
        if was_connected and not condition.is_connected:
            self._counters.reconnections += 1
        if was_connected != condition.is_connected:
            if condition.is_connected:
                self._told = ""
                log_event("connected", broker=self._address)
            else:
                log_event("disconnected", level="warning", broker=self._address, reason=condition.connection)
        elif consumer is not None and consumer.fault and not condition.is_connected and not self._told:
            self._tell("not connected", consumer.fault)

    def _tell(self, event: str, reason: str) -> None:
        """Log why there is no connection, once for as long as it is so."""
        if reason != self._told:
            log_event(event, level="warning", broker=self._address, reason=reason)
        self._told = reason

    @property
    def _address(self) -> str:
        host = self._settings.broker_host
        return f"{f'[{host}]' if ':' in host else host}:{self._settings.broker_port}"

    async def run(self) -> None:
        """Receive until it is cancelled, or the storage fails."""
        while True:
            try:
                async with await self._made() as consumer:
                    self._consumer = consumer
                    await self._receive(consumer)
            except StorageError as fault:
                self._condition.storage = f"nothing is stored any more: {fault}"
                log_event("storage failed", level="error", reason=str(fault))
                return
            except QanatError as fault:
                self._condition.connection = f"{self._address}: {fault}"
                self._tell("refused by the broker", str(fault))
            finally:
                self._consumer = None
                self._condition.is_connected = False
            await asyncio.sleep(_REFUSED_S)

    async def _made(self) -> AsyncPushConsumer:
        settings = self._settings
        positions = await self._thread.call(_positions)
        return AsyncPushConsumer(
            {"bootstrap.servers": self._address, **self._protection},
            settings.topics,
            positions=positions,
            on_reset=self._reset,
            on_ready=self._ready,
            on_void=self._void,
            group_id=settings.consumer_group,
            client_id=f"{settings.type}-consumer",
            credit_records=CREDIT_RECORDS,
            credit_bytes=CREDIT_BYTES,
        )

    async def _receive(self, consumer: AsyncPushConsumer) -> None:
        while True:
            batch = await consumer.next_batch(BATCH_RECORDS)
            self.observe()
            began = time.perf_counter()
            await self._durably(RecordStore.store, by_partition(batch, consumer), _now_ms())
            consumer.done()
            self._counters.batches += 1
            self._counters.store_s.observe(time.perf_counter() - began)

    # What the broker says between records; it is answered when these return.

    async def _reset(self, refresh: Refresh) -> dict[TopicPartition, ResumePoint]:
        """A refresh begins, or goes on: what is served stays until READY."""
        held = await self._durably(RecordStore.reset, refresh.id, refresh.partitions)
        resumed = {str(at): place.offset for at, place in held.items()}
        log_event("refresh begins", refresh=refresh.id, topic=refresh.topic, resumed=resumed or "nothing")
        return {at: ResumePoint(*place) for at, place in held.items()}

    async def _ready(self, refresh: Refresh) -> None:
        """A refresh is complete: what it has filled is served from here on."""
        await self._durably(RecordStore.ready, refresh.id, list(refresh.partitions))
        self._counters.refreshes += 1
        log_event("refresh complete", refresh=refresh.id, topic=refresh.topic)

    async def _void(self, reset: Reset) -> None:
        """What was received from an offset on is void, or retention has passed what comes next."""
        self._counters.resets += 1
        at = TopicPartition(reset.topic, reset.partition)
        log_event("reset", level="warning", partition=str(at), offset=reset.offset, why=reset.why)
        if reset.why == RECREATED:
            await self._durably(RecordStore.recreated, at, reset.topic_id)
        elif reset.why == TRUNCATED:
            await self._durably(RecordStore.void, at, reset.offset, reset.refresh)

    async def _durably(
        self, act: Callable[Concatenate[RecordStore, Rest], Result], *values: Rest.args, **named: Rest.kwargs
    ) -> Result:
        """Do something with the store, and return once it is durable; a full disk is waited for."""
        pause_s = _RETRY_S
        while True:
            try:
                result = await self._thread.call(act, *values, **named)
                break
            except DamagedIndexError as fault:
                log_event("index damaged: it is made again", level="warning", reason=str(fault))
                await self._thread.call(RecordStore.rebuild_index)
            except DiskFullError as fault:
                if not self._condition.storage:
                    log_event("disk full: waiting for room", level="error", reason=str(fault))
                self._condition.storage = str(fault)
                self._counters.store_faults += 1
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _RETRY_MAX_S)
        if self._condition.storage:
            log_event("storing again")
            self._condition.stored()
        return result


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _positions(store: RecordStore) -> dict[TopicPartition, ResumePoint]:
    """What is held of each partition, and of which topic."""
    return {at: ResumePoint(*place, store.topic_id(at)) for at, place in store.positions().items()}


class Known(Protocol):
    """What the consumer knows of the records that it has handed out."""

    @property
    def topic_ids(self) -> Mapping[TopicPartition, str]: ...

    def refresh_of(self, record: Delivered) -> Refresh | None: ...


def by_partition(batch: Sequence[Delivered], known: Known) -> list[Arrived]:
    """Pushed records by partition, each in the order in which they came."""
    found: dict[TopicPartition, list[CopyRecord]] = {}
    refreshes: dict[TopicPartition, str] = {}
    for one in batch:
        at = one.topic_partition
        if at not in found:
            refresh = known.refresh_of(one)
            found[at], refreshes[at] = [], "" if refresh is None else refresh.id
        found[at].append(
            CopyRecord(Record(one.offset, one.timestamp_ms, one.key, one.value, one.headers), one.leader_epoch)
        )
    return [Arrived(at, records, refreshes[at], known.topic_ids.get(at, "")) for at, records in found.items()]
