"""`python -m bench`: compare Qanat with Apache Kafka on this machine."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.kafka_jars import JarsUnavailableError, have_jars
from tools.servers import KAFKA_JVM, Server, ServerFailedError, kafka, qanat

from bench import bare, page
from bench.clients import Client, DriverFailedError, make_client, python_client
from bench.embedded import embedded_start
from bench.memory import AT_HAND
from bench.processes import affinity, open_files_allowed
from bench.rounds import Rounds
from bench.workloads import GROWTHS, NAMES, QUICK_NAMES, START, WORKLOADS
from qanat.app.bench import machine, report
from qanat.app.bench.figures import Row
from qanat.app.bench.report import Result
from qanat.app.bench.workspace import BenchRefusedError, workspace

FEWEST_ROUNDS = 5
"""With fewer rounds, other load of the machine decides the medians."""
NEEDED_BYTES = 12 * 10**9
MINUTES, QUICK_MINUTES = 35.0, 4.0
"""No workload begins after this; on a quiet machine with two processors a run ends well before."""
EXIT_NOT_MET = 1
EXIT_REFUSED = 2


class Clock:
    """The time of this run, and the workloads that it had no time for."""

    def __init__(self, most_minutes: float) -> None:
        self.most = most_minutes
        self.left_out: list[str] = []
        self._began = time.monotonic()

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self._began) / 60

    def has_time_for(self, name: str) -> bool:
        if self.minutes < self.most:
            return True
        self.left_out.append(name)
        return False


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    try:
        result = run(asked)
    except (BenchRefusedError, DriverFailedError, ServerFailedError) as fault:
        print(f"bench: {fault}", file=sys.stderr)
        return EXIT_REFUSED
    report.print_table(result, page.HEADINGS)
    for name, value in {**result.machine, **result.settings}.items():
        print(f"{name}: {value}")
    if asked.json is not None:
        asked.json.write_text(report.as_json(result) + "\n")
    if asked.markdown is not None:
        asked.markdown.write_text(page.as_markdown(result))
    return EXIT_NOT_MET if asked.check and result.missed else 0


def run(asked: argparse.Namespace) -> Result:
    """Measure the chosen workloads."""
    if asked.rounds < FEWEST_ROUNDS:
        raise BenchRefusedError(f"{asked.rounds} rounds are no comparison: take at least {FEWEST_ROUNDS}")
    chosen = _chosen(asked.only, is_quick=asked.quick)
    if asked.cpus:
        os.sched_setaffinity(0, {int(number) for number in asked.cpus.split(",")})
    other, notes = _other(asked)
    is_judged, clock = not notes, Clock(asked.minutes or (QUICK_MINUTES if asked.quick else MINUTES))
    open_files_allowed()
    with workspace(asked.dir or Path.cwd(), NEEDED_BYTES) as folder:
        client = python_client() if asked.python_client else make_client(folder)
        rounds = Rounds(qanat(), other, asked.rounds, folder, _show, is_judged=is_judged, notes=notes)
        rows = _measured(rounds, client, chosen, notes, clock, is_quick=asked.quick)
        if START in chosen:
            with _going_on(notes):
                rows += rounds.starts(is_warm=bool(rows))
                rows.append(embedded_start(asked.rounds, is_judged=is_judged))
        if asked.quick and not asked.only:
            notes.append(f"A quick run leaves out {', '.join(name for name in NAMES if name not in chosen)}.")
        if not rows:
            raise BenchRefusedError("; ".join(["nothing could be measured", *notes]))
        settings = {**_settings(asked, client, other), "took": f"{clock.minutes:.1f} minutes"}
        return Result(machine.describe(folder), settings, rows, [], notes)


def _measured(
    rounds: Rounds, client: Client, chosen: Sequence[str], notes: list[str], clock: Clock, *, is_quick: bool
) -> list[Row]:
    """Rows of the chosen workloads; new servers for those that leave much data."""
    workloads = [one.quick() if is_quick else one for one in WORKLOADS if one.name in chosen]
    growths = [one.quick() if is_quick else one for one in GROWTHS if one.name in chosen]
    on_same_servers = [one for one in growths if not one.needs_new_servers]
    rows: list[Row] = []
    if workloads or on_same_servers:
        with _going_on(notes), rounds.both(client) as pair:
            for workload in workloads:
                if clock.has_time_for(workload.name):
                    rows += rounds.measure(workload, pair)
            for growth in on_same_servers:
                if clock.has_time_for(growth.name):
                    rows += rounds.measure_growth(growth, pair)
            rows += rounds.loaded_memory(pair)
    for growth in growths:
        if growth.needs_new_servers and clock.has_time_for(growth.name):
            with _going_on(notes), rounds.both(client) as pair:
                rows += rounds.measure_growth(growth, pair)
                rows += rounds.loaded_memory(pair, growth.name)
    if clock.left_out:
        notes.append(f"There was no time for {', '.join(clock.left_out)}: {clock.most:g} minutes were over.")
    return rows


@contextlib.contextmanager
def _going_on(notes: list[str]) -> Iterator[None]:
    """A server that fails costs only its own workloads."""
    try:
        yield
    except ServerFailedError as fault:
        notes.append(f"A part of this run is missing: {fault}")


def _other(asked: argparse.Namespace) -> tuple[Server, list[str]]:
    """The server that Qanat is compared with, and a note for readers where it is not Kafka."""
    try:
        if asked.without_kafka:
            raise JarsUnavailableError("--without-kafka")
        return kafka(have_jars()), []
    except JarsUnavailableError as reason:
        note = (
            f"Apache Kafka is not part of this run ({reason}): Qanat is compared with {bare.WHAT}, nothing is required."
        )
        return bare.server(), [note]


def _settings(asked: argparse.Namespace, client: Client, other: Server) -> dict[str, str]:
    return {
        "compared with": str(other),
        "client": client.what,
        "rounds": f"{asked.rounds}, after one that warms up",
        "run": "quick" if asked.quick else "full",
        "processors": f"{', '.join(map(str, affinity()))} for both servers and the client",
        "free memory": AT_HAND,
        "Java": " ".join(KAFKA_JVM),
        "topics": "1 partition unless said; flush.messages=9223372036854775807, with fsync 1; "
        "segment.bytes=1073741824; otherwise each side's defaults",
    }


def _chosen(only: str, *, is_quick: bool) -> list[str]:
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        raise BenchRefusedError(f"there is no workload {', '.join(unknown)}; choose among {', '.join(NAMES)}")
    return wanted or list(QUICK_NAMES if is_quick else NAMES)


def _show(text: str) -> None:
    print(f"measuring {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench", description="Compare Qanat with Apache Kafka.")
    parser.add_argument("--only", default="", help=f"some workloads, separated by commas: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="fewer messages, some workloads: at most five minutes")
    parser.add_argument(
        "--minutes", type=float, help=f"begin nothing after so many; {MINUTES:g}, {QUICK_MINUTES:g} if quick"
    )
    parser.add_argument("--rounds", type=int, default=FEWEST_ROUNDS, help="at least 5")
    parser.add_argument("--dir", type=Path, help="folder on the disk to measure (default: the current one)")
    parser.add_argument("--cpus", default="", help="processors for servers and client, such as 0,1")
    parser.add_argument("--json", type=Path, help="also write the result into this file, for programs")
    parser.add_argument("--markdown", type=Path, help="also write the result into this file, as a page")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a required ratio is not met")
    parser.add_argument(
        "--python-client", action="store_true", help="use confluent-kafka even where there is a C compiler"
    )
    parser.add_argument("--without-kafka", action="store_true", help="use the bare loop even where Kafka is available")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
