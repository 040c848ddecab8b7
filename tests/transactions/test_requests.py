"""Requests that come again, too early, too late, or from a producer that the coordinator does not know."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.transactions.shell import MINUTE, SECOND, A, B, Shell, at_epoch, who

from qanat.model.error_codes import ErrorCode
from qanat.transactions.ledger import Ledger
from qanat.transactions.records import CLASSIC, EPOCH_PER_TRANSACTION, LAST_EPOCH
from qanat.transactions.replies import CompletedReply, ListReply, ProducerReply
from qanat.transactions.requests import EndTransaction, ListTransactions, MarkersWritten, ProducerIdAndEpoch
from qanat.transactions.settings import TransactionSettings
from qanat.transactions.shard import LONGEST_ID
from qanat.transactions.states import TransactionState

NEW = EPOCH_PER_TRANSACTION
UNKNOWN = ErrorCode.INVALID_PRODUCER_ID_MAPPING
DAY = 24 * 60 * MINUTE


@pytest.mark.parametrize("version", [CLASSIC, NEW])
def test_an_unknown_transactional_id_or_producer_is_an_error_in_every_request(version: int) -> None:
    shell = Shell()
    known = shell.begin()
    shell.add(known, A)
    other = ProducerIdAndEpoch(known.producer_id + 1, known.producer_epoch)
    for transactional_id, producer in (("t", other), ("unknown", known)):
        assert shell.add(producer, A, version=version, transactional_id=transactional_id) is UNKNOWN
        assert shell.verify(producer, A, transactional_id=transactional_id) is UNKNOWN
        assert shell.end(producer, version=version, transactional_id=transactional_id).error is UNKNOWN

    assert shell.verify(known, A) is ErrorCode.NONE, "nothing has changed"


@pytest.mark.parametrize("ask", [Shell.verify, Shell.add])
def test_a_write_waits_while_its_transaction_is_being_ended(ask: Callable[..., ErrorCode]) -> None:
    shell = Shell()
    known = shell.begin()
    shell.add(known, A)
    shell.is_slow = True
    shell.send(EndTransaction("t", *known, is_commit=True, client_version=CLASSIC))
    shell.flush()
    shell.is_slow = False

    assert ask(shell, known, A) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_partition_that_was_added_before_is_not_written_again() -> None:
    shell = Shell()
    known = shell.begin()
    assert shell.add(known) is ErrorCode.NONE
    assert shell.record().state is TransactionState.ONGOING, "a transaction begins without partitions, too"
    shell.add(known, A, B)
    written = len(shell.log)
    assert shell.add(known, A) is ErrorCode.NONE

    assert len(shell.log) == written
    assert shell.record().partitions == (A, B)


def test_the_retry_of_an_end_is_known_by_the_producer_and_epoch_before_the_new_id() -> None:
    shell = Shell()
    last = at_epoch(shell, LAST_EPOCH - 1)
    shell.add(last, A, version=NEW)
    ended = shell.end_2(last)
    fresh = who(ended)
    other = ProducerIdAndEpoch(last.producer_id + 100, last.producer_epoch)
    earlier = ProducerIdAndEpoch(last.producer_id, last.producer_epoch - 1)
    assert shell.end_2(last) == ended
    assert shell.end_2(other).error is UNKNOWN
    assert shell.end_2(earlier).error is UNKNOWN
    shell.add(fresh, A, version=NEW)
    assert shell.end_2(fresh).error is ErrorCode.NONE

    assert shell.end_2(last).error is UNKNOWN, "the transaction after it has ended"


def test_an_end_before_the_new_id_is_no_retry_once_the_new_id_has_ended_a_transaction() -> None:
    """No history of ours leads to this record: it keeps the old id although a transaction followed."""
    shell = Shell()
    last = at_epoch(shell, LAST_EPOCH - 1)
    shell.add(last, A, version=NEW)
    fresh = who(shell.end_2(last))
    assert shell.end_2(last) == ProducerReply(ErrorCode.NONE, *fresh)
    later = shell.record().changed(shell.wall_ms, producer_epoch=1, previous_producer_id=last.producer_id)
    shell.shard.ledger.apply(later)

    assert shell.end_2(last).error is UNKNOWN


def test_an_abort_of_what_never_began_begins_when_it_is_decided() -> None:
    shell = Shell()
    one = shell.begin()
    shell.advance(SECOND)
    two = who(shell.end_2(one, is_commit=False))
    assert shell.record().start_ms == shell.wall_ms
    shell.add(two, A, version=NEW)
    began_ms = shell.wall_ms
    shell.advance(SECOND)
    shell.end_2(two)

    assert shell.record().start_ms == began_ms


def test_markers_that_are_reported_again_change_nothing() -> None:
    shell = Shell()
    known = shell.begin()
    shell.add(known, A)
    shell.end(known)
    written = len(shell.log)
    for transactional_id in ("t", "unknown"):
        assert shell.ask(MarkersWritten(transactional_id, *known), CompletedReply) == CompletedReply()

    assert len(shell.log) == written
    assert shell.end(known) == ProducerReply(ErrorCode.NONE, *known)


def test_markers_of_another_epoch_do_not_end_a_transaction() -> None:
    shell = Shell()
    known = shell.begin()
    shell.add(known, A)
    shell.is_slow = True
    shell.send(EndTransaction("t", *known, is_commit=True, client_version=CLASSIC))
    other = MarkersWritten("t", known.producer_id, known.producer_epoch + 1)
    assert shell.shard.decide(other, shell.now).reply == CompletedReply()
    assert shell.record().state is TransactionState.PREPARE_COMMIT
    ended = shell.shard.decide(MarkersWritten("t", *known), shell.now)

    assert ended.reply == CompletedReply()
    assert shell.record().state is TransactionState.COMPLETE_COMMIT


def test_an_id_is_forgotten_when_it_was_unused_for_its_time_and_not_before() -> None:
    shell = Shell(TransactionSettings(transactional_id_expiration_ms=DAY))
    shell.begin()
    shell.advance(DAY - 1)
    assert list(shell.shard.ledger.records) == ["t"]
    shell.advance(1)

    assert list(shell.shard.ledger.records) == []


def test_an_id_is_not_forgotten_while_its_markers_are_being_written() -> None:
    shell = Shell(TransactionSettings(transactional_id_expiration_ms=DAY))
    known = shell.begin()
    shell.add(known, A)
    assert shell.produce(known, A, 0, "x") is ErrorCode.NONE
    shell.is_slow = True
    shell.send(EndTransaction("t", *known, is_commit=True, client_version=CLASSIC))
    shell.advance(2 * DAY)
    shell.flush()
    assert shell.record().state is TransactionState.PREPARE_COMMIT
    shell.write_marker()

    assert shell.record().state is TransactionState.COMPLETE_COMMIT
    assert shell.partition(A).committed == ["x"]


@pytest.mark.parametrize(("length", "is_valid"), [(1, True), (LONGEST_ID, True), (LONGEST_ID + 1, False)])
def test_an_id_has_at_most_so_many_characters(length: int, is_valid: bool) -> None:
    error = Shell().init(transactional_id="x" * length).error

    assert error is (ErrorCode.NONE if is_valid else ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("began_ms", [0, 1, 1_700_000_000_000])
def test_a_transaction_is_listed_by_its_age_whenever_it_began(began_ms: int) -> None:
    shell = Shell()
    shell.wall_ms = began_ms
    shell.begin("idle")
    shell.add(shell.begin(), A)
    shell.advance(SECOND)

    def longer_than(duration_ms: int) -> list[str]:
        reply = shell.ask(ListTransactions(duration_ms=duration_ms), ListReply)
        return [record.transactional_id for record in reply.records]

    assert longer_than(0) == longer_than(SECOND - 1) == ["t"]
    assert longer_than(SECOND) == []


def test_a_ledger_equals_one_with_the_same_records_and_nothing_else() -> None:
    shell = Shell()
    shell.begin()
    ledger = shell.shard.ledger
    assert ledger == shell.replayed()

    assert ledger != Ledger()
    assert ledger != ledger.records


@pytest.mark.parametrize(("timeout_ms", "is_valid"), [(-1, False), (0, False), (1, True), (15 * MINUTE, True)])
def test_a_timeout_is_positive(timeout_ms: int, is_valid: bool) -> None:
    error = Shell().init(timeout_ms=timeout_ms).error

    assert error is (ErrorCode.NONE if is_valid else ErrorCode.INVALID_TRANSACTION_TIMEOUT)
