"""Memory of idle open partitions, in a fresh process."""

from __future__ import annotations

from qanat.app.bench.figures import Limit, Required, Row, row
from qanat.app.bench.log_figures.child_process import ask
from qanat.app.bench.log_figures.plan import Bench
from qanat.app.bench.log_figures.prepared_directory import SEGMENTS, Prepared, prepare
from qanat.app.bench.workspace import emptied

_BYTES = 20_000.0


def measure(bench: Bench) -> list[Row]:
    count = bench.plan.idle_partitions
    rows: list[Row] = []
    for segments in (1, SEGMENTS):
        with emptied(bench.folder) as folder:
            bench.report_progress(f"memory: preparing {count:,} partitions of {segments} segments")
            prepared = prepare(folder, count, segments)
            resident = [_taken_kb(prepared, str(folder), "resident", count) for _ in range(bench.rounds)]
            traced = _taken_kb(prepared, str(folder), "traced", count)
            bare = [ask("names", str(folder))["resident_bytes"] / count / 1000 for _ in range(bench.rounds)]
        what = f"idle partition of {segments} segment{'s' if segments > 1 else ''}, over {count:,}"
        required = Required("ours", "<=", _BYTES / 1000)
        limit = Limit(bare, "bare names and sizes of its log files")
        rows.append(row("memory", f"{what}: resident", "KB", resident, limit, required))
        rows.append(row("memory", f"{what}: objects (tracemalloc)", "KB", [traced]))
    return rows


def _taken_kb(prepared: Prepared, path: str, how: str, count: int) -> float:
    prepared.restore()
    return ask("idle", path, how)[f"{how}_bytes"] / count / 1000
