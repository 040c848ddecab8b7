"""The rollup's stateful step as Spark runs it: state in Spark's store, parcels as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from qanat.spark.rollups.chunks import Measured, pack, unpack
from qanat.spark.rollups.output import rollup_records
from qanat.spark.rollups.shard import Parcel, Shard
from qanat.spark.worker_memory import retain_memory

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState

RESULT_DDL = "records binary, over_ms bigint, duplicates bigint, late bigint"
"""Packed records of topics; and what the step of a shard reports, in a row of its own."""


class _SparkStore:
    """Spark's state of one shard."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def get(self, key: str) -> bytes | None:
        found = self._state.getValue((key,))
        return None if found is None else bytes(found[0])

    def put(self, key: str, value: bytes) -> None:
        self._state.updateValue((key,), (value,))

    def remove(self, key: str) -> None:
        self._state.removeKey((key,))


class RollupProcessor(StatefulProcessor):
    """Runs `Shard` for each shard of a micro-batch."""

    def __init__(self, shard: Shard, output: str) -> None:
        self._shard = shard
        self._output = output

    def init(self, handle: StatefulProcessorHandle) -> None:
        retain_memory()
        self._state = handle.getMapState("shard", "key string", "value binary")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        parcels: list[Parcel] = []
        for some in rows:
            for at, newest_ms, measured, names, dead in zip(
                some["at"], some["newest_ms"], some["rows"], some["names"], some["dead"], strict=True
            ):
                if dead is not None:
                    yield _result(records=dead)
                elif measured is not None:
                    parcels.append(Parcel(measured=Measured(unpack(measured), unpack(names))))
                else:
                    parcels.append(Parcel(at, int(newest_ms)))
        done = self._shard.step(_SparkStore(self._state), parcels)
        for rollups in done.rollups:
            yield _result(records=pack(rollup_records(rollups, self._output)))
        yield _result(over_ms=done.over_ms, duplicates=done.duplicates, late=done.late)

    def close(self) -> None:
        """Nothing is open."""


def _result(
    records: bytes | None = None, over_ms: int | None = None, duplicates: int = 0, late: int = 0
) -> pd.DataFrame:
    frame = pd.DataFrame({"records": [records], "over_ms": [over_ms], "duplicates": [duplicates], "late": [late]})
    return frame.astype({"over_ms": "Int64"})


def unpack_records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Packed records as rows."""
    for batch in batches:
        for packed in batch.column("records"):
            if packed.is_valid:
                yield from unpack(packed.as_buffer()).to_batches()
