"""Acknowledgements of durable batches: each batch has one outcome, and many share one timer."""

from __future__ import annotations

import asyncio

import pytest

from qanat.broker.replicas.durable_acknowledgement import DurableAcknowledgement, acknowledged
from qanat.broker.runtime.ack_timeouts import STEP_S, AckTimeouts
from qanat.log.runtime.sync_future import SyncFuture
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError, StorageError


class Waiting:
    """An acknowledgement of two batches, and what became of it."""

    def __init__(self, timeout_s: float = 3600, *, is_first_done: bool = False) -> None:
        self.first: SyncFuture[None] = SyncFuture()
        self.second: SyncFuture[None] = SyncFuture()
        if is_first_done:
            self.first.settle(None)
        self.refused: list[tuple[str, ErrorCode, str]] = []
        self.completed = 0
        self.timeouts = AckTimeouts()
        DurableAcknowledgement(
            {self.first: "first", self.second: "second"}, self._refuse, self._complete, self.timeouts, timeout_s
        )

    def _refuse(self, row: str, fault: QanatError) -> None:
        assert not self.completed
        self.refused.append((row, fault.code, str(fault)))

    def _complete(self) -> None:
        self.completed += 1


@pytest.mark.parametrize("is_first_done", [True, False])
async def test_it_is_complete_in_the_turn_in_which_the_last_batch_is_durable(is_first_done: bool) -> None:
    waiting = Waiting(is_first_done=is_first_done)
    waiting.first.settle(None)
    assert waiting.completed == 0
    waiting.second.settle(None)

    assert (waiting.completed, waiting.refused) == (1, [])


async def test_a_batch_that_cannot_become_durable_is_refused_and_the_others_are_not() -> None:
    waiting = Waiting()
    waiting.first.settle_with_fault(StorageError("fsync failed"))
    assert waiting.completed == 0
    waiting.second.settle(None)

    assert waiting.refused == [("first", ErrorCode.KAFKA_STORAGE_ERROR, "fsync failed")]
    assert waiting.completed == 1


async def test_a_bug_and_the_end_of_the_broker_are_unknown_errors() -> None:
    waiting = Waiting()
    waiting.first.settle_with_fault(ZeroDivisionError("division by zero"))
    waiting.second.cancel()

    unknown = ErrorCode.UNKNOWN_SERVER_ERROR
    assert [(row, code) for row, code, _ in waiting.refused] == [("first", unknown), ("second", unknown)]
    assert waiting.completed == 1


async def test_what_is_not_durable_in_time_is_refused_once() -> None:
    waiting = Waiting(timeout_s=0)
    waiting.first.settle(None)
    await asyncio.sleep(3 * STEP_S)
    waiting.second.settle(None)

    assert [(row, code) for row, code, _ in waiting.refused] == [("second", ErrorCode.REQUEST_TIMED_OUT)]
    assert waiting.completed == 1


async def test_nothing_to_wait_for_is_acknowledged_at_once() -> None:
    await acknowledged({}, lambda _, fault: None, AckTimeouts(), 0)


class Answer:
    def __init__(self) -> None:
        self.late = asyncio.Event()

    def time_out(self) -> None:
        self.late.set()


async def test_only_an_expired_acknowledgement_times_out() -> None:
    ack_timeouts = AckTimeouts()
    impatient, patient, answered = Answer(), Answer(), Answer()
    ack_timeouts.begin(impatient, 0)
    ack_timeouts.begin(patient, 3600)
    ack_timeouts.begin(answered, 0)
    ack_timeouts.end(answered)
    await asyncio.wait_for(impatient.late.wait(), 30)
    ack_timeouts.close()

    assert not patient.late.is_set()
    assert not answered.late.is_set()


async def test_after_an_idle_time_the_next_acknowledgement_times_out() -> None:
    ack_timeouts = AckTimeouts()
    gone, next_one = Answer(), Answer()
    ack_timeouts.begin(gone, 3600)
    ack_timeouts.end(gone)
    await asyncio.sleep(3 * STEP_S)
    ack_timeouts.begin(next_one, 0)
    await asyncio.wait_for(next_one.late.wait(), 30)

    assert not gone.late.is_set()


async def test_no_acknowledgement_times_out_after_the_end() -> None:
    ack_timeouts = AckTimeouts()
    one = Answer()
    ack_timeouts.begin(one, 0)
    ack_timeouts.close()
    await asyncio.sleep(3 * STEP_S)

    assert not one.late.is_set()
