"""Measurements that need a fresh process: opening, memory, the interpreted core.

`python -m qanat.app.bench.log_figures.child_main ACT ...` prints one JSON object. `child_process.ask` starts it.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

Answer = dict[str, float]


def open_partitions(path: str, after: str) -> Answer:
    """Open a data directory after a clean or an unclean shutdown; then end without closing it."""
    from qanat.app.bench.log_figures.prepared_directory import SMALL_SEGMENTS
    from qanat.app.node.compose import open_log_directory

    start = time.perf_counter()
    directory = open_log_directory(path, topic_settings=lambda topic: SMALL_SEGMENTS)
    answer = {"seconds": time.perf_counter() - start, "partitions": len(directory.logs)}
    assert not directory.offline, f"offline: {directory.offline}"
    assert directory.was_clean == (after == "clean"), "a crash leaves no marker, a close does"
    return answer


def stat_files(path: str) -> Answer:
    """The least that opening could do: stat every log file once."""
    start = time.perf_counter()
    count = 0
    for folder in os.scandir(path):
        if folder.is_dir():
            for entry in os.scandir(folder):
                if entry.name.endswith(".log"):
                    count += entry.stat().st_size > 0
    return {"seconds": time.perf_counter() - start, "files": count}


def idle(path: str, how: str = "resident") -> Answer:
    """Memory of the open partitions of a directory: resident bytes, or bytes of Python objects."""
    from qanat.app.bench.log_figures.prepared_directory import SMALL_SEGMENTS
    from qanat.app.node.compose import open_log_directory

    if how == "traced":
        import tracemalloc

        tracemalloc.start()
    # Imports and first allocations happen before the measurement.
    open_log_directory(f"{path}/warm-up", topic_settings=lambda topic: SMALL_SEGMENTS).close()
    gc.collect()
    before = _taken_bytes(how)
    directory = open_log_directory(path, topic_settings=lambda topic: SMALL_SEGMENTS)
    gc.collect()
    return {f"{how}_bytes": float(_taken_bytes(how) - before), "partitions": len(directory.logs)}


def names(path: str) -> Answer:
    """The least memory for the partitions of a directory: the names and sizes of their log files."""
    gc.collect()
    before = _taken_bytes("resident")
    kept = {
        folder.name: [(entry.name, entry.stat().st_size) for entry in os.scandir(folder) if entry.name.endswith(".log")]
        for folder in os.scandir(path)
        if folder.is_dir()
    }
    gc.collect()
    # A directory of few partitions may fit into pages that were allocated before.
    taken = max(_taken_bytes("resident") - before, os.sysconf("SC_PAGE_SIZE"))
    return {"resident_bytes": float(taken), "partitions": len(kept)}


def _taken_bytes(how: str) -> int:
    if how == "traced":
        import tracemalloc

        return tracemalloc.get_traced_memory()[0]
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class _SourceFinder:
    """Finds the sources of modules even if compiled ones lie beside them."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        source = Path(__file__).parents[3].joinpath(*name.split(".")[1:]).with_suffix(".py")
        is_native = name.startswith("qanat.") and source.with_suffix(".pxd").exists()
        return spec_from_file_location(name, source) if is_native else None


def interpreted_columns(records: str) -> Answer:
    """Records per second of the interpreted core."""
    sys.meta_path.insert(0, _SourceFinder)
    from qanat.app.bench.log_figures.batches import keyed_batches
    from qanat.app.bench.log_figures.columns import column_form, decode_seconds, encode_seconds

    assert column_form() == "interpreted", "the interpreted form was asked for"
    batches = keyed_batches(int(records))
    return {
        "decoded": int(records) / decode_seconds(batches, len(batches)),
        "encoded": int(records) / encode_seconds(batches),
    }


ACTS: dict[str, Callable[..., Answer]] = {
    "open": open_partitions,
    "stat": stat_files,
    "idle": idle,
    "names": names,
    "columns": interpreted_columns,
}

if __name__ == "__main__":
    try:
        print(json.dumps(ACTS[sys.argv[1]](*sys.argv[2:])), flush=True)
    except KeyboardInterrupt:
        sys.exit(130)
    # Nothing is closed: closing would write.
    os._exit(0)
