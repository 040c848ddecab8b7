"""The demonstration's fleet as Arrow batches of topic partitions, and a rollup of them without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from demo.fleet import Sent

from qanat.spark.rollups.chunks import Measured, unpack
from qanat.spark.rollups.intake import SHARDS, intake
from qanat.spark.rollups.output import RECORD, rollup_records
from qanat.spark.rollups.rules import Rules
from qanat.spark.rollups.shard import Parcel, Shard
from qanat.testing import StoredRecord

RULES = Rules(600_000, 60_000, "10 minutes", "1 minute")
DELAY_MS = 15 * 60_000


class Memory(dict[str, bytes]):
    """A shard's state in memory."""

    def put(self, key: str, value: bytes) -> None:
        self[key] = value

    def remove(self, key: str) -> None:
        del self[key]


def stored(records: Iterable[Sent], partitions: int) -> list[StoredRecord]:
    """The records in partitions by their keys."""
    ends = [0] * partitions
    found = []
    for record in records:
        number = sum(record.key) % partitions
        found.append(StoredRecord("in", number, ends[number], record.arrival_ms, record.key, record.value, ()))
        ends[number] += 1
    return found


def batch(records: list[StoredRecord]) -> pa.RecordBatch:
    """As the source reads it."""
    return pa.record_batch(
        {
            "key": pa.array([one.key for one in records], pa.binary()),
            "value": pa.array([one.value for one in records], pa.binary()),
            "topic": pa.array(["in"] * len(records), pa.string()),
            "partition": pa.array([one.partition for one in records], pa.int32()),
            "offset": pa.array([one.offset for one in records], pa.int64()),
            "timestamp": pa.array([one.timestamp * 1000 for one in records], pa.int64()).cast(
                RECORD.field("timestamp").type
            ),
            "headers": pa.array(
                [list(map(_header, one.headers)) or None for one in records], RECORD.field("headers").type
            ),
        }
    )


def _header(header: tuple[str, bytes | None]) -> dict[str, Any]:
    return {"key": header[0], "value": header[1]}


class Rollup:
    """The pipeline without Spark: micro-batches in, records of topics out."""

    def __init__(self, error: float) -> None:
        self._shard = Shard(DELAY_MS, error)
        self.states = [Memory() for _ in range(SHARDS)]
        self.rollups: list[dict[str, Any]] = []
        self.dead: list[dict[str, Any]] = []
        self.duplicates = self.late = 0

    def take(self, micro_batch: dict[int, list[StoredRecord]]) -> None:
        """Take the records of each partition."""
        parcels: list[dict[str, Any]] = []
        for records in micro_batch.values():
            for parcel in intake([batch(records)], RULES, "dead"):
                parcels += parcel.to_pylist()
        self.dead += [row for one in parcels if one["dead"] for row in unpack(one["dead"]).to_pylist()]
        for number, state in enumerate(self.states):
            done = self._shard.step(state, (_parcel(one) for one in parcels if one["shard"] == number))
            for table in done.rollups:
                self.rollups += rollup_records(table, "out").to_pylist()
            self.duplicates += done.duplicates
            self.late += done.late

    @property
    def state_bytes(self) -> int:
        return sum(len(value) for state in self.states for value in state.values())


def _parcel(row: dict[str, Any]) -> Parcel:
    measured = None if row["rows"] is None else Measured(unpack(row["rows"]), unpack(row["names"]))
    return Parcel(row["at"], row["newest_ms"], measured)


def cut(records: list[StoredRecord], random: Random, most: int) -> Iterator[dict[int, list[StoredRecord]]]:
    """Micro-batches: of each partition with unread records at least one, and up to so many."""
    left: dict[int, list[StoredRecord]] = {}
    for record in records:
        left.setdefault(record.partition, []).append(record)
    while left:
        taken = {number: random.randint(1, most) for number in left}
        yield {number: some[: taken[number]] for number, some in left.items()}
        left = {number: some[taken[number] :] for number, some in left.items() if len(some) > taken[number]}
