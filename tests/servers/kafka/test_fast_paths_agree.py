"""The fast paths do what the ordinary ones do: the same answers, the same log, the same counts, for any requests.

Two brokers get the same requests, one over the fast paths and one without them. Requests are of every version, of
plain, idempotent and transactional producers that repeat, skip and are fenced, and some are damaged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.servers.kafka.producer_here import ProducerHere, fetch_frame, produce_frame

from qanat.broker.replicas.partition import Partition
from qanat.testing import BrokerHere
from qanat.wire.batch_header import batch_crc
from qanat.wire.compression import Codec
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

NOW = 1_700_000_000_000
OPEN_PRODUCER = 9
"""Has an open transaction when the requests begin."""
TRANSACTIONAL_ID = "id"
CONFIGS: tuple[dict[str, object], ...] = (
    {},
    {"flush.messages": 1},
    {"flush.messages": 1, "max.message.bytes": 150},
    {"cleanup.policy": "compact"},
    {"compression.type": "lz4"},
    {"message.timestamp.type": "LogAppendTime"},
    {"message.timestamp.after.max.ms": 1000},
)


class Damage(NamedTuple):
    """One byte of a batch, or of the whole frame."""

    place: int
    value: int
    is_in_batch: bool
    is_crc_right: bool


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

    def frame(self, topic: str) -> bytes:
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
        frame = produce_frame(batch, self.version, acks=self.acks, transactional_id=transactional_id, topic=topic)
        if damage is not None and not damage.is_in_batch:
            # Neither the size, nor the API and its version.
            place = 8 + damage.place % (len(frame) - 8)
            frame = frame[:place] + bytes([damage.value]) + frame[place + 1 :]
        return frame


class FetchAct(NamedTuple):
    """One Fetch request that does not wait."""

    version: int
    offset: int
    epoch: int
    room: int
    max_bytes: int
    isolation_level: int

    def frame(self, topic: str) -> bytes:
        return fetch_frame(
            self.version,
            topic=topic,
            offset=self.offset,
            epoch=self.epoch,
            room=self.room,
            max_bytes=self.max_bytes,
            isolation_level=self.isolation_level,
        )


DAMAGE = st.builds(Damage, st.integers(0, 200), st.integers(0, 255), st.booleans(), st.booleans())
PRODUCES = st.builds(
    ProduceAct,
    st.integers(3, 12),
    st.sampled_from([-1, -1, 0, 1]),
    st.sampled_from([-1, 7, 8, OPEN_PRODUCER]),
    st.integers(0, 1),
    st.integers(0, 6),
    st.integers(1, 3),
    st.sampled_from([Codec.NONE, Codec.LZ4, Codec.ZSTD, Codec.GZIP]),
    st.sampled_from([NOW, NOW + 2000, -1]),
    st.none() | st.none() | st.none() | DAMAGE,
)
FETCHES = st.builds(
    FetchAct,
    st.sampled_from([11, 11, 11, 4, 12]),
    st.integers(-1, 30),
    st.sampled_from([-1, 0, 99]),
    st.sampled_from([0, 1, 200, 1 << 20]),
    st.sampled_from([0, 1, 200, 1 << 20]),
    st.integers(0, 1),
)


class Side:
    """One of the two brokers, and its client."""

    def __init__(self, broker: BrokerHere, *, is_fast: bool) -> None:
        self._broker = broker
        self._is_fast = is_fast
        broker.node.broker.runtime.clock_ms = lambda: NOW

    async def begin(self, topic: str, configs: dict[str, object]) -> None:
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
        self._clients: list[ProducerHere] = []
        self._connect()
        await self._flushed()

    async def _flushed(self) -> None:
        """Return once consumers may read everything, so that no answer depends on the speed of a flush."""
        log = self.partition.log
        async with asyncio.timeout(30):
            while log.high_watermark < log.end_offset:  # noqa: ASYNC110 - a flush sends no event to a client
                await asyncio.sleep(0)

    def _connect(self) -> None:
        self._clients.append(ProducerHere(self._broker, is_fast=self._is_fast))

    async def answer(self, frame: bytes, *, is_answered: bool) -> tuple[bytes, list[str], bool]:
        """The answer to a request, the faults that ended the connection, and whether the broker closed it."""
        client = self._clients[-1]
        client.send(frame)
        if is_answered:
            answer = await client.answer()
        else:
            await client.settled()
            answer = client.transport.everything
            client.transport.sent.clear()
        await self._flushed()
        is_over = bool(client.faults) or client.transport.is_closed
        if is_over:
            self._connect()
        return answer, [f"{type(one).__name__}: {one}" for one in client.faults], client.transport.is_closed

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


class TwoBrokers:
    """Both brokers in one event loop, for all examples."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._brokers = [BrokerHere(), BrokerHere()]
        self._topics = 0
        for broker in self._brokers:
            self._runner.run(broker.__aenter__())

    def close(self) -> None:
        for broker in self._brokers:
            self._runner.run(broker.__aexit__())
        self._runner.close()

    def agree(self, acts: list[ProduceAct | FetchAct], configs: dict[str, object]) -> None:
        self._topics += 1
        self._runner.run(self._agree(f"topic-{self._topics}", acts, configs))

    async def _agree(self, topic: str, acts: list[ProduceAct | FetchAct], configs: dict[str, object]) -> None:
        sides = [Side(broker, is_fast=is_fast) for broker, is_fast in zip(self._brokers, (True, False), strict=True)]
        for side in sides:
            await side.begin(topic, configs)
        for act in acts:
            frame = act.frame(topic)
            # A damaged frame may say acks=0.
            is_answered = not (isinstance(act, ProduceAct) and (act.acks == 0 or act.damage is not None))
            fast, ordinary = [await side.answer(frame, is_answered=is_answered) for side in sides]
            assert fast == ordinary
        fast_outcome, ordinary_outcome = (side.outcome() for side in sides)
        assert fast_outcome == ordinary_outcome


@pytest.fixture(scope="module")
def brokers() -> Iterator[TwoBrokers]:
    both = TwoBrokers()
    yield both
    both.close()


@settings(max_examples=80, deadline=None)
@given(acts=st.lists(PRODUCES | FETCHES, min_size=1, max_size=15), configs=st.sampled_from(CONFIGS))
def test_both_paths_answer_and_append_alike(
    brokers: TwoBrokers, acts: list[ProduceAct | FetchAct], configs: dict[str, object]
) -> None:
    brokers.agree(acts, configs)
