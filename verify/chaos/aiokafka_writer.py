"""An idempotent producer on aiokafka: `python -m verify.chaos.aiokafka_writer …`

As with librdkafka, a value is produced once. Where a record fails, the producer is discarded, and the outcome of its
unsettled records is unknown.
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


class TrackedProducer:
    """One producer, and its unsettled records."""

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
    numbers, producers = count(), deque[TrackedProducer]()
    while not orders.is_over:
        producer = TrackedProducer(task, journal, reports)
        try:
            await producer.begin()
            await _use(producer, numbers, task, orders, pace, reports)
        except (KafkaError, OSError) as fault:
            producer.fault = fault
        if producer.fault is not None:
            reports.send(note=f"{task.name}: another producer after {producer.fault!r}")
            await producer.abandon()
        else:
            producers.append(producer)
    for producer in producers:
        await _finish(producer, task, reports)
    journal.close()
    reports.send_final()


async def _use(
    producer: TrackedProducer, numbers: Iterator[int], task: Task, orders: Orders, pace: Pace, reports: Reports
) -> None:
    while not orders.is_over and producer.fault is None:
        for _ in range(pace.due() if len(producer.unsettled) < task.rate else 0):
            await producer.send(next(numbers))
            pace.sent(1)
        await asyncio.sleep(0.02)
        reports.send_periodically()


async def _finish(producer: TrackedProducer, task: Task, reports: Reports) -> None:
    deadline = asyncio.get_running_loop().time() + FINISH_S
    while producer.unsettled and producer.fault is None and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.1)
        reports.send_periodically()
    if producer.unsettled and producer.fault is None:
        reports.send(anomaly=f"{task.name}: {len(producer.unsettled)} records were not settled {FINISH_S:.0f} s after")
    await producer.abandon()


if __name__ == "__main__":
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    asyncio.run(write(Task.parse(sys.argv[1:])))
