"""Mutation runs on a small tree: which tests judge a mutant, what they make of it, and how a run resumes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from verify.mutants import core, results, run, workshop
from verify.mutants.core import ROOT
from verify.mutants.mutations import Mutation, mutations_of
from verify.mutants.results import Results, digest
from verify.mutants.run import judge_all
from verify.mutants.workshop import BaselineError, Judgement, Outcome, TestProcess, Workshop

SMALL = """
class Above:
    def holds(self, a, b):
        if a > b:
            return True
        return False

    def never(self):
        return 7


class Child(Above):
    def holds(self, a, b):
        super().never()
        return super().holds(a, b)


def made(number):
    return number + 1


TABLE = made(1)
"""
TESTS = """
from small import TABLE, Above, Child

def test_above():
    assert Above().holds(2, 1)

def test_child():
    assert Child().holds(2, 1)

def test_table():
    assert TABLE == 2
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of one module with tests that see some of it."""
    root = tmp_path / "tree"
    files = {
        "src/small.py": SMALL,
        "tests/test_small.py": TESTS,
        "tests/test_other.py": "def test_nothing():\n    assert True\n",
        "pyproject.toml": "",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    shutil.copytree(ROOT / "verify" / "mutants", root / "verify" / "mutants")
    (root / "verify" / "__init__.py").write_text("")
    for module in (core, workshop, results):
        monkeypatch.setattr(module, "ROOT", root)
    monkeypatch.setattr(run, "mapped_tests", lambda: {"small": ["tests/test_small.py"]})
    return root


def mutants(source: str = SMALL) -> list[Mutation]:
    return mutations_of("small", source)


def judged(tree: Path) -> dict[tuple[str, str], Outcome]:
    verdicts = judge_all(mutants(), 1, Results(tree / "build", digest()))
    return {(mutation.function, mutation.becomes): outcome for mutation, outcome in verdicts}


@pytest.mark.long
def test_a_run_tells_survivors_from_killed_mutants(tree: Path) -> None:
    assert judged(tree) == {
        ("Above.holds", "if (a >= b):"): Outcome.SURVIVED,
        ("Above.holds", "if (a <= b):"): Outcome.KILLED,
        ("Above.holds", "return False"): Outcome.KILLED,
        ("Above.holds", "return True"): Outcome.SURVIVED,
        ("Above.never", "return 8"): Outcome.SURVIVED,
        ("Above.never", "return 6"): Outcome.SURVIVED,
        ("Child.holds", "pass"): Outcome.SURVIVED,
        ("Child.holds", "return None"): Outcome.KILLED,
        # These lines run while the module is imported: a fresh process judges them.
        ("made", "return None"): Outcome.KILLED,
        ("made", "return (number - 1)"): Outcome.KILLED,
        ("made", "return number + 2"): Outcome.KILLED,
        ("made", "return number + 0"): Outcome.KILLED,
    }
    assert (tree / "src/small.py").read_text() == SMALL


def test_a_run_on_the_same_tree_resumes_and_one_on_another_judges_again(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = next(one for one in mutants() if one.becomes == "if (a >= b):")
    begun = Results(tree / "build", digest())
    begun.add(chosen.key, Judgement(Outcome.KILLED, "tests/test_small.py::test_above"))
    with (tree / "build" / "verdicts.jsonl").open("a") as file:
        file.write('["half a li')

    def outcome() -> Outcome:
        return judge_all([chosen], 1, Results(tree / "build", digest()))[0].outcome

    assert outcome() is Outcome.KILLED
    (tree / "tests/test_other.py").write_text("def test_nothing():\n    assert not False\n")
    assert outcome() is Outcome.SURVIVED
    assert Results(tree / "build", "another").survivors_before() == {chosen.key}
    monkeypatch.setattr(run, "_judge", lambda *_: pytest.fail("it is known"))
    assert outcome() is Outcome.SURVIVED


@pytest.mark.long
@pytest.mark.parametrize(
    "body", ["while True:\n            pass", "import time\n        time.sleep(100)", "return [0] * (1 << 40)"]
)
def test_a_mutant_that_never_ends_or_takes_all_memory_is_one_that_was_noticed(tree: Path, body: str) -> None:
    (first,) = [one for one in mutants() if one.becomes == "if (a <= b):"]
    endless = first._replace(source=f"\nclass Above:\n    def holds(self, a, b):\n        {body}\n")
    test = "tests/test_small.py::test_above"
    with TestProcess(Workshop(tree / "copy"), ["tests/test_small.py"]) as process:
        judgement = process.judge(endless, {test: (0.01, 0.01)})
        assert process.judge(first, {test: (0.01, 0.01)}) == Judgement(Outcome.KILLED, test), "it goes on"

    assert judgement == Judgement(Outcome.KILLED if "40" in body else Outcome.TIMEOUT, test)


def test_tests_that_do_not_pass_or_cannot_be_collected_are_no_judges(tree: Path) -> None:
    (tree / "tests/test_other.py").write_text("def test_nothing():\n    assert 1 == 2\n")
    with (
        TestProcess(Workshop(tree / "copy"), ["tests/test_other.py"]) as process,
        pytest.raises(BaselineError, match="assert 1 == 2"),
    ):
        process.times()

    (tree / "tests/test_other.py").write_text("import nothing_there\n")
    with pytest.raises(BaselineError, match="No module named 'nothing_there'"):
        TestProcess(Workshop(tree / "copy2"), ["tests/test_other.py"])
