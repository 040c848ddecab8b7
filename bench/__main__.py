"""`python -m bench`: measure Qanat beside Apache Kafka on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.kafka_jars import JarsUnavailableError, have_jars

from bench import bare, page
from bench.clients import Client, DriverFailedError, make_client, python_client
from bench.embedded import embedded_start
from bench.memory import touch_free_memory
from bench.processes import affinity
from bench.rounds import Rounds
from bench.servers import KAFKA_JVM, Server, ServerFailedError, kafka, qanat
from bench.workloads import NAMES, START, WORKLOADS, Workload
from qanat.app.bench import machine, report
from qanat.app.bench.figures import Row
from qanat.app.bench.report import Result
from qanat.app.bench.workspace import BenchRefusedError, workspace

FEWEST_ROUNDS = 5
"""The machine does other things too: fewer medians than that are no comparison."""
NEEDED_BYTES = 12 * 10**9
EXIT_NOT_MET = 1
EXIT_REFUSED = 2


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
    """Measure what was asked for."""
    if asked.rounds < FEWEST_ROUNDS:
        raise BenchRefusedError(f"{asked.rounds} rounds are no comparison: take at least {FEWEST_ROUNDS}")
    chosen = _chosen(asked.only)
    if asked.cpus:
        os.sched_setaffinity(0, {int(number) for number in asked.cpus.split(",")})
    other, notes = _other(asked)
    with workspace(asked.dir or Path.cwd(), NEEDED_BYTES) as folder:
        client = python_client() if asked.python_client else make_client(folder)
        workloads = [one.quick() if asked.quick else one for one in WORKLOADS if one.name in chosen]
        if workloads and not asked.fresh_memory:
            touch_free_memory(_tell)
        rounds = Rounds(qanat(), other, asked.rounds, folder, _tell, is_judged=not notes)
        rows = _measured(rounds, client, workloads)
        if START in chosen:
            rows += rounds.starts()
            rows.append(embedded_start(asked.rounds, is_judged=not notes))
        return Result(machine.describe(folder), _settings(asked, client, other), rows, [], notes)


def _measured(rounds: Rounds, client: Client, workloads: Sequence[Workload]) -> list[Row]:
    rows: list[Row] = []
    if workloads:
        with rounds.both(client) as pair:
            for workload in workloads:
                rows += rounds.measure(workload, pair)
            rows += rounds.loaded_memory(pair)
    return rows


def _other(asked: argparse.Namespace) -> tuple[Server, list[str]]:
    """What stands beside Qanat, and what a reader must know where that is not Kafka."""
    try:
        if asked.without_kafka:
            raise JarsUnavailableError("it was not wanted")
        return kafka(have_jars()), []
    except JarsUnavailableError as reason:
        note = f"Apache Kafka is not part of this run ({reason}): beside Qanat stands {bare.WHAT}, nothing is required."
        return bare.server(), [note]


def _settings(asked: argparse.Namespace, client: Client, other: Server) -> dict[str, str]:
    return {
        "beside": str(other),
        "client": client.what,
        "rounds": f"{asked.rounds}, after one that warms up",
        "run": "quick" if asked.quick else "full",
        "processors": f"{', '.join(map(str, affinity()))} for both servers and the client",
        "Java": " ".join(KAFKA_JVM),
        "topics": "1 partition; flush.messages=9223372036854775807, with fsync 1; otherwise each side's defaults",
    }


def _chosen(only: str) -> list[str]:
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        raise BenchRefusedError(f"there is no workload {', '.join(unknown)}; choose among {', '.join(NAMES)}")
    return wanted or list(NAMES)


def _tell(text: str) -> None:
    print(f"measuring {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench", description="Measure Qanat beside Apache Kafka.")
    parser.add_argument("--only", default="", help=f"some workloads, separated by commas: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="measure less: at most five minutes")
    parser.add_argument("--rounds", type=int, default=FEWEST_ROUNDS, help="at least 5")
    parser.add_argument("--dir", type=Path, help="folder on the disk to be measured; the current one if not given")
    parser.add_argument("--cpus", default="", help="processors for servers and client, such as 0,1")
    parser.add_argument("--json", type=Path, help="also write the result into this file, for programs")
    parser.add_argument("--markdown", type=Path, help="also write the result into this file, as a page")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a required ratio is not met")
    parser.add_argument("--python-client", action="store_true", help="use confluent-kafka even where C can be compiled")
    parser.add_argument("--without-kafka", action="store_true", help="use the bare loop even where Kafka can be had")
    parser.add_argument("--fresh-memory", action="store_true", help="do not use free memory once before measuring")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
