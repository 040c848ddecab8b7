"""A share consumer that acknowledges each record: `python -m verify.share_queue.worker …`

Its journal has a line per event, written before what it announces and after what it reports, so that it is true at
whatever time the worker is killed:

    got <record> <attempt> <when>       the record was delivered
    doing <record> <verdict> <when>     from here on the broker may have the acknowledgement
    done <record> <verdict> <when>      the broker has it, durably
    lost <record> <verdict> <when>      the broker refused it: the lock has expired
"""

from __future__ import annotations

import os
import sys
import time

from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer

ACCEPT, RELEASE, REJECT = "accept", "release", "reject"
_TYPES = {ACCEPT: AcknowledgeType.ACCEPT, RELEASE: AcknowledgeType.RELEASE, REJECT: AcknowledgeType.REJECT}
_POLL_S = 0.2
_WORK_S = 0.05
"""Work on the records of one poll, so that kills hit workers that have records."""
_COMMIT_S = 30.0


def verdict_on(record: int) -> str:
    """The acknowledgement of a record, the same for all workers."""
    return {7: RELEASE, 13: REJECT}.get(record % 50, ACCEPT)


class Journal:
    """A file that is written line by line."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, *rows: tuple[object, ...]) -> None:
        when = time.monotonic()
        text = "".join(f"{' '.join(map(str, row))} {when:.6f}\n" for row in rows)
        os.write(self._file, text.encode())


def work(address: str, group: str, topic: str, journal: Journal) -> None:
    """Work until killed."""
    options = {"bootstrap.servers": address, "group.id": group, "share.acknowledgement.mode": "explicit"}
    consumer = ShareConsumer({**options, "max.poll.records": 20, "log_level": 0})
    consumer.subscribe([topic])
    while True:
        messages = [one for one in consumer.poll(_POLL_S) if one.error() is None]
        if messages:
            _settle(consumer, messages, journal)


def _settle(consumer: ShareConsumer, messages: list[Message], journal: Journal) -> None:
    records = [(int(one.value() or b"-1"), one.partition()) for one in messages]
    journal.write(*[("got", number, one.delivery_count()) for (number, _), one in zip(records, messages, strict=True)])
    time.sleep(_WORK_S)
    for (number, _), message in zip(records, messages, strict=True):
        consumer.acknowledge(message, _TYPES[verdict_on(number)])
    journal.write(*[("doing", number, verdict_on(number)) for number, _ in records])
    try:
        outcomes = {at.partition: fault for at, fault in consumer.commit_sync(_COMMIT_S).items()}
    except KafkaException as fault:
        print(fault, file=sys.stderr)
        return
    rows = []
    for number, partition in records:
        if partition in outcomes:
            rows.append(("done" if outcomes[partition] is None else "lost", number, verdict_on(number)))
    journal.write(*rows)


if __name__ == "__main__":
    server, group_id, queue, path = sys.argv[1:]
    work(server, group_id, queue, Journal(path))
