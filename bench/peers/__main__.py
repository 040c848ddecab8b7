"""`python -m bench.peers`: compare Qanat with systems that do not speak Kafka, on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tools.servers import ServerFailedError

from bench.clients import DriverFailedError
from bench.peers import page, report
from bench.peers.report import Result, Table
from bench.peers.rounds import Rounds
from bench.peers.systems import KEYS, QANAT, Present, found
from bench.peers.workloads import NAMES, START, WORKLOADS, durable
from bench.processes import affinity
from bench.workloads import Workload
from qanat.app.bench import machine
from qanat.app.bench.workspace import BenchRefusedError, workspace

FEWEST_ROUNDS = 5
"""With fewer rounds, other load of the machine decides the medians."""
NEEDED_BYTES = 4 * 10**9
QUICK_SECONDS = 280.0
"""Five minutes without the time to stop servers."""
QUICK_SHARE = 0.25
FIRST_SHARE, SECOND_SHARE = 0.55, 0.85
"""The ends of the first and second table of a quick run, so that a slow machine measures some of each."""
EXIT_REFUSED = 2


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    try:
        result = run(asked)
    except (BenchRefusedError, DriverFailedError, ServerFailedError) as fault:
        print(f"bench.peers: {fault}", file=sys.stderr)
        return EXIT_REFUSED
    page.print_result(result)
    if asked.markdown is not None:
        asked.markdown.write_text(page.as_markdown(result))
    return 0


def run(asked: argparse.Namespace) -> Result:
    """Measure the chosen workloads."""
    if asked.rounds < FEWEST_ROUNDS:
        raise BenchRefusedError(f"{asked.rounds} rounds are no comparison: take at least {FEWEST_ROUNDS}")
    chosen = _chosen("workload", asked.only, NAMES)
    wanted = [KEYS[name] for name in _chosen("system", asked.systems, tuple(KEYS))]
    if asked.cpus:
        os.sched_setaffinity(0, {int(number) for number in asked.cpus.split(",")})
    present, notes = found(wanted if QANAT in wanted else [QANAT, *wanted])
    with workspace(asked.dir or Path.cwd(), NEEDED_BYTES) as folder:
        seconds = asked.seconds or (QUICK_SECONDS if asked.quick else None)
        rounds = Rounds(asked.rounds, folder, _show, seconds, is_warmed_up=not asked.quick)
        facts, settings, tables = machine.describe(folder), _settings(asked, present), list[Table]()
        for table in _tables(rounds, present, chosen, is_quick=asked.quick):
            tables.append(table)
            result = Result(facts, settings, tables, [*notes, *rounds.notes])
            if asked.json is not None:
                asked.json.write_text(report.as_json(result) + "\n")
    return Result(facts, settings, tables, [*notes, *rounds.notes])


def _tables(rounds: Rounds, present: Sequence[Present], chosen: Sequence[str], *, is_quick: bool) -> Iterator[Table]:
    for title, all_workloads, is_durable, share in (
        ("Without a sync before the acknowledgement", WORKLOADS, False, FIRST_SHARE),
        ("Durable: a sync before every acknowledgement", durable(), True, SECOND_SHARE),
    ):
        workloads = [_quick(one) if is_quick else one for one in all_workloads if one.name in chosen]
        if workloads:
            reasons = {str(one): one.why_not(is_durable=is_durable) for one in present}
            taking_part = [one for one in present if not reasons[str(one)]]
            lines = rounds.table(taking_part, workloads, is_durable=is_durable, share=share)
            yield Table(title, lines, {name: why for name, why in reasons.items() if why})
    if START in chosen:
        yield Table("Start and idle memory", rounds.starts(present))


def _quick(workload: Workload) -> Workload:
    return replace(workload, count=int(workload.count * QUICK_SHARE))


def _settings(asked: argparse.Namespace, present: Sequence[Present]) -> dict[str, str]:
    of_systems: dict[str, str] = {}
    for one in present:
        by_table = {
            word: one.system.settings(is_durable)
            for word, is_durable in (("not durable", False), ("durable", True))
            if not one.why_not(is_durable=is_durable)
        }
        texts = set(by_table.values())
        of_systems[str(one)] = (
            texts.pop() if len(texts) == 1 else "; ".join(f"{w}: {text}" for w, text in by_table.items())
        )
        of_systems[f"client of {one.system.name}"] = one.client.what
    return {
        **of_systems,
        "rounds": str(asked.rounds) + ("" if asked.quick else ", after one that warms up"),
        "run": "quick" if asked.quick else "full",
        "processors": f"{', '.join(map(str, affinity()))} for all servers and clients",
    }


def _chosen(what: str, only: str, names: Sequence[str]) -> list[str]:
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise BenchRefusedError(f"there is no {what} {', '.join(unknown)}; choose among {', '.join(names)}")
    return wanted or list(names)


def _show(text: str) -> None:
    print(f"measuring {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.peers", description="Compare Qanat with other systems.")
    parser.add_argument("--only", default="", help=f"some workloads, separated by commas: {', '.join(NAMES)}")
    parser.add_argument("--systems", default="", help=f"Qanat and some of the systems: {', '.join(KEYS)}")
    parser.add_argument("--quick", action="store_true", help="measure less: at most five minutes")
    parser.add_argument("--seconds", type=float, help="leave out what would take longer; 280 for a quick run")
    parser.add_argument("--rounds", type=int, default=FEWEST_ROUNDS, help="at least 5")
    parser.add_argument("--dir", type=Path, help="folder on the disk to measure (default: the current one)")
    parser.add_argument("--cpus", default="", help="processors for servers and clients, such as 0,1")
    parser.add_argument("--json", type=Path, help="also write the result into this file, after each table")
    parser.add_argument("--markdown", type=Path, help="also write the result into this file, as a page")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
