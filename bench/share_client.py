"""One of the clients of `bench.shares`: reads as a member of a consumer group, or of a share group.

It joins its group and reads nothing until a line arrives on stdin. After every handful of
records it prints how many it has read, the time of that line, and the time of the last record.
"""

from __future__ import annotations

import sys
import threading
import time

from confluent_kafka import Consumer, ShareConsumer, TopicPartition

GROUP, SHARE = "group", "share"
_POLL_S = 0.2
_AT_ONCE = 500
_COMMIT_S = 60.0


class Go:
    """The start signal: a line on stdin."""

    def __init__(self) -> None:
        self._go = threading.Event()
        self.at_s = 0.0
        threading.Thread(target=self._listen, name="go", daemon=True).start()

    def _listen(self) -> None:
        sys.stdin.readline()
        self.at_s = time.monotonic()
        self._go.set()

    def has_begun(self, timeout_s: float = 0.0) -> bool:
        return self._go.wait(timeout_s)


def read_as_group(address: str, group: str, topic: str) -> None:
    options = {"bootstrap.servers": address, "group.id": group, "group.protocol": "consumer"}
    consumer = Consumer({**options, "auto.offset.reset": "earliest"})
    assigned: list[TopicPartition] = []

    def hold(member: Consumer, partitions: list[TopicPartition]) -> None:
        member.incremental_assign(partitions)
        member.pause(partitions)
        assigned.extend(partitions)

    consumer.subscribe([topic], on_assign=hold)
    go, count = Go(), 0
    while not go.has_begun():
        consumer.poll(_POLL_S / 10)
    consumer.resume(assigned)
    while True:
        messages = consumer.consume(_AT_ONCE, _POLL_S)
        done = sum(message.error() is None for message in messages)
        if done:
            count += done
            print(count, go.at_s, time.monotonic(), flush=True)


def read_as_share_group(address: str, group: str, topic: str) -> None:
    options = {"bootstrap.servers": address, "group.id": group, "log_level": 0}
    consumer = ShareConsumer({**options, "share.acknowledgement.mode": "explicit", "max.poll.records": _AT_ONCE})
    consumer.subscribe([topic])
    go, count = Go(), 0
    while not go.has_begun(_POLL_S):
        pass
    while True:
        messages = list(consumer.poll(_POLL_S))
        done = 0
        for message in messages:
            if message.error() is None:
                consumer.acknowledge(message)
                done += 1
        if done:
            consumer.commit_sync(_COMMIT_S)
            count += done
            print(count, go.at_s, time.monotonic(), flush=True)


if __name__ == "__main__":
    server, kind, group_id, name = sys.argv[1:]
    (read_as_share_group if kind == SHARE else read_as_group)(server, group_id, name)
