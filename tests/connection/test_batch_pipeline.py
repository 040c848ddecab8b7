"""The pipeline against a model of a broker, on a network that loses, delays and refuses by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from qanat.connection.batch_pipeline import EPOCH_MAX, WINDOW, BatchPipeline, Outcome, Pending, outcome_of
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition

AT = TopicPartition("orders", 0)
PRODUCER = 7


def ignored(pending: Pending, base_offset: int, appended_ms: int) -> None:
    """The shell's part."""


def batch(count: int = 1, expires_at: float = 1e9) -> Pending:
    return Pending(AT, bytearray(), count, expires_at, ignored)


@dataclass
class Sent:
    """A batch as it is on the wire."""

    pending: Pending
    epoch: int
    sequence: int
    count: int


@dataclass
class ModelBroker:
    """Kafka's rules for sequence numbers of one producer."""

    log: list[Pending] = field(default_factory=list)
    epoch: int = -1
    recent: list[tuple[int, int]] = field(default_factory=list)

    def append(self, sent: Sent) -> ErrorCode:
        if sent.epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if sent.epoch > self.epoch:
            if sent.sequence != 0 and self.epoch >= 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            self.recent.clear()
        elif (sent.sequence, sent.count) in self.recent:
            return ErrorCode.NONE
        elif self.recent and sent.sequence != sum(self.recent[-1]):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.epoch = sent.epoch
        self.recent = [*self.recent, (sent.sequence, sent.count)][-WINDOW:]
        self.log.append(sent.pending)
        return ErrorCode.NONE


class World:
    """A pipeline, a broker, and what is between them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.pipeline = BatchPipeline(PRODUCER, 0)
        self.broker = ModelBroker()
        self.now = 0.0
        self.wire: list[Sent] = []
        self.zombies: list[Sent] = []
        self.all: list[Pending] = []
        self.written: list[Pending] = []
        self.failed: list[Pending] = []

    def step(self) -> None:
        self.now += 1
        if len(self.all) < 60 and self.chance.random() < 0.6:
            pending = batch(self.chance.randint(1, 4), self.now + self.chance.choice([40, 1000]))
            self.all.append(pending)
            self.pipeline.add(pending)
        self.failed += self.pipeline.expire(self.now)
        while (taken := self.pipeline.take(self.now)) is not None:
            self.wire.append(Sent(taken, taken.epoch, taken.sequence, taken.count))
        if self.zombies and self.chance.random() < 0.3:
            self.broker.append(self.zombies.pop(self.chance.randrange(len(self.zombies))))
        if self.wire and self.chance.random() < 0.7:
            self.answer()

    def answer(self) -> None:
        happens = self.chance.random()
        if happens < 0.08:
            self.break_connection()
            return
        sent = self.wire.pop(0)
        if happens < 0.15:
            self.settle(sent, self.chance.choice([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS]))
        elif happens < 0.17:
            self.settle(sent, ErrorCode.MESSAGE_TOO_LARGE)
        else:
            self.settle(sent, self.broker.append(sent))

    def break_connection(self) -> None:
        """The broker has handled some; others arrive later, when they are no longer expected, or never."""
        handled = self.chance.randint(0, len(self.wire))
        for sent in self.wire[:handled]:
            self.broker.append(sent)
        for sent in self.wire[handled:]:
            if self.chance.random() < 0.5:
                self.zombies.append(sent)
        wire, self.wire = self.wire, []
        for sent in wire:
            self.settle(sent, ErrorCode.NETWORK_EXCEPTION)

    def settle(self, sent: Sent, code: ErrorCode) -> None:
        outcome = outcome_of(code)
        if self.pipeline.settle(sent.pending, outcome, self.now + 2):
            (self.written if outcome is Outcome.WRITTEN else self.failed).append(sent.pending)


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_nothing_is_lost_doubled_or_overtaken_whatever_the_network_does(first: int) -> None:
    for seed in range(first, first + 100):
        world = World(seed)
        for _ in range(1200):
            world.step()
        log, order = world.broker.log, {pending: number for number, pending in enumerate(world.all)}
        assert world.pipeline.is_idle, f"seed {seed}: it stopped"
        assert len(world.written) + len(world.failed) == len(world.all) == 60, f"seed {seed}"
        assert len(set(log)) == len(log), f"seed {seed}: a batch is doubled"
        assert [order[one] for one in log] == sorted(order[one] for one in log), f"seed {seed}: the order changed"
        assert set(world.written) <= set(log), f"seed {seed}: a batch is lost"
        surely_not = {one for one in world.failed if not one.may_be_written}
        assert not surely_not & set(log), f"seed {seed}: a batch that failed is written"


def opened() -> BatchPipeline:
    """A pipeline whose window is open."""
    pipeline = BatchPipeline(PRODUCER, 0)
    pipeline.add(batch())
    first = pipeline.take(0.0)
    assert first is not None
    pipeline.settle(first, Outcome.WRITTEN, 0.0)
    return pipeline


def take_all(pipeline: BatchPipeline, count: int, now: float = 0.0) -> list[Pending]:
    for _ in range(count):
        pipeline.add(batch())
    taken = []
    while (one := pipeline.take(now)) is not None:
        taken.append(one)
    return taken


def test_one_batch_goes_first_and_five_follow() -> None:
    pipeline = BatchPipeline(PRODUCER, 0)
    first = take_all(pipeline, 7)
    assert [one.sequence for one in first] == [0]
    pipeline.settle(first[0], Outcome.WRITTEN, 0.0)
    assert [one.sequence for one in take_all(pipeline, 0)] == [1, 2, 3, 4, 5]


def test_a_refused_batch_and_those_behind_it_go_again_in_order_after_the_pause() -> None:
    pipeline = opened()
    sent = take_all(pipeline, 3)
    pipeline.settle(sent[0], Outcome.REFUSED_FOR_NOW, 5.0)
    pipeline.settle(sent[1], Outcome.OUT_OF_ORDER, 9.0)
    pipeline.settle(sent[2], Outcome.OUT_OF_ORDER, 9.0)
    assert pipeline.take(4.9) is None
    again = pipeline.take(5.0)
    assert again is sent[0]
    assert pipeline.take(5.0) is None
    pipeline.settle(again, Outcome.WRITTEN, 0.0)
    assert [pipeline.take(5.0), pipeline.take(5.0)] == sent[1:]
    assert [one.sequence for one in sent] == [1, 2, 3]
    assert pipeline.epoch == 0


def test_a_gap_bumps_the_epoch_and_numbers_start_at_0() -> None:
    pipeline = opened()
    sent = take_all(pipeline, 2)
    assert pipeline.settle(sent[0], Outcome.REFUSED, 0.0)
    pipeline.settle(sent[1], Outcome.OUT_OF_ORDER, 0.0)
    again = pipeline.take(0.0)
    assert again is sent[1]
    assert (again.epoch, again.sequence) == (1, 0)


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_batch_that_is_refused_for_good_leaves_its_numbers_to_the_next(is_transactional: bool) -> None:
    pipeline = BatchPipeline(PRODUCER, 0, is_transactional=is_transactional)
    pipeline.add(batch(3))
    refused = pipeline.take(0.0)
    assert refused is not None
    assert pipeline.settle(refused, Outcome.REFUSED, 0.0)
    assert refused.sequence == -1
    (following,) = take_all(pipeline, 1)
    assert (following.epoch, following.sequence) == (0, 0)


def test_a_batch_whose_earlier_attempt_was_lost_keeps_its_numbers_when_it_is_refused() -> None:
    pipeline = BatchPipeline(PRODUCER, 0)
    (only,) = take_all(pipeline, 1)
    pipeline.settle(only, Outcome.LOST, 0.0)
    assert pipeline.take(0.0) is only
    assert pipeline.settle(only, Outcome.REFUSED, 0.0)
    (following,) = take_all(pipeline, 1)
    assert following.sequence == 1


def test_without_an_identity_an_order_that_is_not_ours_is_final() -> None:
    pipeline = BatchPipeline()
    (only,) = take_all(pipeline, 1)
    assert pipeline.settle(only, Outcome.OUT_OF_ORDER, 0.0)
    assert pipeline.is_idle


def test_a_transactional_producer_does_not_bump_but_fails() -> None:
    pipeline = BatchPipeline(PRODUCER, 0, is_transactional=True)
    (only,) = take_all(pipeline, 1)
    assert pipeline.settle(only, Outcome.OUT_OF_ORDER, 0.0)
    assert pipeline.epoch == 0


def test_after_the_last_epoch_another_producer_id_is_needed() -> None:
    pipeline = BatchPipeline(PRODUCER, EPOCH_MAX)
    (only,) = take_all(pipeline, 1)
    pipeline.settle(only, Outcome.OUT_OF_ORDER, 0.0)
    assert pipeline.wants_producer_id
    assert pipeline.take(1.0) is None
    pipeline.identify(8, 0)
    assert pipeline.take(1.0) is only
    assert (only.producer_id, only.epoch, only.sequence) == (8, 0, 0)


def test_sequence_numbers_wrap_after_the_largest() -> None:
    pipeline = opened()
    pipeline._next_sequence = 2**31 - 2
    pipeline.add(batch(3))
    pipeline.add(batch(1))
    first, second = pipeline.take(0.0), pipeline.take(0.0)
    assert first is not None
    assert second is not None
    assert (first.sequence, second.sequence) == (2**31 - 2, 1)


def test_without_a_producer_id_one_batch_is_in_flight_and_has_no_number() -> None:
    pipeline = BatchPipeline()
    assert [one.sequence for one in take_all(pipeline, 3)] == [-1]
