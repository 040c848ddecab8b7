"""Requests of a transaction or producer that the coordinator does not know, and requests that come too early."""

from __future__ import annotations

import pytest
from tests.transactions.shell import A, Shell

from qanat.model.error_codes import ErrorCode
from qanat.transactions.records import CLASSIC, EPOCH_PER_TRANSACTION
from qanat.transactions.requests import EndTransaction, ProducerIdAndEpoch

UNKNOWN = ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("version", [CLASSIC, EPOCH_PER_TRANSACTION])
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


def test_a_write_waits_while_its_transaction_is_being_ended() -> None:
    shell = Shell()
    known = shell.begin()
    shell.add(known, A)
    shell.is_slow = True
    shell.send(EndTransaction("t", *known, is_commit=True, client_version=CLASSIC))
    shell.flush()
    shell.is_slow = False

    assert shell.verify(known, A) is ErrorCode.CONCURRENT_TRANSACTIONS
