"""Writes with aiokafka, idempotently. `python -m verify.chaos.aiokafka_writer …`

As with librdkafka: a value is handed over once. Where a record fails, the producer is thrown away, and what it had is
of unknown outcome.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import count

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]

from verify.chaos.client import FINISH_S, Orders, Pace, Reports, Task
from verify.chaos.journal import Journal, value_of
from verify.clusters.history import Outcome

_RUN = 20
_LINGER_MS = 5


class Life:
    """One producer, and what it has not settled."""

    def __init__(self, task: Task, journal: Journal, reports: Reports) -> None:
        self._task, self._journal, self._reports = task, journal, reports
        ((self._topic, self._partitions),) = task.topics.items()
        self._producer = AIOKafkaProducer(
            bootstrap_servers=task.bootstrap,
            enable_idempotence=True,
            acks="all",
            linger_ms=_LINGER_MS,
            request_timeout_ms=60_000,
            metadata_max_age_ms=5_000,
        )
        self.unsettled: dict[int, int] = {}
        self.fault: BaseException | None = None

    async def begin(self) -> None:
        await self._producer.start()

    async def send(self, number: int) -> None:
        at = number // _RUN % self._partitions
        self.unsettled[number] = at
        future = await self._producer.send(self._topic, value_of(self._task.writer, number), partition=at)
        future.add_done_callback(partial(self._settle, number))

    def _settle(self, number: int, future: asyncio.Future[object]) -> None:
        at = self.unsettled.pop(number, None)
        fault = asyncio.CancelledError() if future.cancelled() else future.exception()
        if at is None:
            return
        if fault is None:
            offset = getattr(future.result(), "offset", -1)
            self._journal.note_send(self._topic, at, number, Outcome.DONE, offset)
            self._reports.reach(at, offset)
            self._reports.count(1)
        else:
            self.fault = fault
            self._journal.note_send(self._topic, at, number, Outcome.UNKNOWN)

    async def abandon(self) -> None:
        for number, at in self.unsettled.items():
            self._journal.note_send(self._topic, at, number, Outcome.UNKNOWN)
        self.unsettled.clear()
        stopping = asyncio.ensure_future(self._producer.stop())
        done, _ = await asyncio.wait([stopping], timeout=2)
        if done:
            stopping.exception()
        else:
            stopping.cancel()


async def write(task: Task) -> None:
    orders, pace, reports, journal = Orders(), Pace(task.rate, _RUN), Reports(), Journal(task.folder, task.name)
    numbers, lives = count(), deque[Life]()
    while not orders.is_over:
        life = Life(task, journal, reports)
        try:
            await life.begin()
            await _use(life, numbers, task, orders, pace, reports)
        except (KafkaError, OSError) as fault:
            life.fault = fault
        if life.fault is not None:
            reports.tell(note=f"{task.name}: another producer after {life.fault!r}")
            await life.abandon()
        else:
            lives.append(life)
    for life in lives:
        await _finish(life, task, reports)
    journal.close()
    reports.tell_in_the_end()


async def _use(life: Life, numbers: Iterator[int], task: Task, orders: Orders, pace: Pace, reports: Reports) -> None:
    while not orders.is_over and life.fault is None:
        for _ in range(pace.due() if len(life.unsettled) < task.rate else 0):
            await life.send(next(numbers))
            pace.sent(1)
        await asyncio.sleep(0.02)
        reports.tell_now_and_then()


async def _finish(life: Life, task: Task, reports: Reports) -> None:
    deadline = asyncio.get_running_loop().time() + FINISH_S
    while life.unsettled and life.fault is None and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.1)
        reports.tell_now_and_then()
    if life.unsettled and life.fault is None:
        reports.tell(anomaly=f"{task.name}: {len(life.unsettled)} records were not settled {FINISH_S:.0f} s after")
    await life.abandon()


if __name__ == "__main__":
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    asyncio.run(write(Task.parse(sys.argv[1:])))
