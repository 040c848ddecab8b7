"""One of the clients of `bench.client.queues`: accepts every record of a topic, and says how long that took.

It prints the records that it accepted, its polls with records, seconds from its first record to the last durable
acknowledgement, and its CPU seconds for that.
"""

from __future__ import annotations

import asyncio
import sys
import time

OURS, OURS_SYNC, CONFLUENT = "qanat", "qanat-sync", "confluent"
AT_ONCE = 500
_EVERYTHING = 100_000
"""A poll of confluent's returns whole fetches, which may be larger than asked for (KIP-932); so do ours then."""
_POLL_S = 0.2
_FLUSH_S = 60.0


class Clock:
    """Begins with the first record."""

    def __init__(self) -> None:
        self.count = 0
        self._began = 0.0
        self._cpu = 0.0

        self.polls = 0

    def note(self, count: int) -> None:
        self.polls += count > 0
        if count and not self.count:
            self._began, self._cpu = time.monotonic(), time.process_time()
        self.count += count

    def print(self) -> None:
        print(self.count, self.polls, time.monotonic() - self._began, time.process_time() - self._cpu, flush=True)


async def accept_async(address: str, group: str, topic: str, wanted: int) -> None:
    from qanat.client import AsyncQueueConsumer

    clock = Clock()
    async with AsyncQueueConsumer(address, topic, group=group, max_poll_records=AT_ONCE) as queue:
        while clock.count < wanted:
            records = await queue.poll(_EVERYTHING, _POLL_S)
            clock.note(len(records))
            for record in records:
                await queue.acknowledge(record)
            if records:
                await queue.flush(_FLUSH_S)
        clock.print()


def accept_sync(address: str, group: str, topic: str, wanted: int) -> None:
    from qanat.client import QueueConsumer

    clock = Clock()
    with QueueConsumer(address, topic, group=group, max_poll_records=AT_ONCE) as queue:
        while clock.count < wanted:
            records = queue.poll(_EVERYTHING, _POLL_S)
            clock.note(len(records))
            for record in records:
                queue.acknowledge(record)
            if records:
                queue.flush(_FLUSH_S)
        clock.print()


def accept_by_confluent(address: str, group: str, topic: str, wanted: int) -> None:
    from confluent_kafka import ShareConsumer

    clock = Clock()
    options = {"bootstrap.servers": address, "group.id": group, "log_level": 0, "max.poll.records": AT_ONCE}
    consumer = ShareConsumer({**options, "share.acknowledgement.mode": "explicit"})
    consumer.subscribe([topic])
    while clock.count < wanted:
        messages = [one for one in consumer.poll(_POLL_S) or [] if one.error() is None]
        clock.note(len(messages))
        for message in messages:
            message.value()
            consumer.acknowledge(message)
        if messages:
            consumer.commit_sync(_FLUSH_S)
    clock.print()
    consumer.close()


if __name__ == "__main__":
    server, kind, group_id, name, number = sys.argv[1:]
    if kind == OURS:
        asyncio.run(accept_async(server, group_id, name, int(number)))
    elif kind == OURS_SYNC:
        accept_sync(server, group_id, name, int(number))
    else:
        accept_by_confluent(server, group_id, name, int(number))
