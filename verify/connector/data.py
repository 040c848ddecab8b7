"""Topics with awkward records, the same on every broker: nulls, headers, gaps, transactions, both timestamp types."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

MIXED, OTHER, EMPTY, STAMPED, TRANSACTED, WRITTEN, COPIED = (
    "mixed-one",
    "mixed-two",
    "empty",
    "stamped",
    "transacted",
    "written",
    "written-copy",
)
BASE_MS = 1_700_000_000_000
_TIMEOUT_S = 60.0


def fill(address: str, further: Iterable[str] = ()) -> None:
    """Create the topics and their records; `further` topics stay empty."""
    admin = AdminClient({"bootstrap.servers": address})
    # The records' timestamps are old, so that they are the same in every run.
    retained = {"retention.ms": "-1"}
    topics = [
        NewTopic(name, 3, 1, config=retained) for name in (MIXED, OTHER, EMPTY, TRANSACTED, WRITTEN, COPIED, *further)
    ]
    topics.append(NewTopic(STAMPED, 1, 1, config={**retained, "message.timestamp.type": "LogAppendTime"}))
    for future in admin.create_topics(topics).values():
        future.result(_TIMEOUT_S)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    for number in range(60):
        key = None if number % 5 == 0 else b"" if number % 7 == 0 else b"key %d" % number
        value = None if number % 11 == 0 else b"" if number % 13 == 0 else b"value \xff %d" % number
        headers: list[tuple[str, str | bytes | None]] = (
            [] if number % 3 else [("h", b"%d" % number), ("h", None), ("ü", b"")]
        )
        producer.produce(
            MIXED, value, key, partition=number % 3, timestamp=BASE_MS + number * 1000, headers=headers or None
        )
        if number % 10 == 9:
            producer.flush(_TIMEOUT_S)
    for number in range(9):
        producer.produce(OTHER, b"other %d" % number, partition=number % 3, timestamp=BASE_MS)
        producer.produce(STAMPED, b"stamped %d" % number, partition=0)
    producer.flush(_TIMEOUT_S)
    _transactions(address)


def _transactions(address: str) -> None:
    """Commit and abort alternately, so that offsets have gaps for a consumer with read_committed."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": "judge"})
    producer.init_transactions(_TIMEOUT_S)
    for turn in range(4):
        producer.begin_transaction()
        for number in range(6):
            producer.produce(TRANSACTED, b"turn %d record %d" % (turn, number), partition=number % 3, timestamp=BASE_MS)
        producer.flush(_TIMEOUT_S)
        if turn % 2:
            producer.abort_transaction(_TIMEOUT_S)
        else:
            producer.commit_transaction(_TIMEOUT_S)
