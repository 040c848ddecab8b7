"""Two brokers that get the same requests: one over the fast paths, one without them."""

from __future__ import annotations

import asyncio
import uuid
from itertools import count
from typing import Any, NamedTuple

from tests.servers.kafka.producer_here import ProducerHere, fetch_frame, produce_frame

from qanat.api.interceptor import authorize
from qanat.broker.replicas.partition import EndMarker, Partition
from qanat.model.ids import TopicId
from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource, ResourceKind
from qanat.servers.listener_security import ListenerSecurity
from qanat.testing import BrokerHere
from qanat.wire.batch_header import batch_crc
from qanat.wire.compression import Codec
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

NOW = 1_700_000_000_000
OPEN_PRODUCER = 9
"""Has an open transaction when the requests begin."""
TRANSACTIONAL_ID = "id"
_LONG_MS = 600_000
_TURNS = 20
"""Turns of the event loop in which what is there reaches a parked fetch."""


class Damage(NamedTuple):
    """One byte of a batch, or of the whole frame."""

    place: int
    value: int
    is_in_batch: bool
    is_crc_right: bool

    def of_frame(self, frame: bytes) -> bytes:
        """Neither the size, nor the API and its version are damaged."""
        place = 8 + self.place % (len(frame) - 8)
        return frame[:place] + bytes([self.value]) + frame[place + 1 :]


class ProduceAct(NamedTuple):
    """One Produce request."""

    version: int
    acks: int
    producer: int
    epoch: int
    sequence: int
    records: int
    codec: Codec
    timestamp: int
    damage: Damage | None

    def frame(self, topic: str, topic_id: bytes) -> bytes:
        is_transactional = self.producer == OPEN_PRODUCER
        batch = encode_batch(
            [Record(number, self.timestamp, b"key", b"value") for number in range(self.records)],
            codec=self.codec,
            producer_id=self.producer,
            producer_epoch=-1 if self.producer < 0 else 0 if is_transactional else self.epoch,
            base_sequence=-1 if self.producer < 0 else self.sequence,
            is_transactional=is_transactional,
        )
        damage = self.damage
        if damage is not None and damage.is_in_batch:
            batch[damage.place % len(batch)] = damage.value
            if damage.is_crc_right:
                batch[17:21] = batch_crc(batch).to_bytes(4)
        transactional_id = TRANSACTIONAL_ID if is_transactional else None
        frame = produce_frame(
            batch,
            self.version,
            acks=self.acks,
            transactional_id=transactional_id,
            topic=topic,
            topic_id=topic_id,
        )
        return frame if damage is None or damage.is_in_batch else damage.of_frame(frame)

    @property
    def is_answered(self) -> bool:
        return self.acks != 0 and self.damage is None  # A damaged frame may say acks=0.


class EndAct(NamedTuple):
    """The end of the transaction that is open when the requests begin."""

    is_commit: bool


class RightsAct(NamedTuple):
    """What clients may do from now on, where an authorizer decides."""

    allowed: frozenset[Operation]


class FetchAct(NamedTuple):
    """One Fetch request; it waits for what is done meanwhile, and then until its time is up."""

    version: int
    offset: int
    epoch: int
    room: int
    max_bytes: int
    isolation_level: int
    min_bytes: int
    is_patient: bool
    damage: Damage | None
    meanwhile: list[ProduceAct | EndAct]

    def frame(self, topic: str, topic_id: bytes) -> bytes:
        frame = fetch_frame(
            self.version,
            topic=topic,
            topic_id=topic_id,
            offset=self.offset,
            epoch=self.epoch,
            room=self.room,
            max_bytes=self.max_bytes,
            min_bytes=self.min_bytes,
            max_wait_ms=_LONG_MS if self.is_patient else 0,
            isolation_level=self.isolation_level,
        )
        return frame if self.damage is None else self.damage.of_frame(frame)


Act = ProduceAct | FetchAct | EndAct | RightsAct


class Asked:
    """An authorizer without a revision."""

    def __init__(self) -> None:
        self.allowed = frozenset(Operation)
        self.revision_now = 0

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        return operation in self.allowed


class Revised(Asked):
    """One whose answers are kept."""

    @property
    def revision(self) -> int:
        return self.revision_now

    def allows_any(self, principal: Principal, host: str, operation: Operation, kind: ResourceKind) -> bool:
        return operation in self.allowed


class Side:
    """One of the two brokers, and its clients."""

    def __init__(self, broker: BrokerHere, authorizer: Asked | None, *, is_fast: bool) -> None:
        self._broker = broker
        self._is_fast = is_fast
        self._authorizer = authorizer
        self._clients: list[ProducerHere] = []
        broker.node.broker.runtime.clock_ms = lambda: NOW

    async def begin(self, topic: str, configs: dict[str, object]) -> None:
        self._topic = topic
        await self._broker.create_topic(topic, configs=configs)
        found = self._broker.node.broker.lookup.led(topic, 0)
        assert isinstance(found, Partition)
        self.partition = found
        producers = found.log.producers
        producers.requires_verification = False
        opening = encode_batch(
            [Record(0, NOW, b"key", b"v")],
            producer_id=OPEN_PRODUCER,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        found.append_own(opening)
        producers.requires_verification = True
        self._writer, self._reader = self._connected(), self._connected()
        await self._flushed()

    async def _flushed(self) -> None:
        """Return once consumers may read everything, so that no answer depends on the speed of a flush."""
        log = self.partition.log
        async with asyncio.timeout(30):
            while log.high_watermark < log.end_offset:  # noqa: ASYNC110 - a flush sends no event to a client
                await asyncio.sleep(0)

    def _connected(self) -> ProducerHere:
        client = ProducerHere(self._broker, is_fast=self._is_fast)
        if self._authorizer is not None:
            # Any other interceptor than `authorize` itself switches the fast paths off.
            client.dispatcher.interceptor = authorize if self._is_fast else lambda *request: authorize(*request)
            client.connection.security = ListenerSecurity(authorizer=self._authorizer)
        self._clients.append(client)
        return client

    async def do(self, act: Act) -> list[object]:
        """What clients see of an act."""
        if isinstance(act, ProduceAct):
            return await self._produce(act)
        if isinstance(act, FetchAct):
            return await self._fetch(act)
        if isinstance(act, EndAct):
            await self._end(act)
        elif self._authorizer is not None:
            self._authorizer.allowed = act.allowed
            self._authorizer.revision_now += 1
        return []

    async def _end(self, act: EndAct) -> None:
        producers = self.partition.log.producers
        if producers.is_open(OPEN_PRODUCER, 0):
            written = self.partition.append_marker(EndMarker(OPEN_PRODUCER, 0, 0, is_commit=act.is_commit))
            if written is not None:
                await written
            await self._flushed()

    async def _produce(self, act: ProduceAct) -> list[object]:
        client = self._writer
        client.send(act.frame(self._topic, self.partition.topic_id))
        if act.is_answered:
            answer = await client.answer()
        else:
            await client.settled()
            answer = client.transport.everything
            client.transport.sent.clear()
        await self._flushed()
        if client.is_over:
            self._writer = self._connected()
        return [answer, *client.seen_faults]

    async def _fetch(self, act: FetchAct) -> list[object]:
        client = self._reader
        client.send(act.frame(self._topic, self.partition.topic_id))
        seen = [one for step in act.meanwhile for one in await self.do(step)]
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        for waiting in list(client.connection._cancellables):
            end_wait(waiting)
        answer = await client.answer()
        if client.is_over:
            self._reader = self._connected()
        return [*seen, answer, *client.seen_faults]

    def outcome(self) -> list[object]:
        """What the requests have left behind."""
        log = self.partition.log
        counted = [
            (one.requests, one.request_bytes, one.response_bytes, one.errors, one.parked, one.duration_s.count)
            for client in self._clients
            for one in (client.dispatcher.counters.by_api[key] for key in (ApiKey.PRODUCE, ApiKey.FETCH))
        ]
        stored = b"".join(bytes(view) for view in log.read(0, 1 << 30).views())
        return [counted, stored, log.end_offset, log.high_watermark, log.last_stable_offset, log.producers.states]


def end_wait(waiting: Any) -> None:
    """Let the time of a parked fetch be up, on either path."""
    waiting._parked._read(True)


class TwoBrokers:
    """Both brokers in one event loop, for all examples; what they draw is the same."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._brokers = [BrokerHere(), BrokerHere()]
        self._topics = 0
        for broker in self._brokers:
            self._runner.run(broker.__aenter__())
            topic_ids, session_ids = count(1), count(1)
            inner = broker.node.broker
            inner.metadata_changes.new_topic_id = lambda ids=topic_ids: TopicId(uuid.UUID(int=next(ids)))  # type: ignore[method-assign,misc]
            inner.fetch_sessions._draw_id = session_ids.__next__

    def close(self) -> None:
        for broker in self._brokers:
            self._runner.run(broker.__aexit__())
        self._runner.close()

    def agree(self, acts: list[Act], configs: dict[str, object], authorizer: type[Asked] | None) -> None:
        self._topics += 1
        self._runner.run(self._agree(f"topic-{self._topics}", acts, configs, authorizer))

    async def _agree(
        self, topic: str, acts: list[Act], configs: dict[str, object], authorizer: type[Asked] | None
    ) -> None:
        sides = [
            Side(broker, None if authorizer is None else authorizer(), is_fast=is_fast)
            for broker, is_fast in zip(self._brokers, (True, False), strict=True)
        ]
        for side in sides:
            await side.begin(topic, configs)
        for act in acts:
            fast, ordinary = [await side.do(act) for side in sides]
            assert fast == ordinary
        fast_outcome, ordinary_outcome = (side.outcome() for side in sides)
        assert fast_outcome == ordinary_outcome
