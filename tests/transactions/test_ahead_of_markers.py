"""Producers that are ahead of the markers of their last transaction, or were overtaken by its timeout."""

from __future__ import annotations

import pytest
from tests.transactions.shell import MINUTE, A, B, Shell, at_epoch, who

from qanat.model.error_codes import ErrorCode
from qanat.transactions.records import EPOCH_PER_TRANSACTION, LAST_EPOCH
from qanat.transactions.replies import ProducerReply
from qanat.transactions.requests import AddPartitions, EndTransaction, InitProducer, ProducerIdAndEpoch, Request
from qanat.transactions.states import TransactionState

NEW = EPOCH_PER_TRANSACTION


def in_markers(epoch: int = 0, *, is_commit: bool = True) -> tuple[Shell, ProducerIdAndEpoch]:
    """A producer of version 2 that has heard the answer to its end, while the markers are still on their way."""
    shell = Shell()
    one = at_epoch(shell, epoch)
    assert shell.produce(one, A, 0, "x", version=NEW) is ErrorCode.NONE
    shell.is_slow = True
    ended = shell.send(EndTransaction("t", *one, is_commit, NEW))
    shell.flush()
    return shell, who(ended.reply(ProducerReply))


@pytest.mark.parametrize("epoch", [0, LAST_EPOCH - 1])
@pytest.mark.parametrize("is_commit", [True, False])
def test_c35_version_2_a_producer_that_is_ahead_of_the_markers_waits_and_is_not_fenced(
    epoch: int, is_commit: bool
) -> None:
    """KAFKA-18464, KAFKA-18660: it has its next epoch, or its next producer id, before the coordinator's record has."""
    shell, two = in_markers(epoch, is_commit=is_commit)
    early: list[Request] = [
        EndTransaction("t", *two, False, NEW),
        EndTransaction("t", *two, True, NEW),
        AddPartitions("t", *two, (B,), NEW),
        InitProducer("t", MINUTE, two),
    ]
    calls = [shell.send(request) for request in early]
    shell.flush()
    assert [call.replies[0].error for call in calls] == [ErrorCode.CONCURRENT_TRANSACTIONS] * 4  # type: ignore[union-attr]

    shell.is_slow = False
    shell.write_marker()
    aborted = who(shell.end_2(two, is_commit=False))
    assert aborted == (two.producer_id, two.producer_epoch + 1)
    assert shell.produce(aborted, B, 0, "y", version=NEW) is ErrorCode.NONE
    assert shell.end_2(aborted).error is ErrorCode.NONE
    assert shell.partition(B).committed == ["y"]


def test_c35_version_2_a_producer_that_is_ahead_of_the_markers_waits_for_the_next_coordinator_too() -> None:
    shell, two = in_markers(LAST_EPOCH - 1)
    shell.load(is_failover=True)
    early = shell.send(EndTransaction("t", *two, False, NEW))
    shell.flush()
    assert early.reply(ProducerReply).error is ErrorCode.CONCURRENT_TRANSACTIONS
    shell.is_slow = False
    shell.write_marker()
    assert shell.end_2(two, is_commit=False).error is ErrorCode.NONE


def test_c35_classic_another_verdict_waits_for_the_markers_and_a_fenced_producer_does_not() -> None:
    shell = Shell()
    one = shell.begin()
    assert shell.add(one, A) is ErrorCode.NONE
    shell.is_slow = True
    shell.send(EndTransaction("t", *one, True))
    stale = EndTransaction("t", one.producer_id, one.producer_epoch - 1, True)
    other = EndTransaction("t", one.producer_id + 1, one.producer_epoch, True)
    calls = [shell.send(request) for request in (EndTransaction("t", *one, False), stale, other)]
    shell.flush()
    assert [call.reply(ProducerReply).error for call in calls] == [
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ]


@pytest.mark.parametrize("epoch", [0, LAST_EPOCH - 1])
def test_c35_version_2_a_producer_that_lost_the_answer_to_its_end_goes_on_as_who_it_was(epoch: int) -> None:
    """KIP-360: it says who it was, and is given what the lost answer said."""
    shell, two = in_markers(epoch)
    shell.is_slow = False
    shell.write_marker()
    one = ProducerIdAndEpoch(two.producer_id - (epoch > 0), LAST_EPOCH - 1 if epoch else 0)
    assert shell.init(one) == ProducerReply(ErrorCode.NONE, *two)
    assert shell.produce(two, B, 0, "y", version=NEW) is ErrorCode.NONE
    assert shell.init(one).error is ErrorCode.PRODUCER_FENCED, "it has gone on, and has heard who it is"


@pytest.mark.parametrize("is_commit", [True, False])
def test_c34_a_timeout_of_the_last_epoch_fences_a_late_end_and_leaves_nothing_open(is_commit: bool) -> None:
    """KAFKA-20090: taken for a retry, the late end would give its producer an epoch that cannot be fenced."""
    shell = Shell()
    last = at_epoch(shell, LAST_EPOCH - 1)
    assert shell.produce(last, A, 0, "x", version=NEW) is ErrorCode.NONE
    shell.advance(MINUTE)
    assert shell.end_2(last, is_commit=is_commit).error is ErrorCode.PRODUCER_FENCED
    assert shell.partition(A).aborted == ["x"]
    fresh = shell.begin()
    assert (fresh.producer_id != last.producer_id, fresh.producer_epoch) == (True, 0)
    assert shell.produce(fresh, A, 0, "y", version=NEW) is ErrorCode.NONE


def test_c34_an_open_transaction_of_an_epoch_that_nobody_should_have_ends_with_its_timeout() -> None:
    """KAFKA-20090 left such records in logs of Kafka, which may come to be ours."""
    shell = Shell()
    odd = at_epoch(shell, LAST_EPOCH)
    assert shell.produce(odd, A, 0, "x", version=NEW) is ErrorCode.NONE
    shell.advance(MINUTE)
    assert shell.record().state is TransactionState.COMPLETE_ABORT
    assert shell.partition(A).aborted == ["x"]
    assert shell.begin().producer_epoch == 0
