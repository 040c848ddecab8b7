"""Checks of the contents of sink and lake against the source."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq  # type: ignore[import-untyped]
from confluent_kafka import Consumer, TopicPartition

_TIMEOUT_S = 300.0
_LOG = "_spark_metadata"
_FILL = 200


def value(partition: int, number: int) -> bytes:
    """The value of the source at an offset, long enough for the tasks of the copy to upload rows to the broker."""
    return b"%d:%d" % (partition, number) + b"." * _FILL


def topic_problems(address: str, topic: str, partitions: int, records: int) -> list[str]:
    """Each partition must hold its records once and in order, for a consumer with read_committed."""
    problems = []
    for partition, found in enumerate(_values(address, topic, partitions)):
        expected = [value(partition, number) for number in range(records // partitions)]
        if found != expected:
            problems.append(f"{topic} partition {partition}: {_difference(expected, found)}")
    return problems


def lake_problems(lake: Path, partitions: int, records: int) -> list[str]:
    """The lake must hold every record once."""
    rows: Counter[tuple[int, int, str]] = Counter()
    for path in sink_files(lake):
        rows.update((row["partition"], row["offset"], row["value"]) for row in pq.read_table(path).to_pylist())
    each = records // partitions
    expected = {(one, number, value(one, number).decode()) for one in range(partitions) for number in range(each)}
    missing, unknown = expected - rows.keys(), rows.keys() - expected
    doubled = [row for row, count in rows.items() if count > 1]
    wrong = {"missing": sorted(missing), "never sent": sorted(unknown), "more than once": doubled}
    return [f"lake: {len(some)} {what}, first {some[0]}" for what, some in wrong.items() if some]


def sink_files(lake: Path) -> list[Path]:
    """The files in the log of Spark's sink. Other files are of unfinished attempts, and do not count."""
    entries = [path for path in (lake / _LOG).iterdir() if not path.name.startswith(".")]
    compacted = [path for path in entries if path.name.endswith(".compact")]
    last = max((int(path.stem) for path in compacted), default=-1)
    counting = [path for path in entries if int(path.name.partition(".")[0]) > last or path.name == f"{last}.compact"]
    added = [json.loads(line) for path in counting for line in path.read_text().splitlines()[1:]]
    return [Path(unquote(urlparse(one["path"]).path)) for one in added if one["action"] == "add"]


def _difference(expected: list[bytes], found: list[bytes]) -> str:
    counts = Counter(found)
    doubled = sum(1 for count in counts.values() if count > 1)
    missing = sum(1 for one in expected if one not in counts)
    if not doubled and not missing and len(found) == len(expected):
        return "the order differs"
    return f"{len(found)} records for {len(expected)}; {missing} missing, {doubled} more than once"


def _values(address: str, topic: str, partitions: int) -> list[list[bytes]]:
    options = {"bootstrap.servers": address, "group.id": "judge", "enable.auto.commit": False}
    consumer = Consumer({**options, "isolation.level": "read_committed", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[list[bytes]] = [[] for _ in range(partitions)]
    ended: set[int] = set()
    deadline = time.monotonic() + _TIMEOUT_S
    while len(ended) < partitions:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} cannot be read to its end")
        for message in consumer.consume(10_000, 0.5):
            partition = message.partition() or 0
            if message.error() is None:
                found[partition].append(message.value() or b"")
            else:
                ended.add(partition)
    consumer.close()
    return found
