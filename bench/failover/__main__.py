"""`python -m bench.failover`: figures of failover and of many partitions, on three real brokers."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.kafka_jars import VERSION, JarsUnavailableError, have_jars

from bench.failover import rows
from bench.failover.losses import measure, of_kafka
from bench.failover.partitions import Cost, measure_cost, measure_restart
from bench.processes import affinity
from qanat.app.bench import machine, report
from qanat.app.bench.figures import Row
from qanat.app.bench.report import Result

PARTS = ("kill", "stop", "restart", "growth")
FEWEST_TRIES = 5
KAFKA = f"Apache Kafka {VERSION}"
SETTINGS = {
    "brokers": "three on each side, each a process; Qanat's metadata in SQLite, Kafka's with its brokers (KRaft)",
    "topic": "1 partition, 3 replicas, min.insync.replicas=2; otherwise each side's defaults: Qanat syncs before it "
    "acknowledges, Kafka does not",
    "writer": "librdkafka with enable.idempotence and its default timeouts, one message every 2 ms",
}


class _Findings:
    """The results so far, written again after each part, so that an interrupted run leaves them."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.rows: list[Row] = []
        self.notes: list[str] = []
        self.gaps_s: dict[str, Sequence[float]] = {}

    def add(self, found: Sequence[Row]) -> None:
        self.rows += found
        if self._file is not None:
            result = json.loads(report.as_json(self.result()))
            text = json.dumps({**result, "series": {"gaps_s": self.gaps_s}}, indent=2, ensure_ascii=False)
            self._file.write_text(text + "\n")

    def result(self) -> Result:
        settings = {**SETTINGS, "processors": f"{', '.join(map(str, affinity()))} for all brokers and the writer"}
        return Result(machine.describe(Path(tempfile.gettempdir())), settings, self.rows, [], self.notes)


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    only = set(options.only.split(",")) if options.only else set(PARTS)
    if unknown := only - set(PARTS):
        print(f"bench.failover: --only knows {', '.join(PARTS)}, not {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    if options.tries < FEWEST_TRIES:
        print(f"bench.failover: {options.tries} tries show little: take at least {FEWEST_TRIES}", file=sys.stderr)
        return 2
    findings = _Findings(options.json)
    if "kill" in only:
        _measure_kills(findings, options)
    if "stop" in only:
        findings.add(rows.of_stops(measure(options.stops, _show, is_killed=False)))
    if "restart" in only:
        findings.add(rows.of_restart(measure_restart(options.partitions, _show)))
    if "growth" in only:
        for count in options.growth:
            cost: Cost = measure_cost(count, _show)
            findings.add(rows.of_costs([cost]))
    result = findings.result()
    report.print_table(result)
    return 1 if options.check and result.missed else 0


def _measure_kills(findings: _Findings, options: argparse.Namespace) -> None:
    ours = measure(options.tries, _show, is_killed=True)
    findings.gaps_s["Qanat"] = ours.gaps_s
    findings.add(rows.of_kills(ours))
    if options.kafka_tries:
        try:
            cluster = of_kafka(have_jars())
        except JarsUnavailableError as reason:
            findings.notes.append(f"Apache Kafka is not part of this run: {reason}.")
            return
        theirs = measure(options.kafka_tries, _show, is_killed=True, cluster=cluster, name=KAFKA)
        findings.gaps_s[KAFKA] = theirs.gaps_s
        findings.add([rows.of_kills_compared(ours, theirs, KAFKA)])


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__)
    parser.add_argument("--tries", type=int, default=50, help="how often the leader is killed (50; at least 5)")
    parser.add_argument("--kafka-tries", type=int, default=5, help="how often Kafka's is; 0 leaves Kafka out (5)")
    parser.add_argument("--stops", type=int, default=10, help="how often it is shut down cleanly (10)")
    parser.add_argument(
        "--partitions", type=int, default=1000, help="partitions of the broker that is restarted (1000)"
    )
    parser.add_argument(
        "--growth", type=_counts, default=[10, 100, 1000, 5000], help="partitions to compare (10,100,1000,5000)"
    )
    parser.add_argument("--only", help=f"some of {','.join(PARTS)}")
    parser.add_argument(
        "--quick", action="store_true", help="five tries, two of Kafka, two stops, and 10 to 100 partitions"
    )
    parser.add_argument("--json", type=Path, help="write the figures for programs, after each part")
    parser.add_argument("--check", action="store_true", help="exit code 1 where a requirement is missed")
    options = parser.parse_args(arguments)
    if options.quick:
        options.tries, options.kafka_tries, options.stops = FEWEST_TRIES, min(options.kafka_tries, 2), 2
        options.partitions, options.growth = 100, [10, 100]
    return options


def _counts(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def _show(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
