"""The half of a producer that runs on the I/O loop: leaders, batches on their way, flush, close."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

from qanat.client.errors import ClientError, ClosedError, TransactionError
from qanat.client.io_loop import IoLoop
from qanat.client.producer.accumulator import Accumulator, Line
from qanat.client.producer.batches import pending_of, seal
from qanat.client.producer.deliveries import BatchDelivery
from qanat.client.producer.sending import Plan, Sender, check_partition
from qanat.client.producer.settings import ProducerSettings
from qanat.connection.cluster import Cluster, TopicLeaders
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError
from qanat.connection.pipelined_producer import PipelinedProducer, PipelineLimits
from qanat.connection.producer_session import ProducerSession
from qanat.connection.topic_leaders import LeaderDirectory
from qanat.model.errors import QanatError
from qanat.telemetry.producer_metrics import ProducerMetrics
from qanat.wire.compression import Codec

OFF_LOOP_BYTES = 64 * 1024
"""Batches from this size on are compressed in a worker, so that the loop keeps its time."""
_CLOSED = ClosedError("the producer is closed: make another one")


class ProducerCore:
    """Made anywhere; every coroutine and `drain` run on the I/O loop."""

    def __init__(self, settings: ProducerSettings, io: IoLoop, sender: Sender, accumulator: Accumulator) -> None:
        self.settings = settings
        self.io = io
        self._sender = sender
        self._accumulator = accumulator
        self._codec = Codec.from_name(settings.compression_type)
        self._linger_s = settings.linger_ms / 1000
        self._starting = asyncio.Lock()
        self._cluster: Cluster | None = None
        self._leaders: LeaderDirectory | None = None
        self._pipeline: PipelinedProducer | None = None
        self._is_identified = False
        self._not_full: asyncio.Event | None = None
        self._look: asyncio.Handle | None = None
        self._look_s = 0.0
        """When that is: uvloop makes no timer of a time that has come, and its handle does not know."""
        self._sealing: set[asyncio.Task[None]] = set()
        self._flushing: list[tuple[set[BatchDelivery], asyncio.Future[None]]] = []
        self.metrics = ProducerMetrics()
        self.fault: QanatError | None = None
        """The first failure since it was last asked for."""
        self.is_in_transaction = False
        self.is_closed = False

    @property
    def pipeline(self) -> PipelinedProducer:
        assert self._pipeline is not None, "it is started first"
        return self._pipeline

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None, "it is started first"
        return self._cluster

    def deadline(self) -> Deadline:
        return Deadline.after(self.settings.max_block_ms / 1000)

    # Admission

    def update_stop(self) -> None:
        """Stop sends or let them go on, as the state says."""
        needs_transaction = self.settings.transactional_id is not None and not self.is_in_transaction
        self._sender.is_stopped = self.is_closed or needs_transaction

    async def start(self) -> None:
        """Connect, and get a producer id; a failure is raised, and the next call tries again."""
        async with self._starting:
            if self._pipeline is None:
                self._open()
            if not self._is_identified:
                self.pipeline.identify(await self._session())
                self._is_identified = True
                self.update_stop()

    def _open(self) -> None:
        settings = self.settings
        self._not_full = asyncio.Event()
        self._cluster = Cluster(
            settings.bootstrap_servers,
            settings.client_id,
            settings.request_timeout_ms / 1000,
            settings.security,
            settings.bootstrap_timeout_ms / 1000,
        )
        self._leaders = LeaderDirectory(self._cluster, settings.metadata_max_age_ms / 1000)
        limits = PipelineLimits(
            acks=settings.required_acks,
            retries=settings.retries,
            request_timeout_s=settings.request_timeout_ms / 1000,
            retry_backoff_s=settings.retry_backoff_ms / 1000,
            retry_backoff_max_s=settings.retry_backoff_max_ms / 1000,
            requests_in_flight=settings.max_in_flight_requests_per_connection,
            request_bytes=settings.max_request_size,
        )
        self._pipeline = PipelinedProducer(
            self._cluster, limits, self._leaders, self.drain, random.random, self.metrics
        )

    async def _session(self) -> ProducerSession | None:
        name, deadline = self.settings.transactional_id, self.deadline()
        if name is not None:
            return await ProducerSession.transactional(
                self.cluster, name, self.settings.transaction_timeout_ms, deadline
            )
        return await ProducerSession.idempotent(self.cluster, deadline) if self.settings.is_idempotent else None

    async def admit(self, topic: str) -> None:
        """Wait until a send to the topic can go on; raises where it never will."""
        if self.is_closed:
            raise _CLOSED
        if not isinstance(topic, str):
            raise ClientError(f"the topic is {topic!r:.100}, but must be a text, as in send('orders', value)")
        await self.start()
        if self.settings.transactional_id is not None and not self.is_in_transaction:
            raise TransactionError(
                "a producer with a transactional_id sends within a transaction: async with producer.transaction()"
            )
        if topic not in self._sender.plans:
            await self._learn(topic)
        while self._accumulator.is_full:
            assert self._not_full is not None
            self._not_full.clear()
            self.drain()
            if self._accumulator.is_full:
                await self._not_full.wait()
            if self.is_closed:
                raise _CLOSED
        self.update_stop()

    async def _learn(self, topic: str) -> None:
        assert self._leaders is not None
        view = await self._leaders.known(topic, self.deadline())
        self._plan(topic, view)

    async def check_place(self, topic: str, partition: int | None) -> None:
        """Raise where there is no such topic or partition. Needs no producer id, and no transaction."""
        if self.is_closed:
            raise _CLOSED
        if self._pipeline is None:
            self._open()
        if topic not in self._sender.plans:
            await self._learn(topic)
        if partition is None:
            return
        assert self._leaders is not None
        if partition >= self._sender.plans[topic].count and self._leaders.begin(topic):
            self._plan(topic, await self._leaders.refresh(topic, self.deadline()))  # It may have grown.
        check_partition(self._sender.plans[topic], partition)

    def _plan(self, topic: str, view: TopicLeaders) -> None:
        plan = self._sender.plans.get(topic)
        if plan is None:
            self._sender.plans[topic] = Plan(topic, len(view.leaders))
        elif plan.count < len(view.leaders):
            plan.grow(len(view.leaders))

    # Batches

    def drain(self) -> None:
        """Pass on what may leave."""
        pipeline = self._pipeline
        if pipeline is None or self.is_closed or not self._is_identified:
            return
        now = self.io.loop.time()
        leaving, look_at = self._accumulator.take(
            now, self._linger_s, pipeline.has_room, lambda at: not pipeline.in_flight(at)
        )
        for line, delivery in leaving:
            expires_at = (delivery.opened_at or now) + self.settings.delivery_timeout_ms / 1000
            if self._codec is Codec.NONE or delivery.builder.size < OFF_LOOP_BYTES:
                self._add(delivery, seal(delivery, self._codec), expires_at)
            else:
                line.is_sealing = True
                task = self.io.loop.create_task(self._seal_off_loop(line, delivery, expires_at))
                self._sealing.add(task)
                task.add_done_callback(self._sealing.discard)
        if look_at is not None:
            self._look_at(look_at)
        if leaving:
            for topic in {delivery.at.topic for _, delivery in leaving}:
                self._grow(topic)

    def _grow(self, topic: str) -> None:
        view = self._leaders.view(topic) if self._leaders is not None else None
        if view is not None:
            self._plan(topic, view)

    def _look_at(self, when: float) -> None:
        if self._look is not None:
            if self._look_s <= when:
                return
            self._look.cancel()
        self._look, self._look_s = self.io.loop.call_at(when, self._on_look), when

    def _on_look(self) -> None:
        self._look = None
        self.drain()

    async def _seal_off_loop(self, line: Line, delivery: BatchDelivery, expires_at: float) -> None:
        batch = await self.io.loop.run_in_executor(None, seal, delivery, self._codec)
        line.is_sealing = False
        self._add(delivery, batch, expires_at)
        self.drain()

    def _add(self, delivery: BatchDelivery, batch: bytearray, expires_at: float) -> None:
        self.pipeline.add(pending_of(delivery, batch, self._codec, expires_at, self._settle))

    def _settle(self, delivery: BatchDelivery, base_offset: int, appended_ms: int, fault: QanatError | None) -> None:
        if fault is not None and self.fault is None:
            self.fault = fault
        delivery.settle(base_offset, appended_ms, fault)
        if self._accumulator.finished(delivery) and self._not_full is not None:
            self._not_full.set()
        for left, future in list(self._flushing):
            left.discard(delivery)
            if not left and not future.done():
                future.set_result(None)

    # Flush and close

    async def flush(self, timeout_s: float | None = None, *, must_raise: bool = True) -> None:
        """Wait until everything that was sent is acknowledged or failed; raises the first failure since the last."""
        left = set(self._accumulator.flush())
        if left:
            if not self._is_identified:
                await self.start()
            future: asyncio.Future[None] = self.io.loop.create_future()
            entry = (left, future)
            self._flushing.append(entry)
            self.drain()
            try:
                await asyncio.wait_for(future, timeout_s)
            except TimeoutError:
                raise OutOfTimeError(
                    f"{sum(one.builder.count for one in left)} records are not acknowledged after {timeout_s} s"
                ) from None
            finally:
                self._flushing.remove(entry)
        if must_raise:
            self.raise_fault()

    def raise_fault(self) -> None:
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault

    def abandon(self, fault: QanatError, deliveries: Iterable[BatchDelivery]) -> None:
        """Fail batches that have not left."""
        for delivery in deliveries:
            self._settle(delivery, -1, -1, fault)

    async def close(self) -> None:
        """End at once: what is not acknowledged fails."""
        if self.is_closed:
            return
        self.is_closed = True
        self.update_stop()
        if self._look is not None:
            self._look.cancel()
        for task in list(self._sealing):
            task.cancel()
        await asyncio.gather(*self._sealing, return_exceptions=True)
        if self._pipeline is not None:
            await self._pipeline.close()
        late = ClosedError("the producer was closed before the record was acknowledged")
        self._accumulator.discard()
        self.abandon(late, list(self._accumulator.unfinished))
        if self._not_full is not None:
            self._not_full.set()
        if self._cluster is not None:
            await self._cluster.__aexit__()
