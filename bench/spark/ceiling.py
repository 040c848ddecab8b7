"""A data source and a sink in memory: the same columns, the same sizes, and no broker."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from qanat.spark.schemas import PLAIN

if TYPE_CHECKING:
    from pyarrow import RecordBatch  # type: ignore[import-untyped]

ROWS_AT_ONCE = 1 << 16


class Memory(DataSource):
    """Options: `rows` in all, `size` of a value, `tasks`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "memory-ceiling"

    def schema(self) -> StructType:
        return PLAIN

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(dict(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _StreamReader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer()


def _batches(options: dict[str, str], schema: StructType) -> Iterator[RecordBatch]:
    """One batch, made once and returned again and again."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    rows, size, tasks = (int(options[name]) for name in ("rows", "size", "tasks"))
    count = min(ROWS_AT_ONCE, rows // tasks)
    arrays = [
        pa.nulls(count, pa.binary()),
        pa.array([b"x" * size] * count, pa.binary()),
        pa.repeat(pa.scalar("topic"), count),
        pa.repeat(pa.scalar(0, pa.int32()), count),
        pa.array(range(count), pa.int64()),
        pa.repeat(pa.scalar(0, pa.timestamp("us", tz="UTC")), count),
        pa.repeat(pa.scalar(0, pa.int32()), count),
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=to_arrow_schema(schema, timezone="UTC"))
    left = rows // tasks
    while left > 0:
        yield batch if left >= count else batch.slice(0, left)
        left -= count


class _Reader(DataSourceReader):
    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(int(self._options["tasks"]))]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return _batches(self._options, self._schema)


class _StreamReader(DataSourceStreamReader):
    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        return {"at": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(int(self._options["tasks"]))]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return _batches(self._options, self._schema)


class _Writer(DataSourceArrowWriter):
    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
