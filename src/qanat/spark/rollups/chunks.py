"""Chunks: columns packed into bytes, as they travel between tasks and into the state."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from qanat.spark.rollups.measurements import Judged

# Tasks run side by side: threads for a few kilobytes would only wait for each other.
_WRITE = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FOLD = np.uint64(29)

ROWS = pa.schema([("series", pa.int64()), ("time_ms", pa.int64()), ("identity", pa.uint64()), ("value", pa.float64())])
NAMES = pa.schema([("series", pa.int64()), ("metric", pa.string()), ("source", pa.string())])


class Measured(NamedTuple):
    """Measurements as columns: `rows` has the number of each one's series, `names` what the numbers stand for."""

    rows: pa.Table
    names: pa.Table


def measured(judged: Judged) -> Measured:
    """Series and measurements get numbers of 64 bits: hashes that are the same in every process.

    Two measurements are the same if id, metric, source and time are.
    """
    metrics, sources = judged.metrics.dictionary_encode(), judged.sources.dictionary_encode()
    of_metrics, of_sources = (one.indices.to_numpy(zero_copy_only=False).astype(np.int64) for one in (metrics, sources))
    codes = of_metrics * len(sources.dictionary) + of_sources
    unique, positions = np.unique(codes, return_inverse=True)
    of_metric, of_source = np.divmod(unique, max(1, len(sources.dictionary)))
    series = _mixed(_hashes(metrics.dictionary)[of_metric], _hashes(sources.dictionary)[of_source])
    each = series[positions]
    identity = _mixed(_mixed(_hashes(judged.ids), each), judged.times_ms.view(np.uint64))
    rows = pa.table([each.view(np.int64), judged.times_ms, identity, judged.values], schema=ROWS)
    names = [
        series.view(np.int64),
        metrics.dictionary.take(pa.array(of_metric)),
        sources.dictionary.take(pa.array(of_source)),
    ]
    return Measured(rows, pa.table(names, schema=NAMES))


def pack(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_WRITE) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpack(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data, options=_READ).read_all()


def numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column without nulls as an array."""
    return column.to_numpy()  # type: ignore[no-any-return]


def _hashes(texts: pa.Array) -> NDArray[np.uint64]:
    """Hashes of texts, the same in every process: Python's own are not."""
    return pd.util.hash_array(texts.to_numpy(zero_copy_only=False), categorize=False)  # type: ignore[no-any-return]


def _mixed(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = (first ^ (second * _MIX)) * _MIX
    return mixed ^ (mixed >> _FOLD)
