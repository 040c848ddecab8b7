"""Batches behind a refused one: which are refused alike, and for how long."""

from __future__ import annotations

import pytest
from tests.log.batches import NOW, Writer, batch

from qanat.api.records.refused_batches import RETRIABLE, RefusedBatches
from qanat.log.producers import BATCHES_REMEMBERED, Producers
from qanat.model.error_codes import ErrorCode
from qanat.wire.batch_header import read_header

AT = ("t", 0)
LACKING = ErrorCode.NOT_ENOUGH_REPLICAS
LAST = 2**31 - 1


def sent(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7) -> bytes:
    return batch(count, writer=Writer(producer_id, epoch, sequence))


def written(*batches: bytes) -> Producers:
    producers = Producers()
    for one in batches:
        producers.record(read_header(one), 0, NOW)
    return producers


@pytest.mark.parametrize("producers", [written(sent(0, 5)), written()], ids=["known", "unknown"])
@pytest.mark.parametrize("code", sorted(RETRIABLE))
def test_later_batches_get_the_error_of_the_refused_one_until_it_is_repeated(
    producers: Producers, code: ErrorCode
) -> None:
    refused = RefusedBatches()
    refused.note(AT, sent(5), code)

    assert [refused.code_before(AT, sent(sequence), producers) for sequence in (6, 7, 8)] == [code] * 3
    assert refused.code_before(AT, sent(5), producers) is None
    assert refused.code_before(AT, sent(6), producers) is None
    assert not refused


def test_several_refused_batches_wait_for_the_first_of_them() -> None:
    refused, producers = RefusedBatches(), written(sent(0, 5))
    for sequence in range(5, 5 + BATCHES_REMEMBERED):
        refused.note(AT, sent(sequence), LACKING)

    assert refused.code_before(AT, sent(6), producers) is LACKING
    assert refused.code_before(AT, sent(5), producers) is None


def test_a_producer_that_never_repeats_the_refused_batch_is_told_of_the_gap() -> None:
    refused, producers = RefusedBatches(), written(sent(0, 5))
    refused.note(AT, sent(5), LACKING)
    held = 0
    while (code := refused.code_before(AT, sent(6), producers)) is not None:
        refused.note(AT, sent(6), code)
        held += 1

    assert held == BATCHES_REMEMBERED


@pytest.mark.parametrize(
    "later",
    [sent(6, epoch=1), sent(6, producer_id=8), batch(1), b"short"],
    ids=["another epoch", "another producer", "no producer", "no batch"],
)
def test_other_batches_are_not_held(later: bytes) -> None:
    refused = RefusedBatches()
    refused.note(AT, sent(5), LACKING)

    assert refused.code_before(AT, later, written(sent(0, 5))) is None
    assert refused.code_before(("t", 1), sent(6), written(sent(0, 5))) is None
    assert refused.code_before(AT, sent(6), written(sent(0, 5))) is LACKING


def test_a_refused_batch_that_another_leader_has_taken_holds_nothing() -> None:
    refused = RefusedBatches()
    refused.note(AT, sent(5), ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert refused.code_before(AT, sent(90), written(sent(0, 90))) is None
    assert refused.code_before(AT, sent(91), written(sent(0, 90))) is None


def test_sequences_start_anew_after_the_last() -> None:
    refused = RefusedBatches()
    refused.note(AT, sent(LAST), LACKING)

    assert refused.code_before(AT, sent(0), written()) is LACKING
    assert refused.code_before(AT, sent(LAST), written()) is None


@pytest.mark.parametrize(
    ("refused_batch", "code"),
    [(sent(5), ErrorCode.INVALID_RECORD), (batch(1), LACKING), (b"short", LACKING)],
    ids=["final", "not idempotent", "no batch"],
)
def test_some_refusals_are_not_remembered(refused_batch: bytes, code: ErrorCode) -> None:
    refused = RefusedBatches()
    refused.note(AT, refused_batch, code)

    assert not refused


def test_a_client_that_asks_for_ever_more_partitions_takes_bounded_memory() -> None:
    refused = RefusedBatches()
    for number in range(10_100):
        refused.note(("t", number), sent(0), LACKING)

    assert len(refused) == 10_000
