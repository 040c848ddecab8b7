"""Windows of one size as columns: merged, split by their start, rolled up into larger ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from qanat.spark.rollups.chunks import NAMES, numbers, pack, unpack
from qanat.spark.rollups.output import FIELDS
from qanat.spark.rollups.quantiles import quantiles

SHARES = (0.5, 0.95, 0.99)
STATS = pa.schema(
    [
        ("start", pa.int64()),
        ("series", pa.int64()),
        ("count", pa.int64()),
        ("sum", pa.float64()),
        ("min", pa.float64()),
        ("max", pa.float64()),
    ]
)
CELLS = pa.schema([("start", pa.int64()), ("series", pa.int64()), ("value", pa.float64()), ("count", pa.int64())])


class _Stored(msgspec.Struct, array_like=True):
    stats: bytes
    cells: bytes
    names: bytes


class Windows(NamedTuple):
    """Windows by start and series: `stats` has a row for each, `cells` its values and how often they occur."""

    stats: pa.Table
    cells: pa.Table
    names: pa.Table

    @staticmethod
    def empty() -> Windows:
        return Windows(STATS.empty_table(), CELLS.empty_table(), NAMES.empty_table())

    @staticmethod
    def decode(data: bytes) -> Windows:
        stored = msgspec.msgpack.decode(data, type=_Stored)
        return Windows(unpack(stored.stats), unpack(stored.cells), unpack(stored.names))

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(_Stored(pack(self.stats), pack(self.cells), pack(self.names)))

    @property
    def starts(self) -> list[int]:
        return sorted(pc.unique(self.stats.column("start")).to_pylist())

    def rolled_up(self, size_ms: int) -> Windows:
        """The windows of a larger size that these are parts of."""
        return merged([self._replace(stats=_moved(self.stats, size_ms), cells=_moved(self.cells, size_ms))])

    def parted(self, end_ms: int, size_ms: int) -> tuple[Windows, Windows]:
        """Windows that are over at a time, and the others."""
        over, still = (
            Windows(_chosen(self.stats, end_ms - size_ms, how), _chosen(self.cells, end_ms - size_ms, how), self.names)
            for how in (pc.less_equal, pc.greater)
        )
        return over, still

    def each(self) -> Iterator[tuple[int, Windows]]:
        """Windows by start, each with the names of its own series."""
        for start in self.starts:
            stats, cells = (table.filter(pc.equal(table.column("start"), start)) for table in (self.stats, self.cells))
            names = self.names.filter(pc.is_in(self.names.column("series"), stats.column("series").combine_chunks()))
            yield start, Windows(stats, cells, names)

    def rollups(self, label: str, size_ms: int) -> pa.Table:
        """The aggregates of each window, in the columns of a rollup."""
        stats = self.stats.sort_by([("start", "ascending"), ("series", "ascending")])
        cells = self.cells.sort_by([("start", "ascending"), ("series", "ascending"), ("value", "ascending")])
        parts = [numbers(cells.column(name)) for name in ("start", "series")]
        is_last = np.ones(cells.num_rows, bool)
        is_last[:-1] = np.logical_or(*(part[1:] != part[:-1] for part in parts))
        found = quantiles(
            numbers(cells.column("value")),
            numbers(cells.column("count")),
            np.flatnonzero(is_last) + 1,
            SHARES,
        )
        least, most = numbers(stats.column("min")), numbers(stats.column("max"))
        places = pc.index_in(stats.column("series"), self.names.column("series").combine_chunks())
        start = stats.column("start")
        columns = {
            "metric": self.names.column("metric").take(places),
            "source": self.names.column("source").take(places),
            "window": pa.array([label] * stats.num_rows, pa.string()),
            "start": start,
            "end": pc.add(start, size_ms),
            **{name: stats.column(name) for name in ("count", "sum", "min", "max")},
            "mean": pc.divide(stats.column("sum"), stats.column("count").cast(pa.float64())),
            **{f"p{round(share * 100)}": np.clip(one, least, most) for share, one in zip(SHARES, found, strict=True)},
        }
        return pa.table([columns[name] for name in FIELDS], names=list(FIELDS))


def merged(parts: Iterable[Windows]) -> Windows:
    """Windows with the same start and series become one."""
    every = list(parts)
    stats = _grouped(
        [part.stats for part in every],
        ["start", "series"],
        [("count", "sum"), ("sum", "sum"), ("min", "min"), ("max", "max")],
        STATS,
    )
    cells = _grouped([part.cells for part in every], ["start", "series", "value"], [("count", "sum")], CELLS)
    names = _grouped([part.names for part in every], ["series"], [("metric", "min"), ("source", "min")], NAMES)
    return Windows(stats, cells, names)


def windows_of(rows: pa.Table, values: NDArray[np.float64], names: pa.Table) -> Windows:
    """The windows of measurements with columns `start`, `series` and `value`; `values` are those kept for quantiles."""
    stats = rows.group_by(["start", "series"], use_threads=False).aggregate(
        [("value", "count"), ("value", "sum"), ("value", "min"), ("value", "max")]
    )
    kept = pa.table([rows.column("start"), rows.column("series"), values], names=["start", "series", "value"])
    cells = kept.group_by(["start", "series", "value"], use_threads=False).aggregate([([], "count_all")])
    return Windows(
        stats.select(["start", "series", "value_count", "value_sum", "value_min", "value_max"]).rename_columns(
            STATS.names
        ),
        cells.select(["start", "series", "value", "count_all"]).rename_columns(CELLS.names),
        names,
    )


def _grouped(tables: list[pa.Table], keys: list[str], aggregates: list[tuple[str, str]], schema: pa.Schema) -> pa.Table:
    found = pa.concat_tables(tables).group_by(keys, use_threads=False).aggregate(aggregates)
    return found.select([*keys, *(f"{name}_{how}" for name, how in aggregates)]).rename_columns(schema.names)


def _moved(table: pa.Table, size_ms: int) -> pa.Table:
    start = numbers(table.column("start"))
    return table.set_column(0, "start", pa.array(start - start % size_ms, pa.int64()))


def _chosen(table: pa.Table, start_ms: int, compare: Callable[[pa.ChunkedArray, int], pa.ChunkedArray]) -> pa.Table:
    return table.filter(compare(table.column("start"), start_ms))
