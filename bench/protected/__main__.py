"""`python -m bench.protected`: protected brokers compared with Apache Kafka under the same protection."""

from __future__ import annotations

import argparse
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.kafka_jars import JarsUnavailableError, have_jars
from tools.servers import KAFKA_JVM, ServerFailedError

from bench.clients import DriverFailedError, make_client
from bench.memory import AT_HAND
from bench.page import HEADINGS
from bench.processes import affinity, open_files_allowed
from bench.protected import guesses, rules
from bench.protected.servers import Secrets, kafka, qanat
from bench.protected.workloads import QUICK, WORKLOADS, on_one_topic
from bench.rounds import Pair, Rounds
from qanat.app.bench import machine, report
from qanat.app.bench.figures import Row
from qanat.app.bench.report import Result
from qanat.app.bench.workspace import BenchRefusedError, workspace

FEWEST_ROUNDS = 5
NEEDED_BYTES = 6 * 10**9
MINUTES, QUICK_MINUTES = 5.5, 0.75
"""No workload begins after this."""
RULES, GUESSES = "rules", "guesses"
NAMES = (*(one.name for one in WORKLOADS), RULES, GUESSES)


class Run:
    """One run: what it measures in the time that it has."""

    def __init__(self, asked: argparse.Namespace, folder: Path, chosen: Sequence[str]) -> None:
        self._asked = asked
        self._folder = folder
        self._chosen = chosen
        self._client = make_client(folder)
        self._kept = Secrets(folder)
        self._ends = time.monotonic() + (asked.minutes or (QUICK_MINUTES if asked.quick else MINUTES)) * 60
        self._notes: list[str] = []
        self._settings: dict[str, str] = {}
        self._rows: list[Row] = []

    def result(self) -> Result:
        for rows in self._measured():
            self._rows += rows
            self._keep()  # After each workload: an interrupted run leaves it.
        return self._keep()

    def _keep(self) -> Result:
        found = self._found()
        if self._asked.json is not None:
            self._asked.json.write_text(report.as_json(found) + "\n")
        return found

    def _found(self) -> Result:
        settings = {
            "client": self._client.what,
            "rounds": f"{self._asked.rounds}, after one that warms up",
            "processors": f"{', '.join(map(str, affinity()))} for both servers and the client",
            "free memory": AT_HAND,
            "Java": " ".join(KAFKA_JVM),
            "security": "SASL_SSL with PLAIN, StandardAuthorizer; the same certificate and rules on both sides",
            "topics": "1 partition; without fsync; otherwise each side's defaults",
            **self._settings,
        }
        return Result(machine.describe(self._folder), settings, self._rows, [], self._notes)

    def _measured(self) -> Iterator[list[Row]]:
        """Kafka takes longest: last, or first where time is so short that it would have none."""
        parts = [self._guesses, self._rules, self._beside_kafka]
        for part in reversed(parts) if self._asked.quick else parts:
            yield from part()

    def _guesses(self) -> Iterator[list[Row]]:
        if self._has_time_for(GUESSES):
            asked = self._asked
            yield guesses.measure(self._kept, self._client, asked.rounds, self._folder, _show, is_quick=asked.quick)

    def _rules(self) -> Iterator[list[Row]]:
        if self._has_time_for(RULES):
            asked = self._asked
            yield from rules.measure(self._kept, self._client, asked.rounds, self._folder, _show, is_quick=asked.quick)

    def _beside_kafka(self) -> Iterator[list[Row]]:
        if not any(one.name in self._chosen for one in WORKLOADS):
            return
        try:
            other = kafka(have_jars(), self._kept)
        except JarsUnavailableError as reason:
            self._notes.append(f"Apache Kafka is not part of this run: {reason}")
            return
        self._settings["compared with"] = str(other)
        sides = Rounds(
            qanat(self._kept), other, self._asked.rounds, self._folder, _show, is_judged=True, notes=self._notes
        )
        with sides.both(self._client.protected(self._kept.client())) as pair:
            self._settings["TLS"] = self._agreed(pair)
            for workload in WORKLOADS:
                if self._has_time_for(workload.name):
                    yield sides.measure(on_one_topic(workload.quick()) if self._asked.quick else workload, pair)

    def _agreed(self, pair: Pair) -> str:
        """The version and the cipher that each side chooses."""
        found = []
        for name, running in (("Qanat", pair.ours), ("Apache Kafka", pair.other)):
            host, _, port = running.address.rpartition(":")
            with (
                socket.create_connection((host, int(port))) as plain,
                self._kept.context().wrap_socket(plain, server_hostname=host) as protected,
            ):
                cipher = protected.cipher()
                found.append(f"{name}: {protected.version()}, {cipher[0] if cipher else 'unknown'}")
        return "; ".join(found)

    def _has_time_for(self, name: str) -> bool:
        if name not in self._chosen:
            return False
        if time.monotonic() < self._ends:
            return True
        self._notes.append(f"There was no time for {name}.")
        return False


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    try:
        chosen = _chosen(asked)
        open_files_allowed()
        with workspace(asked.dir or Path.cwd(), NEEDED_BYTES) as folder:
            result = Run(asked, folder, chosen).result()
    except (BenchRefusedError, DriverFailedError, ServerFailedError) as fault:
        print(f"bench.protected: {fault}", file=sys.stderr)
        return 2
    report.print_table(result, HEADINGS)
    for name, value in {**result.machine, **result.settings}.items():
        print(f"{name}: {value}")
    return 1 if asked.check and result.missed else 0


def _chosen(asked: argparse.Namespace) -> list[str]:
    if asked.rounds < FEWEST_ROUNDS:
        raise BenchRefusedError(f"{asked.rounds} rounds are no comparison: take at least {FEWEST_ROUNDS}")
    wanted = [name.strip() for name in asked.only.split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in NAMES]:
        raise BenchRefusedError(f"there is no workload {', '.join(unknown)}; choose among {', '.join(NAMES)}")
    return wanted or ([*QUICK, RULES, GUESSES] if asked.quick else list(NAMES))


def _show(text: str) -> None:
    print(f"measuring {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.protected", description="Compare protected brokers with Kafka.")
    parser.add_argument("--only", default="", help=f"some workloads, separated by commas: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="fewer messages, some workloads: a minute")
    parser.add_argument(
        "--minutes", type=float, help=f"begin nothing after so many; {MINUTES:g}, {QUICK_MINUTES:g} if quick"
    )
    parser.add_argument("--rounds", type=int, default=FEWEST_ROUNDS, help=f"at least {FEWEST_ROUNDS}")
    parser.add_argument("--dir", type=Path, help="folder on the disk to measure (default: the current one)")
    parser.add_argument("--json", type=Path, help="also write the result into this file, after each workload")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a required ratio is not met")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
