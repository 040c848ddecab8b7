"""A mutation run: which tests judge which mutant, and the processes that run them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from verify.mutants.core import mapped_tests, path_of
from verify.mutants.line_recorder import IMPORTS
from verify.mutants.mutations import Mutation
from verify.mutants.report import Verdict
from verify.mutants.results import Results
from verify.mutants.workshop import Judgement, Outcome, TestProcess, Times, Workshop

_PROGRESS_STEP = 100
_LEAST_S = 0.005


class TestFacts:
    """What tests execute and how long they take."""

    __test__ = False

    def __init__(self, lines: dict[str, dict[str, list[int]]], times: Times) -> None:
        self.lines = lines
        self.times = times
        self._tests: dict[tuple[str, int], set[str]] = {}
        for name, executed in lines.items():
            for path, numbers in executed.items():
                for number in numbers:
                    self._tests.setdefault((path, number), set()).add(name)

    def judges(self, mutation: Mutation, files: Sequence[str], kills: Mapping[str, int]) -> Times:
        """The tests in these files or folders that execute a mutant's line; quick and deadly ones come first."""
        found = sorted(name for name in self._executing(mutation) if name in self.times and _is_in(name, files))
        found.sort(key=lambda name: max(self.times[name][0], _LEAST_S) / (1 + kills.get(name, 0)))
        return {name: self.times[name] for name in found}

    def is_imported(self, mutation: Mutation) -> bool:
        """Whether the line is executed while modules are imported."""
        return IMPORTS in self._executing(mutation)

    def _executing(self, mutation: Mutation) -> set[str]:
        path = str(path_of(mutation.module))
        numbers = range(mutation.line, mutation.end_line + 1)
        return set().union(*(self._tests.get((path, number), ()) for number in numbers))


def judge_all(chosen: Sequence[Mutation], jobs: int, results: Results) -> list[Verdict]:
    """The verdicts of all mutants; those that the results know already are not judged again."""
    todo = [one for one in chosen if one.key not in results.known]
    found = dict(results.known)
    if todo:
        with TemporaryDirectory(prefix="mutants-") as folder:
            for mutation, judgement in _judge(todo, jobs, results, Path(folder)):
                found[mutation.key] = judgement
    return [Verdict(one, found[one.key].outcome) for one in chosen]


def _judge(todo: Sequence[Mutation], jobs: int, results: Results, folder: Path) -> Iterator[tuple[Mutation, Judgement]]:
    mapped = mapped_tests()
    modules = list(dict.fromkeys(one.module for one in todo))
    files = sorted({file for module in modules for file in mapped[module]})
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        free: SimpleQueue[TestProcess] = SimpleQueue()
        processes = list(pool.map(lambda number: TestProcess(Workshop(folder / str(number)), files), range(jobs)))
        for process in processes:
            free.put(stack.enter_context(process))
        facts = _facts(results.facts_file(files), processes[0], folder / "lines", files, modules)

        kills: dict[str, Counter[str]] = {module: Counter() for module in modules}

        def judge(mutation: Mutation) -> Judgement:
            process = free.get()
            try:
                judgement = _judgement(process, mutation, facts, mapped[mutation.module], kills[mutation.module])
            finally:
                free.put(process)
            kills[mutation.module][judgement.test] += 1
            results.add(mutation.key, judgement)
            return judgement

        for number, (mutation, judgement) in enumerate(zip(todo, pool.map(judge, todo), strict=True), 1):
            if judgement.outcome is not Outcome.KILLED:
                print(f"{judgement.outcome.value}: {mutation}", file=sys.stderr, flush=True)
            if number % _PROGRESS_STEP == 0:
                print(f"{number} of {len(todo)}", file=sys.stderr, flush=True)
            yield mutation, judgement


def _judgement(
    process: TestProcess, mutation: Mutation, facts: TestFacts, files: Sequence[str], kills: Mapping[str, int]
) -> Judgement:
    if facts.is_imported(mutation):
        # Any test may see a value that was computed when its module was imported.
        return process.workshop.judge_afresh(mutation, {n: t for n, t in facts.times.items() if _is_in(n, files)})
    judges = facts.judges(mutation, files, kills)
    return process.judge(mutation, judges) if judges else Judgement(Outcome.SURVIVED)


def _facts(kept: Path, process: TestProcess, folder: Path, files: Sequence[str], modules: Sequence[str]) -> TestFacts:
    """The lines and times of tests, from the file that keeps them or from a run of each."""
    if kept.exists():
        return TestFacts(*json.loads(kept.read_text()))
    with ThreadPoolExecutor(1) as pool:
        lines = pool.submit(Workshop(folder).lines, files, modules)
        times = process.times()
        facts = TestFacts(lines.result(), times)
    kept.write_text(json.dumps([facts.lines, facts.times]))
    return facts


def _is_in(name: str, files: Sequence[str]) -> bool:
    """Whether a test is in one of these files or folders."""
    path = name.partition("::")[0]
    return any(path == file or path.startswith(f"{file}/") for file in files)
