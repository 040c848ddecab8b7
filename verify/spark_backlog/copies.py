"""Copies of a topic, in another cluster and in a lake, compared with what was sent."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from confluent_kafka import Consumer, TopicPartition
from tools.backlog.filling import Digest

from qanat.spark.lake.lake import Lake

_TIMEOUT_S = 1800.0
_AT_ONCE = 20_000


def topic_problems(address: str, topic: str, sent: Sequence[Digest]) -> list[str]:
    """Each partition must hold its records once and in order, for a consumer with read_committed."""
    options = {"bootstrap.servers": address, "group.id": "judge", "enable.auto.commit": False}
    consumer = Consumer({**options, "isolation.level": "read_committed", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(len(sent))])
    found = [Digest() for _ in sent]
    ended: set[int] = set()
    deadline = time.monotonic() + _TIMEOUT_S
    while len(ended) < len(sent):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} cannot be read to its end")
        for message in consumer.consume(_AT_ONCE, 0.5):
            partition = message.partition() or 0
            if message.error() is None:
                found[partition].add_one(message.value() or b"")
            else:
                ended.add(partition)
    consumer.close()
    return _differences(topic, sent, found)


def lake_problems(location: str, sent: Sequence[Digest]) -> list[str]:
    """The lake of an archive must hold each record once."""
    lake = Lake.open_existing(location)
    found, problems = [], []
    for partition in range(len(sent)):
        tables = [
            pq.read_table(io.BytesIO(lake.folder.read(one.path)), columns=["offset", "value"])
            for one in lake.contents.files.values()
            if one.partition == partition
        ]
        rows = pa.concat_tables(tables).sort_by("offset") if tables else None
        digest = Digest()
        if rows is not None:
            offsets = rows.column("offset")
            if pc.count_distinct(offsets).as_py() != len(offsets) or offsets[0].as_py() != 0:
                problems.append(f"lake, partition {partition}: offsets are missing or there twice")
            for values in rows.column("value").chunks:
                digest.add(values)
        found.append(digest)
    return problems + _differences("lake", sent, found)


def _differences(what: str, sent: Sequence[Digest], found: Sequence[Digest]) -> list[str]:
    return [
        f"{what}, partition {number}: {mine.rows:,} records for {theirs.rows:,}, or others, or in another order"
        for number, (theirs, mine) in enumerate(zip(sent, found, strict=True))
        if mine != theirs
    ]
