"""`python -m bench.report`: measure everything, one part after the other, and write the page."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.report import kept as keeping
from bench.report import running
from bench.report.behind import PlansUnreadableError, behind, read_plans
from bench.report.headline import judged
from bench.report.kept import Kept
from bench.report.page import Report, write
from bench.report.parts import FEWEST_ROUNDS, NAMES, PARTS, Part
from bench.report.sections import headlines

PAGE, QUICK_PAGE = Path("docs/performance.md"), Path("build/performance.md")
KEEP = Path("build/performance-run")
LONGEST_S, QUICK_LONGEST_S = 3600.0, 300.0
_COMPOSING_S = 5.0
EXIT_NOT_MET = 1
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    # Started in the background by a shell, it would hand down that SIGINT is ignored: parts are ended by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        chosen = _chosen(asked)
        plans = read_plans()
    except (ValueError, PlansUnreadableError) as fault:
        print(f"bench.report: {fault}", file=sys.stderr)
        return EXIT_REFUSED
    folder: Path = asked.reuse or asked.keep
    folder.mkdir(parents=True, exist_ok=True)
    if asked.reuse is None:
        for name in NAMES:
            (folder / f"{name}.json").unlink(missing_ok=True)
    try:
        measure(chosen, folder, is_quick=asked.quick, rounds=asked.rounds)
    except KeyboardInterrupt:
        print(f"bench.report: interrupted; what there is: --reuse {folder}", file=sys.stderr)
        return EXIT_INTERRUPTED
    found = keeping.read(folder, NAMES)
    if not found:
        print(f"bench.report: there is nothing in {folder}: measure first", file=sys.stderr)
        return EXIT_REFUSED
    lines = judged(found)
    report = Report(found, lines, behind(found, plans))
    page: Path = asked.page or (QUICK_PAGE if asked.quick else PAGE)
    page.parent.mkdir(parents=True, exist_ok=True)
    written = write(report, page)
    print(headlines(lines))
    print("written: " + ", ".join(map(str, written)))
    if asked.check:
        for sentence in report.complaints:
            print(f"bench.report: {sentence}", file=sys.stderr)
    return EXIT_NOT_MET if asked.check and report.complaints else 0


def measure(parts: Sequence[Part], folder: Path, *, is_quick: bool, rounds: int) -> None:
    """Each part in its time, all of them in the whole's; what each has found is kept at once."""
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
            os.sync()  # What the one before has left to be written is not this one's.
            words = [*part.in_time(command, left_s), "--json", str(files[-1].resolve())]
            ended = running.run(words, left_s, part.title, folder / f"{part.name}.log", _tell)
            reason = "; ".join(filter(None, (reason, ended.reason)))
        seconds = time.monotonic() - began
        keeping.write(folder, Kept(part.name, run, seconds, is_quick, reason, keeping.merged(files)))
        _tell(f"{part.title}: {reason or 'done'}, {seconds:.0f} s")


def _chosen(asked: argparse.Namespace) -> list[Part]:
    """What is to be measured: nothing, where only the page is to be written again."""
    if asked.rounds < FEWEST_ROUNDS:
        raise ValueError(f"{asked.rounds} rounds are no comparison: take at least {FEWEST_ROUNDS}")
    if asked.reuse is not None and not asked.reuse.is_dir():
        raise ValueError(f"there is no folder {asked.reuse}: --reuse takes one that --keep has filled")
    wanted = [name.strip() for name in asked.only.split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in NAMES]:
        raise ValueError(f"there is no part {', '.join(unknown)}; choose among {', '.join(NAMES)}")
    if asked.reuse is not None and not wanted:
        return []
    return [part for part in PARTS if not wanted or part.name in wanted]


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.report", description="Measure everything and write the page.")
    parser.add_argument("--quick", action="store_true", help=f"at most five minutes, into {QUICK_PAGE}")
    parser.add_argument("--only", default="", help=f"some parts, separated by commas: {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, default=FEWEST_ROUNDS, help="of each comparison, at least 5")
    parser.add_argument("--keep", type=Path, default=KEEP, help=f"folder for what each part has found ({KEEP})")
    parser.add_argument(
        "--reuse", type=Path, help="compose from a folder that was kept; with --only, measure those parts anew first"
    )
    parser.add_argument("--page", type=Path, help=f"the page to be written ({PAGE}); plots and JSON go beside it")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a floor is missed or a plan is missing")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
