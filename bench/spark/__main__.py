"""`python -m bench.spark`: the workloads on each side by turns, and the table of rows a second."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.machines import THIS, Machine, another_machine

from bench.memory import AT_HAND
from bench.processes import affinity
from bench.spark.backlog import largest_worker
from bench.spark.sides import Engine, EngineFailedError, Took, sides, started
from bench.workloads import UNFLUSHED
from qanat.app.bench import machine, report
from qanat.app.bench.figures import Limit, Required, Row, row
from qanat.app.bench.report import Result
from qanat.spark.session import require_java

FEWEST_ROUNDS = 5
QUICK_RECORDS = 1_000_000
"""With fewer, a run is mostly the third of a second that Spark takes for any job."""
_TWICE, _MOST, _MOST_ELSEWHERE, _WHOLE = 2.0, 0.6, 0.55, 1.5
"""What is wanted: so many times the connector, so much of the ceiling; and times the connector with the start."""
WORKLOADS = {"write": "write", "once": "write, exactly once", "read": "batch read", "stream": "stream read, running"}
_IN_TURN = {"write": ("write", "once"), "read": ("read",), "stream": ("stream",)}
"""Workloads of the same rounds. Only Qanat writes exactly once: that is compared with the nearest workload."""
QUICK_WORKLOADS = ("write", "read")
_ALIKE = {"once": "write"}


def main(arguments: Sequence[str]) -> int:
    given = parser().parse_args(arguments)
    if given.rounds < FEWEST_ROUNDS:
        print(f"bench.spark: {given.rounds} rounds are no comparison: take at least {FEWEST_ROUNDS}", file=sys.stderr)
        return 2
    if given.quick:
        given.records, given.backlog_gb = min(given.records, QUICK_RECORDS), 0.0
    try:
        result = measured(given)
    except EngineFailedError as fault:
        print(f"bench.spark: {fault}", file=sys.stderr)
        return 2
    report.print_table(result)
    for name, value in {**result.machine, **result.settings}.items():
        print(f"{name}: {value}")
    return 1 if given.check and result.missed else 0


def measured(given: argparse.Namespace) -> Result:
    """The workloads on each side; `given` comes from `parser`."""
    require_java()
    with another_machine() if given.elsewhere else nullcontext(THIS) as brokers_on:
        return _compare(given, brokers_on)


def _compare(given: argparse.Namespace, brokers_on: Machine) -> Result:
    chosen, notes = sides(given.skip_connector, brokers_on)
    if given.quick:
        left_out = ", ".join(what for name, what in WORKLOADS.items() if name not in QUICK_WORKLOADS)
        notes.append(f"A quick run leaves out: {left_out}.")
    rows: list[Row] = []
    with TemporaryDirectory(prefix="bench-spark-", dir=given.dir) as scratch:
        settings = {
            "records": f"{given.records:,} of {given.size} B in a topic of 4 partitions with {UNFLUSHED}",
            "rounds": f"{given.rounds}, after one that warms up; each run after one of a few rows",
            "order": f"in each round, one after the other: {', '.join(side.what for side in chosen)}",
            "free memory": AT_HAND,
            "processors": f"{', '.join(map(str, affinity()))} for brokers and Spark (local[2])",
            "brokers": "in a network namespace" if given.elsewhere else "on the machine of Spark's executors",
        }
        about = machine.describe(Path(scratch))

        def found_so_far() -> Result:
            result = Result(about, settings, rows, [], notes)
            if given.json is not None:
                given.json.write_text(report.as_json(result) + "\n")
            return result

        with ExitStack() as stack:
            engines = []
            for side in chosen:
                _show(f"starting {side.what}")
                place = Path(scratch) / side.name
                engines.append(stack.enter_context(started(side, given.records, given.size, place)))
            for engine in engines:
                versions = engine.versions()
                settings[f"versions of {engine.side.name}"] = f"Spark {versions['spark']}, Java {versions['java']}"
            taken: dict[str, dict[str, list[Took]]] = {}
            names = {side.name: side.what for side in chosen}
            for workloads in _IN_TURN.values():
                wanted = [one for one in workloads if one in QUICK_WORKLOADS or not given.quick]
                if not wanted:
                    continue
                taken |= _taking_turns(wanted, engines, given.rounds)
                for workload in wanted:
                    rows += _rows(workload, taken, given.records, names, brokers_on)
                    if workload == "stream":
                        rows += _start_rows(taken[workload], names) + _whole_rows(taken[workload], given.records, names)
                found_so_far()
        if given.backlog_gb > 0:
            _show(f"reading a backlog of {given.backlog_gb:g} GB")
            largest_mb = largest_worker(Path(scratch) / "backlog", given.backlog_gb)
            what = f"largest Python worker while {given.backlog_gb:g} GB of one partition are read"
            rows.append(row("backlog", what, "MB", [largest_mb]))
        return found_so_far()


def _taking_turns(workloads: Sequence[str], engines: Iterable[Engine], rounds: int) -> dict[str, dict[str, list[Took]]]:
    """By workload and side."""
    turns = [(one, engine) for engine in engines for one in workloads if one != "once" or engine.side.name == "qanat"]
    for workload, engine in turns:
        if workload == "read" and engine.side.server is not None:
            engine.run("fill", 0)
    taken: dict[str, dict[str, list[Took]]] = {one: {} for one in workloads}
    for number in range(rounds + 1):
        what = "; ".join(WORKLOADS[one] for one in workloads)
        _show(f"{what}: round {number}" if number else f"{what}: warming up")
        for workload, engine in turns:
            took = engine.run(workload, number)
            if number:
                taken[workload].setdefault(engine.side.name, []).append(took)
    return taken


def _rows(
    workload: str,
    taken: Mapping[str, Mapping[str, Sequence[Took]]],
    records: int,
    names: Mapping[str, str],
    brokers_on: Machine,
) -> list[Row]:
    """The rows compared with the connector, and with the upper bound."""
    ours = [records / one.work_s for one in taken[workload]["qanat"]]
    alike = _ALIKE.get(workload, workload)
    what = WORKLOADS[workload] + (f" (compared with: {WORKLOADS[alike]})" if alike != workload else "")
    rows = []
    for name, bound in (("kafka", _TWICE), ("ceiling", _MOST if brokers_on == THIS else _MOST_ELSEWHERE)):
        if name in taken[alike]:
            theirs = Limit([records / one.work_s for one in taken[alike][name]], names[name])
            rows.append(row(f"spark-{workload}", what, "rows/s", ours, theirs, Required("ratio", ">=", bound)))
    return rows


def _start_rows(taken: Mapping[str, Sequence[Took]], names: Mapping[str, str]) -> list[Row]:
    """How long a query takes to its first trigger: once in its life, so it is no part of its rate."""
    ours = [one.start_s for one in taken["qanat"]]
    return [
        row("spark-start", "start of a stream", "s", ours, Limit([one.start_s for one in taken[name]], names[name]))
        for name in ("kafka", "ceiling")
        if name in taken
    ]


def _whole_rows(taken: Mapping[str, Sequence[Took]], records: int, names: Mapping[str, str]) -> list[Row]:
    """A query with trigger(availableNow=True) from its start to its end."""
    if "kafka" not in taken:
        return []
    ours, theirs = ([records / (one.work_s + one.start_s) for one in taken[name]] for name in ("qanat", "kafka"))
    what = "stream read, start included"
    return [row("spark-whole", what, "rows/s", ours, Limit(theirs, names["kafka"]), Required("ratio", ">=", _WHOLE))]


def _show(text: str) -> None:
    print(f"measuring {text}", file=sys.stderr, flush=True)


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        "python -m bench.spark", description="Rows a second of format('qanat'), of Spark's connector, and at most."
    )
    found.add_argument("--records", type=int, default=10_000_000)
    found.add_argument("--size", type=int, default=100, help="bytes of a value")
    found.add_argument("--rounds", type=int, default=FEWEST_ROUNDS, help="at least 5")
    found.add_argument("--quick", action="store_true", help=f"{QUICK_RECORDS:,} records: writes and batch reads")
    found.add_argument(
        "--backlog-gb", type=float, default=0.0, help="how much a worker reads while its memory is measured (0: none)"
    )
    found.add_argument(
        "--dir", type=Path, help="folder for brokers' data; the system's for temporary files if not given"
    )
    found.add_argument("--elsewhere", action="store_true", help="brokers in a network namespace (Linux, root)")
    found.add_argument("--json", type=Path, help="also write the result into this file, after each workload")
    found.add_argument("--check", action="store_true", help="exit with 1 if a required ratio is not met")
    found.add_argument("--skip-connector", action="store_true")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
