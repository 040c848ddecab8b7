"""`python -m bench.report`: measure everything, one part after the other, and write the pages."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.report import part_results, running
from bench.report.behind import PlansUnreadableError, behind, read_plans
from bench.report.headline import judged, required
from bench.report.page import Report, write
from bench.report.part_results import PartResult
from bench.report.parts import FEWEST_ROUNDS, NAMES, PARTS, Part
from bench.report.sections import headlines

PAGE, QUICK_PAGE = Path("docs/performance.md"), Path("build/performance.md")
KEEP = Path("build/performance-run")
LONGEST_S, QUICK_LONGEST_S = 3600.0, 720.0
_COMPOSING_S = 5.0
EXIT_NOT_MET = 1
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    # A shell that starts it in the background makes it ignore SIGINT, which would be inherited; SIGINT ends parts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        chosen = _chosen(asked)
        plans = read_plans()
    except (ValueError, PlansUnreadableError) as fault:
        print(f"bench.report: {fault}", file=sys.stderr)
        return EXIT_REFUSED
    folder: Path = asked.reuse or asked.keep
    if not folder.is_file():
        folder.mkdir(parents=True, exist_ok=True)
    if asked.reuse is None:
        for name in NAMES:
            (folder / f"{name}.json").unlink(missing_ok=True)
    try:
        measure(chosen, folder, is_quick=asked.quick, rounds=asked.rounds)
    except KeyboardInterrupt:
        print(f"bench.report: interrupted; compose the results so far with --reuse {folder}", file=sys.stderr)
        return EXIT_INTERRUPTED
    found = part_results.read(folder, NAMES)
    if not found:
        print(f"bench.report: there is nothing in {folder}: measure first", file=sys.stderr)
        return EXIT_REFUSED
    lines = judged(found)
    report = Report(found, lines, behind(found, plans))
    page: Path = asked.page or (QUICK_PAGE if asked.quick else PAGE)
    page.parent.mkdir(parents=True, exist_ok=True)
    written = write(report, page)
    print(headlines(lines, required(found)))
    print("written: " + ", ".join(map(str, written)))
    if asked.check:
        for sentence in report.complaints:
            print(f"bench.report: {sentence}", file=sys.stderr)
    return EXIT_NOT_MET if asked.check and report.complaints else 0


def measure(parts: Sequence[Part], folder: Path, *, is_quick: bool, rounds: int) -> None:
    """Run each part within its time limit and all within the total; each part's results are written at once."""
    run = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    ends = time.monotonic() + (QUICK_LONGEST_S if is_quick else LONGEST_S) - _COMPOSING_S
    for part in parts:
        began = time.monotonic()
        budget_s = min(part.budget_s(is_quick=is_quick), ends - began - running.GRACE_S)
        reason, files = "", []
        for number, command in enumerate(part.commands(is_quick=is_quick, rounds=rounds)):
            left_s = budget_s - (time.monotonic() - began)
            if left_s <= 0:
                reason = reason or "its time was over before it was done"
                break
            files.append(folder / f"{part.name}.step-{number}.json")
            files[-1].unlink(missing_ok=True)
            os.sync()  # Unwritten pages of the part before must not be written during this one.
            words = [*part.in_time(command, left_s), "--json", str(files[-1].resolve())]
            ended = running.run(words, left_s, part.title, folder / f"{part.name}.log", _show)
            reason = "; ".join(filter(None, (reason, ended.reason)))
        seconds = time.monotonic() - began
        part_results.write(folder, PartResult(part.name, run, seconds, is_quick, reason, part_results.merged(files)))
        _show(f"{part.title}: {reason or 'done'}, {seconds:.0f} s")


def _chosen(asked: argparse.Namespace) -> list[Part]:
    """The parts to measure: none, where only the page is composed again."""
    if asked.rounds < FEWEST_ROUNDS:
        raise ValueError(f"{asked.rounds} rounds are no comparison: take at least {FEWEST_ROUNDS}")
    if asked.reuse is not None and not asked.reuse.exists():
        raise ValueError(f"there is no {asked.reuse}: --reuse takes a folder that --keep has filled, or a report.json")
    wanted = [name.strip() for name in asked.only.split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in NAMES]:
        raise ValueError(f"there is no part {', '.join(unknown)}; choose among {', '.join(NAMES)}")
    if asked.reuse is not None and not wanted:
        return []
    if asked.reuse is not None and asked.reuse.is_file():
        raise ValueError("--only measures into a folder, and --reuse names a file")
    return [part for part in PARTS if not wanted or part.name in wanted]


def _show(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.report", description="Measure everything and write the page.")
    parser.add_argument("--quick", action="store_true", help=f"at most twelve minutes, into {QUICK_PAGE}")
    parser.add_argument("--only", default="", help=f"some parts, separated by commas: {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, default=FEWEST_ROUNDS, help="of each comparison, at least 5")
    parser.add_argument("--keep", type=Path, default=KEEP, help=f"folder for what each part has found ({KEEP})")
    parser.add_argument(
        "--reuse",
        type=Path,
        help="compose from a folder that was kept, or from a report.json; with --only, measure those parts anew first",
    )
    parser.add_argument(
        "--page",
        type=Path,
        help=f"the page for users ({PAGE}); the full report, plots and JSON go into a folder of its name",
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if a floor is missed or a plan is missing")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
