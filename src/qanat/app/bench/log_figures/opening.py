"""Opening a data directory of many partitions, after a clean shutdown and after a crash, in a fresh process."""

from __future__ import annotations

from qanat.app.bench.figures import Limit, Required, Row, row
from qanat.app.bench.log_figures.child_process import ask
from qanat.app.bench.log_figures.plan import Bench
from qanat.app.bench.log_figures.prepared_directory import SEGMENTS, prepare
from qanat.app.bench.workspace import emptied

_SECONDS = 3.0


def measure(bench: Bench) -> list[Row]:
    clean: list[float] = []
    crashed: list[float] = []
    listed: list[float] = []
    with emptied(bench.folder) as folder:
        bench.report_progress(f"open: preparing {bench.plan.partitions:,} partitions")
        prepared = prepare(folder, bench.plan.partitions, SEGMENTS)
        for number in range(bench.rounds):
            bench.report_progress(f"open: round {number + 1}")
            prepared.restore()
            clean.append(ask("open", str(folder), "clean")["seconds"])
            # That process died without closing, so this one has to recover.
            crashed.append(ask("open", str(folder), "unclean")["seconds"])
            listed.append(ask("stat", str(folder))["seconds"])
    what = f"open {bench.plan.partitions:,} partitions of {SEGMENTS} segments"
    limit = Limit(listed, "bare stat of every log file")
    return [
        row("open", f"{what}, stopped cleanly", "s", clean, limit, Required("ours", "<=", _SECONDS)),
        row("open", f"{what}, stopped uncleanly", "s", crashed, limit),
    ]
