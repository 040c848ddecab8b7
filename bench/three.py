"""`python -m bench.three`: three brokers, every record on all of them, compared with three brokers of Apache Kafka.

The same client, workloads and rounds as `python -m bench`; topics have three replicas, of which two must have a
record before it is acknowledged. How much the replicas cost shows in the rows of one replica, on the same brokers.
`bench.report` puts the figures into docs/performance/report.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tools.kafka_jars import JarsUnavailableError, have_jars
from tools.servers import KAFKA_JVM, ServerFailedError

from bench.clients import DriverFailedError, make_client
from bench.clusters import BROKERS, KafkaCluster, QanatCluster
from bench.memory import AT_HAND
from bench.page import HEADINGS
from bench.processes import affinity
from bench.rounds import Rounds
from bench.workloads import FLUSHED, KIB, UNFLUSHED, Workload, produce, single, sync
from qanat.app.bench import machine, report
from qanat.app.bench.figures import Row
from qanat.app.bench.report import Result
from qanat.app.bench.workspace import BenchRefusedError, workspace

FEWEST_ROUNDS = 5
NEEDED_BYTES = 20 * 10**9
REPLICATED = {"replication.factor": str(BROKERS), "min.insync.replicas": "2"}


def _workloads(flushing: Mapping[str, str], prefix: str, after: str) -> Sequence[Workload]:
    """Acknowledged by all in-sync replicas, then the same with one replica; nothing is required of the latter."""
    topic = {**flushing, **REPLICATED}
    replicated = [
        produce(f"{prefix}100", f"produce 100 B in batches{after}", 100, 500_000, 1.0, topic, goal=1.3),
        produce(f"{prefix}1k", f"produce 1 KB in batches{after}", KIB, 150_000, 1.0, topic, goal=1.3),
        single(f"{prefix}single", f"single-record requests, pipelined{after}", 10_000, 2.0, topic),
        sync(f"{prefix}sync", f"synchronous produce{after}", 3_000, None, None, topic, goals=(1.0, 1.0)),
    ]
    alone = [
        replace(
            one,
            name=f"{one.name}-rf1",
            what=f"{one.what}, one replica",
            topic=dict(flushing),
            figures=tuple(replace(figure, required=None, goal=None) for figure in one.figures),
        )
        for one in replicated[:2]
    ]
    return [*replicated, *alone]


WORKLOADS = (*_workloads(UNFLUSHED, "", ""), *_workloads(FLUSHED, "fsync-", ", fsync"))


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    try:
        result = _run(asked)
    except (BenchRefusedError, DriverFailedError, ServerFailedError, JarsUnavailableError) as fault:
        print(f"bench.three: {fault}", file=sys.stderr)
        return 2
    report.print_table(result, HEADINGS)
    for name, value in {**result.machine, **result.settings}.items():
        print(f"{name}: {value}")
    return 1 if asked.check and result.missed else 0


def _run(asked: argparse.Namespace) -> Result:
    if asked.rounds < FEWEST_ROUNDS:
        raise BenchRefusedError(f"{asked.rounds} rounds are no comparison: take at least {FEWEST_ROUNDS}")
    known = {one.name for one in WORKLOADS}
    wanted = [name.strip() for name in asked.only.split(",") if name.strip()] or sorted(known)
    if unknown := [name for name in wanted if name not in known]:
        raise BenchRefusedError(f"there is no workload {', '.join(unknown)}; choose among {', '.join(sorted(known))}")
    kafka = KafkaCluster(have_jars())
    with workspace(asked.dir or Path.cwd(), NEEDED_BYTES) as folder:
        client = make_client(folder)
        notes: list[str] = []
        rounds = Rounds(QanatCluster(), kafka, asked.rounds, folder, _show, is_judged=True, notes=notes)
        settings = {
            "compared with": str(kafka),
            "client": client.what,
            "rounds": f"{asked.rounds}, after one that warms up",
            "processors": f"{', '.join(map(str, affinity()))} for all six brokers and the client",
            "free memory": AT_HAND,
            "Java": " ".join(KAFKA_JVM),
            "topics": f"1 partition, {REPLICATED}; acks=all; otherwise each side's defaults",
        }
        rows: list[Row] = []
        result = Result(machine.describe(folder), settings, rows, [], notes)
        with rounds.both(client) as pair:
            for workload in WORKLOADS:
                if workload.name in wanted:
                    rows += rounds.measure(workload.quick() if asked.quick else workload, pair)
                    _keep(result, asked.json)
            rows += rounds.loaded_memory(pair)
        _keep(result, asked.json)
        return result


def _keep(result: Result, file: Path | None) -> None:
    """Write the result again after each workload, so that an interrupted run leaves it."""
    if file is not None:
        file.write_text(report.as_json(result) + "\n")


def _show(text: str) -> None:
    print(f"measuring {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.three", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="some workloads, separated by commas")
    parser.add_argument("--quick", action="store_true", help="a third of the messages")
    parser.add_argument("--rounds", type=int, default=FEWEST_ROUNDS, help=f"at least {FEWEST_ROUNDS}")
    parser.add_argument("--dir", type=Path, help="folder on the disk to measure (default: the current one)")
    parser.add_argument("--json", type=Path, help="also write the result into this file, after each workload")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a required ratio is not met")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
