"""`python -m bench.failover`: figures of failover and of many partitions, on three real brokers."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from bench.failover.losses import Losses, measure
from bench.failover.page import Row, section, write
from bench.failover.partitions import Cost, Restart, measure_cost, measure_restart

PARTS = ("kill", "stop", "restart", "growth")
_KILL_TYPICAL_S, _KILL_P99_S, _STOP_S, _RESTART_S = 3.0, 6.0, 0.5, 10.0


def main() -> int:
    options = _options()
    only = set(options.only.split(",")) if options.only else set(PARTS)
    if unknown := only - set(PARTS):
        print(f"bench.failover: --only knows {', '.join(PARTS)}, not {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    killed = measure(options.tries, _tell, is_killed=True) if "kill" in only else None
    stopped = measure(options.stops, _tell, is_killed=False) if "stop" in only else None
    restarted = measure_restart(options.partitions, _tell) if "restart" in only else None
    costs = [measure_cost(count, _tell) for count in options.growth] if "growth" in only else []
    rows = [*_kill_rows(killed), *_stop_rows(stopped), *_restart_rows(restarted)]
    for row in rows:
        print("  ".join(row))
    for line in _cost_rows(costs):
        print("  ".join(line))
    if options.markdown:
        write(options.markdown, section(rows, _cost_rows(costs), _machine(options)))
    if options.json:
        found = {"killed": killed, "stopped": stopped, "restarted": restarted, "costs": costs}
        options.json.write_text(json.dumps(found, default=asdict, indent=2))
    return 1 if options.check and any(row[3] == "missed" for row in rows) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__)
    parser.add_argument("--tries", type=int, default=50, help="how often the leader is killed (50)")
    parser.add_argument("--stops", type=int, default=10, help="how often it is stopped in good order (10)")
    parser.add_argument(
        "--partitions", type=int, default=1000, help="partitions of the broker that is restarted (1000)"
    )
    parser.add_argument(
        "--growth", type=_counts, default=[10, 100, 1000, 5000], help="partitions to compare (10,100,1000,5000)"
    )
    parser.add_argument("--only", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="five tries of each, and 10 to 100 partitions")
    parser.add_argument("--markdown", type=Path, help="write the section of this page")
    parser.add_argument("--json", type=Path, help="write the figures for programs")
    parser.add_argument("--check", action="store_true", help="exit code 1 where a requirement is missed")
    options = parser.parse_args()
    if options.quick:
        options.tries, options.stops, options.partitions, options.growth = 5, 5, 100, [10, 100]
    return options


def _counts(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _verdict(value: float, limit: float) -> str:
    return "met" if value <= limit else "missed"


def _kill_rows(found: Losses | None) -> list[Row]:
    if found is None:
        return []
    what = f"leader killed (kill -9), {len(found.gaps_s)} tries: gap between acknowledgements"
    return [
        (
            f"{what}, p50",
            f"{found.typical_s:.2f} s",
            f"≤ {_KILL_TYPICAL_S:g} s",
            _verdict(found.typical_s, _KILL_TYPICAL_S),
        ),
        (f"{what}, p99", f"{found.p99_s:.2f} s", f"≤ {_KILL_P99_S:g} s", _verdict(found.p99_s, _KILL_P99_S)),
        (f"{what}, worst", f"{found.worst_s:.2f} s", "", ""),
        _kept("killed", found),
    ]


def _stop_rows(found: Losses | None) -> list[Row]:
    if found is None:
        return []
    what = f"leader stopped in good order, {len(found.gaps_s)} tries: gap"
    return [
        (f"{what}, p50", f"{found.typical_s:.2f} s", "", ""),
        (f"{what}, worst", f"{found.worst_s:.2f} s", f"≤ {_STOP_S:g} s", _verdict(found.worst_s, _STOP_S)),
        ("the same: errors that the writer was told", str(found.errors), "0", _verdict(found.errors, 0)),
        _kept("stopped", found),
    ]


def _kept(how: str, found: Losses) -> Row:
    what = f"acknowledged while leaders were {how}, and missing at the end"
    return (what, f"{found.missing} of {found.acknowledged:,}", "0", _verdict(found.missing, 0))


def _restart_rows(found: Restart | None) -> list[Row]:
    if found is None:
        return []
    what = f"restart after kill -9 with {found.partitions:,} partitions"
    return [
        (f"{what}: until it answers", f"{found.answers_s:.1f} s", "", ""),
        (
            f"{what}: until it is in sync",
            f"{found.in_sync_s:.1f} s",
            f"≤ {_RESTART_S:g} s",
            _verdict(found.in_sync_s, _RESTART_S),
        ),
    ]


def _cost_rows(costs: list[Cost]) -> list[tuple[str, ...]]:
    return [
        (
            f"{one.partitions:,}",
            f"{one.memory_bytes / 2**20:.0f} MiB",
            f"{one.idle_cpu:.1%}",
            f"{one.elected:,}",
            f"{one.elect_s:.2f} s",
        )
        for one in costs
    ]


def _machine(options: argparse.Namespace) -> str:
    load = os.getloadavg()[0]
    return f"Python {platform.python_version()}, {os.cpu_count()} processors, load {load:.1f} at the end."


if __name__ == "__main__":
    sys.exit(main())
