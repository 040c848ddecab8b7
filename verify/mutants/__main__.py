"""`python -m verify.mutants`: exits with 1 where a mutant survives that is not accepted."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from verify.mutants.core import ROOT, accepted, mapped_tests, mutants_in, path_of
from verify.mutants.mutations import Mutation
from verify.mutants.report import Verdict, as_entry, killed_though_accepted, new_survivors, table
from verify.mutants.results import Results, digest
from verify.mutants.run import judge_all
from verify.mutants.workshop import BaselineError, Outcome


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    results = Results(given.results, digest())
    chosen = _chosen(given, results)
    if not chosen:
        print("no mutant there: see verify/mutants/core.yaml for the modules that are mutated")
        return 2
    if given.list:
        print("\n".join(map(str, chosen)))
        return 0
    began, known = time.monotonic(), accepted()
    skipped = [] if given.accepted else [one for one in chosen if one.key in known]
    try:
        verdicts = judge_all([one for one in chosen if one not in skipped], given.jobs, results)
    except BaselineError as fault:
        print(fault)
        return 2
    verdicts += [Verdict(one, Outcome.SURVIVED) for one in skipped]
    print("\n".join(table(verdicts, known)))
    print(f"{len(verdicts)} mutants in {time.monotonic() - began:.0f} s, seed {given.seed}")
    for mutation in killed_though_accepted(verdicts, known):
        print(f"killed by now, remove it from accepted.yaml: {mutation}")
    survivors = new_survivors(verdicts, known)
    for mutation in survivors:
        print(f"\nsurvived: {path_of(mutation.module)}:{mutation.line}")
        print("\n".join(as_entry(mutation)))
    return 1 if survivors else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="verify.mutants", description="Break one line at a time; a test must fail.")
    parser.add_argument("--modules", default="", help="parts of module names, separated by commas: log.flush,leader")
    parser.add_argument("--line", default="", metavar="FILE:LINE", help="only mutants of this line")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="a random sample of so many")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample")
    parser.add_argument("--jobs", type=int, default=2, help="mutants tried at once")
    parser.add_argument("--again", action="store_true", help="only mutants that survived in the last run")
    parser.add_argument("--accepted", action="store_true", help="run accepted mutants too: do they still survive?")
    parser.add_argument(
        "--results",
        type=Path,
        default=ROOT / "build" / "mutants",
        metavar="FOLDER",
        help="where verdicts are kept: a run on an unchanged tree resumes there",
    )
    parser.add_argument("--list", action="store_true", help="list the mutants, and run nothing")
    return parser


def _chosen(given: argparse.Namespace, results: Results) -> list[Mutation]:
    parts = [part for part in given.modules.split(",") if part]
    modules = [one for one in mapped_tests() if not parts or any(part in one for part in parts)]
    found = [mutation for module in modules for mutation in mutants_in(module)]
    if given.again:
        survivors = results.survivors_before()
        found = [one for one in found if one.key in survivors]
    if given.line:
        file, line = given.line.rsplit(":", 1)
        found = [
            one for one in found if str(path_of(one.module)).endswith(file) and one.line <= int(line) <= one.end_line
        ]
    if 0 < given.sample < len(found):
        chance = random.Random(given.seed)
        taken = set(chance.sample(range(len(found)), given.sample))
        found = [one for number, one in enumerate(found) if number in taken]
    return found


if __name__ == "__main__":
    sys.exit(main())
