"""What the short way of Produce waits with: many answers, one timer."""

from __future__ import annotations

import asyncio

from qanat.servers.kafka.patience import STEP_S, Patience


class Answer:
    def __init__(self) -> None:
        self.late = asyncio.Event()

    def time_out(self) -> None:
        self.late.set()


async def test_whoever_waits_too_long_is_told_and_nobody_else() -> None:
    patience = Patience()
    impatient, patient, answered = Answer(), Answer(), Answer()
    patience.begin(impatient, 0)
    patience.begin(patient, 3600)
    patience.begin(answered, 0)
    patience.end(answered)
    await asyncio.wait_for(impatient.late.wait(), 30)
    patience.close()

    assert not patient.late.is_set()
    assert not answered.late.is_set()


async def test_after_a_time_without_anybody_the_next_is_looked_after() -> None:
    patience = Patience()
    gone, next_one = Answer(), Answer()
    patience.begin(gone, 3600)
    patience.end(gone)
    await asyncio.sleep(3 * STEP_S)
    patience.begin(next_one, 0)
    await asyncio.wait_for(next_one.late.wait(), 30)

    assert not gone.late.is_set()


async def test_nobody_is_told_after_the_end() -> None:
    patience = Patience()
    one = Answer()
    patience.begin(one, 0)
    patience.close()
    await asyncio.sleep(3 * STEP_S)

    assert not one.late.is_set()
