"""Producers that say who they were (KIP-360): who gets the next epoch, who gets a lost answer again, who is fenced."""

from __future__ import annotations

import pytest
from tests.transactions.shell import MINUTE, A, Shell, at_epoch, who

from qanat.model.error_codes import ErrorCode
from qanat.transactions.records import LAST_EPOCH
from qanat.transactions.replies import ProducerReply
from qanat.transactions.requests import ProducerIdAndEpoch
from qanat.transactions.settings import TransactionSettings

FENCED = ErrorCode.PRODUCER_FENCED
DAY = 24 * 60 * MINUTE


def test_the_first_producer_of_an_id_has_epoch_0() -> None:
    shell = Shell()

    assert shell.init() == ProducerReply(ErrorCode.NONE, shell.producer_ids, 0)


def test_a_producer_that_goes_on_in_its_own_transaction_aborts_it_and_gets_the_epoch_of_the_abort() -> None:
    shell = Shell()
    one = shell.begin()
    shell.add(one, A)
    assert shell.produce(one, A, 0, "x") is ErrorCode.NONE
    assert shell.init(one) == ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert shell.partition(A).aborted == ["x"]

    assert who(shell.init(one)) == (one.producer_id, one.producer_epoch + 1)


def test_a_producer_whose_transaction_its_successor_aborted_does_not_go_on() -> None:
    shell = Shell()
    one = shell.begin()
    shell.add(one, A)
    assert shell.init() == ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)

    assert shell.init(one).error is FENCED


def test_a_producer_that_waits_for_its_next_epoch_is_fenced_by_a_new_instance() -> None:
    shell = Shell()
    first = shell.begin()
    again = who(shell.init(first))
    second = shell.begin()
    assert second.producer_epoch == again.producer_epoch + 1
    for outdated in (first, again):
        assert shell.init(outdated).error is FENCED

    assert shell.add(second, A) is ErrorCode.NONE


def test_every_retry_of_a_producer_with_used_up_epochs_gets_the_same_new_id() -> None:
    shell = Shell()
    last = at_epoch(shell, LAST_EPOCH - 1)
    fresh = who(shell.init(last))

    assert [who(shell.init(last)) for _ in range(3)] == [fresh] * 3


@pytest.mark.parametrize("is_open", [False, True])
def test_every_retry_of_the_last_epoch_but_two_gets_the_last_one_that_is_given(is_open: bool) -> None:
    shell = Shell()
    before = at_epoch(shell, LAST_EPOCH - 2)
    if is_open:
        assert shell.add(before, A) is ErrorCode.NONE
        assert shell.init(before) == ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)

    assert [who(shell.init(before)) for _ in range(3)] == [(before.producer_id, LAST_EPOCH - 1)] * 3


def test_every_retry_of_a_producer_whose_abort_used_up_the_epochs_gets_the_same_new_id() -> None:
    shell = Shell()
    last = at_epoch(shell, LAST_EPOCH - 1)
    assert shell.add(last, A) is ErrorCode.NONE
    assert shell.init(last) == ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)
    fresh = who(shell.init(last))
    assert (fresh.producer_id != last.producer_id, fresh.producer_epoch) == (True, 0)

    assert [who(shell.init(last)) for _ in range(3)] == [fresh] * 3


@pytest.mark.parametrize("id_difference", [-1, 1])
def test_only_the_producer_before_the_new_id_gets_it_again(id_difference: int) -> None:
    shell = Shell()
    shell.producer_ids += 10
    last = at_epoch(shell, LAST_EPOCH - 1)
    shell.producer_ids += 10
    fresh = who(shell.init(last))
    other = ProducerIdAndEpoch(last.producer_id + id_difference, last.producer_epoch)
    assert shell.init(other).error is FENCED
    assert shell.init(ProducerIdAndEpoch(fresh.producer_id, last.producer_epoch)).error is FENCED

    assert who(shell.init(last)) == fresh


def test_a_producer_of_a_forgotten_id_is_forgotten_with_its_epochs() -> None:
    shell = Shell(TransactionSettings(transactional_id_expiration_ms=DAY))
    old = at_epoch(shell, 3)
    assert who(shell.init(old)) == (old.producer_id, 4)
    shell.advance(2 * DAY)
    fresh = shell.begin()
    assert fresh == (shell.producer_ids, 0)
    assert shell.init(old).error is FENCED

    assert shell.init(ProducerIdAndEpoch(fresh.producer_id, 3)).error is FENCED, "an epoch that it never had"
