"""A read_committed consumer on librdkafka: `python -m verify.chaos.reader live|group|guest|final …`

- `live`   is assigned every partition and reads along; it skips nothing and never goes back
- `group`  is a member of a group, and commits what it has read; together the members read everything
- `guest`  is another member, which leaves on the order to finish
- `final`  reads everything from the start, after healing

On the order to finish, all but the guest read on until they have every acknowledged record.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from verify.chaos.client import FINISH_S, Orders, Reports, Task
from verify.chaos.journal import Journal, Seen, identity_of

GROUP = "chaos"
_BATCH = 2000
_COMMIT_S = 0.5
_OPTIONS = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 1000,
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}

Place = tuple[str, int]


class Reader:
    """One consumer, and its position in each partition."""

    def __init__(self, task: Task, mode: str, group_protocol: str) -> None:
        self._task, self._mode = task, mode
        self._orders, self._reports, self._journal = Orders(), Reports(), Journal(task.folder, task.name)
        self._places = [(topic, number) for topic, count in task.topics.items() for number in range(count)]
        self._positions: dict[Place, int] = {}
        self._eofs: dict[Place, int] = {}
        self._uncommitted: dict[Place, int] = {}
        self._next_commit_s = 0.0
        self._is_member = mode in ("group", "guest")
        own = {"auto.offset.reset": "earliest" if self._is_member else "error", "group.protocol": group_protocol}
        if group_protocol == "classic":
            own["session.timeout.ms"] = "6000"
        if self._is_member:
            # Its log explains a member that no longer gets anything.
            own |= {"debug": "cgrp", "log_level": "7"}
        self._consumer = Consumer(
            {
                "bootstrap.servers": task.bootstrap,
                "group.id": GROUP if self._is_member else task.name,
                **_OPTIONS,
                **own,
            }
        )

    def read(self) -> None:
        self._begin()
        while not self._orders.is_over:
            self._step()
        if self._mode != "guest":
            self._read_to_the_ends()
        for topic, number in self._places if self._mode == "final" else []:
            self._journal.note_poll(topic, number, self._positions.get((topic, number), 0), [], is_final=True)
        self._commit()
        self._journal.close()
        self._consumer.close()
        self._reports.send(read=self._reports.acknowledged)

    def _read_to_the_ends(self) -> None:
        deadline = time.monotonic() + (FINISH_S if self._mode != "final" else 10 * FINISH_S)
        ends = self._ends()
        while (missing := self._missing(ends)) and time.monotonic() < deadline:
            self._step()
        if missing:
            self._reports.send(anomaly=f"unread: {self._task.name} does not reach the ends of {missing[:5]}")

    def _begin(self) -> None:
        if self._is_member:
            # A reassigned partition is read from the committed offset: skips and steps back are normal then.
            self._consumer.subscribe(list(self._task.topics), on_assign=self._reset, on_revoke=self._release)
            return
        self._positions = dict.fromkeys(self._places, 0)
        self._consumer.assign([TopicPartition(topic, number, 0) for topic, number in self._places])

    def _reset(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for one in partitions:
            self._positions.pop((one.topic, one.partition), None)
            self._eofs.pop((one.topic, one.partition), None)

    def _release(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._commit()
        for one in partitions:
            self._uncommitted.pop((one.topic, one.partition), None)

    def _ends(self) -> dict[Place, int]:
        topics = self._orders.ends
        return {(topic, int(number)): end for topic, ends in topics.items() for number, end in ends.items()}

    def _missing(self, ends: dict[Place, int]) -> list[Place]:
        """The partitions that are not read to their ends."""
        return [place for place in self._places if self._eofs.get(place, -1) < ends.get(place, 0)]

    def _step(self) -> None:
        messages = self._consumer.consume(_BATCH, 0.2)
        batches: dict[Place, list[Seen]] = {}
        for message in messages:
            fault = message.error()
            place = (message.topic() or "", message.partition() or 0)
            if fault is None:
                offset = message.offset() or 0
                batches.setdefault(place, []).append((offset, *identity_of(message.value())))
            else:
                self._note(fault, message, place)
        for place, seen in batches.items():
            position = self._positions.get(place, seen[0][0])
            self._journal.note_poll(*place, position, seen, is_final=self._mode == "final")
            self._positions[place] = self._uncommitted[place] = seen[-1][0] + 1
            self._reports.count(len(seen))
        if time.monotonic() > self._next_commit_s:
            self._commit()
        self._reports.send_periodically()

    def _note(self, fault: KafkaError, message: Message, place: Place) -> None:
        if fault.code() == KafkaError._PARTITION_EOF:
            self._eofs[place] = message.offset() or 0
        elif fault.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._reports.send(anomaly=f"truncated under a reader: {self._task.name} in {place}: {fault.str()}")
        else:
            print(f"{time.time():.3f} {place}: {fault}", file=sys.stderr, flush=True)

    def _commit(self) -> None:
        self._next_commit_s = time.monotonic() + _COMMIT_S
        if not self._is_member or not self._uncommitted:
            return
        offsets = [TopicPartition(*place, offset) for place, offset in self._uncommitted.items()]
        try:
            if self._orders.is_over:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            else:
                self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException:
            return  # The next owner of the partition reads them again.
        self._uncommitted.clear()


if __name__ == "__main__":
    Reader(Task.parse(sys.argv[3:]), sys.argv[1], sys.argv[2]).read()
