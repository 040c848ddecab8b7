"""The stateful step of one shard: drops duplicates, fills windows, closes those that are over.

Time is the event time up to which windows are over: `delay_ms` behind the newest measurement of the partition that is
furthest behind. Only partitions of this micro-batch count: one without records has been read to its end, and its next
records are as new as their timestamps in the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from qanat.spark.rollups.chunks import NAMES, ROWS, Measured, numbers
from qanat.spark.rollups.quantiles import rounded
from qanat.spark.rollups.windows import Windows, merged, windows_of

MINUTE_MS = 60_000
SIZES_MS = {"1m": MINUTE_MS, "5m": 5 * MINUTE_MS, "1h": 60 * MINUTE_MS}
"""Each is a multiple of the one before, and rolled up from it."""
_NEVER = -(2**62)
_INDEX = "index"


class Store(Protocol):
    """The state of a shard: bytes by key, committed with the micro-batch."""

    def get(self, key: str) -> bytes | None: ...
    def put(self, key: str, value: bytes) -> None: ...
    def remove(self, key: str) -> None: ...


class Parcel(NamedTuple):
    """What one task sends: measurements, and how far its partition has been read."""

    at: str | None = None
    newest_ms: int | None = None
    measured: Measured | None = None


class _Index(msgspec.Struct):
    """What the state holds, so that nothing is looked up in vain."""

    over_ms: int = _NEVER
    starts: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """Starts of stored windows, by size."""


@dataclass(slots=True)
class StepResult:
    """What a micro-batch adds: the rollups of closed windows, and how many measurements were dropped."""

    rollups: list[pa.Table] = field(default_factory=list)
    over_ms: int = _NEVER
    duplicates: int = 0
    late: int = 0
    """Measurements of windows that were closed before."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The settings of the step; `error` is the relative error of quantiles, 0 for exact ones."""

    delay_ms: int
    error: float

    def step(self, store: Store, parcels: Iterable[Parcel]) -> StepResult:
        """Take the parcels of one micro-batch."""
        found = store.get(_INDEX)
        index = _Index() if found is None else msgspec.msgpack.decode(found, type=_Index)
        parts, newest_ms = _gathered(parcels)
        before_ms = index.over_ms
        if newest_ms:
            index.over_ms = max(before_ms, min(newest_ms.values()) - self.delay_ms)
        result = StepResult(over_ms=index.over_ms)
        level = self._fresh(store, index, parts, before_ms, result)
        for label, size_ms in SIZES_MS.items():
            level = _closed(store, index, label, level.rolled_up(size_ms) if size_ms > MINUTE_MS else level)
            if level.stats.num_rows:
                result.rollups.append(level.rollups(label, size_ms))
        store.put(_INDEX, msgspec.msgpack.encode(index))
        return result

    def _fresh(self, store: Store, index: _Index, parts: list[Measured], before_ms: int, result: StepResult) -> Windows:
        """The minutes of measurements that are neither late nor known."""
        rows = pa.concat_tables([ROWS.empty_table(), *(part.rows for part in parts)])
        names = pa.concat_tables([NAMES.empty_table(), *(part.names for part in parts)])
        times: NDArray[np.int64] = numbers(rows.column("time_ms"))
        identities: NDArray[np.uint64] = numbers(rows.column("identity"))
        starts = times - times % MINUTE_MS
        on_time = np.flatnonzero(starts > before_ms - MINUTE_MS)
        result.late = len(times) - len(on_time)
        unique, first = np.unique(identities[on_time], return_index=True)
        chosen = on_time[first]
        ids = _Ids(store, index, np.unique(starts[chosen]))
        is_new = ~ids.contain(unique)
        chosen, unique = chosen[is_new], unique[is_new]
        result.duplicates = len(on_time) - len(chosen)
        ids.add(unique, starts[chosen])
        order = np.argsort(chosen)
        fresh = rows.take(pa.array(chosen[order]))
        values: NDArray[np.float64] = numbers(fresh.column("value"))
        fresh = fresh.append_column("start", pa.array(starts[chosen][order], pa.int64()))
        return windows_of(fresh, rounded(values, self.error) if self.error else values, names)


class _Ids:
    """The ids of measurements in minutes that are open: eight bytes each, sorted, dropped when the minute closes."""

    def __init__(self, store: Store, index: _Index, touched: NDArray[np.int64]) -> None:
        self._store = store
        self._index = index
        known = set(index.starts.get("ids", []))
        self._of = {start: _read(store, f"ids/{start}") for start in touched.tolist() if start in known}

    def contain(self, unique: NDArray[np.uint64]) -> NDArray[np.bool_]:
        if not self._of or not len(unique):
            return np.zeros(len(unique), bool)
        every = np.sort(np.concatenate(list(self._of.values())), kind="stable")
        places = np.searchsorted(every, unique)
        return every[np.minimum(places, len(every) - 1)] == unique  # type: ignore[no-any-return]

    def add(self, unique: NDArray[np.uint64], starts: NDArray[np.int64]) -> None:
        """Store the ids of minutes that stay open, and drop those of the others."""
        over_ms = self._index.over_ms
        kept = {start for start in self._index.starts.get("ids", []) if start + MINUTE_MS > over_ms}
        for start in set(self._index.starts.get("ids", [])) - kept:
            self._store.remove(f"ids/{start}")
        order = np.argsort(starts, kind="stable")
        edges = np.flatnonzero(np.diff(starts[order])) + 1
        for some in np.split(order, edges) if len(order) else []:
            start = int(starts[some[0]])
            if start + MINUTE_MS > over_ms:
                before = self._of.get(start, np.empty(0, np.uint64))
                self._store.put(
                    f"ids/{start}", np.sort(np.concatenate([before, unique[some]]), kind="stable").tobytes()
                )
                kept.add(start)
        self._index.starts["ids"] = sorted(kept)


def _read(store: Store, key: str) -> NDArray[np.uint64]:
    return np.frombuffer(store.get(key) or b"", np.uint64)


def _gathered(parcels: Iterable[Parcel]) -> tuple[list[Measured], dict[str, int]]:
    parts: list[Measured] = []
    newest_ms: dict[str, int] = {}
    for parcel in parcels:
        if parcel.measured is not None:
            parts.append(parcel.measured)
        if parcel.at is not None and parcel.newest_ms is not None:
            newest_ms[parcel.at] = max(parcel.newest_ms, newest_ms.get(parcel.at, parcel.newest_ms))
    return parts, newest_ms


def _closed(store: Store, index: _Index, label: str, added: Windows) -> Windows:
    """Windows that are over, taken out of the state; the added ones that are not over are put into it."""
    size_ms = SIZES_MS[label]
    stored = index.starts.get(label, [])
    touched = set(added.starts)
    wanted = [start for start in stored if start in touched or start + size_ms <= index.over_ms]
    found = [Windows.decode(store.get(f"{label}/{start}") or b"") for start in wanted]
    over, still = merged([Windows.empty(), added, *found]).parted(index.over_ms, size_ms)
    kept = {start for start in stored if start + size_ms > index.over_ms}
    for start in wanted:
        if start not in kept:
            store.remove(f"{label}/{start}")
    for start, one in still.each():
        store.put(f"{label}/{start}", one.encode())
        kept.add(start)
    index.starts[label] = sorted(kept)
    return over
