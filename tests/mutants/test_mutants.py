"""The mutation tool: the mutants it makes, their keys, and that a run tells survivors from killed ones."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from verify.mutants import workshop
from verify.mutants.core import ROOT, accepted, mapped_tests, mutants_in, path_of, read_accepted
from verify.mutants.mutations import mutations_of
from verify.mutants.report import Verdict, as_entry, killed_though_accepted, new_survivors, table
from verify.mutants.workshop import Outcome, Workshop

FOLDERS = ("src", "tests", "tools", "verify", "bench", "demo", "docs")


def changes(source: str) -> list[tuple[str, str]]:
    return [(one.was, one.becomes) for one in mutations_of("m", dedent(source))]


@pytest.mark.parametrize(
    ("statement", "mutants"),
    [
        ("return a < b", ["return None", "return (a <= b)", "return (a >= b)"]),
        (
            "return a and b",
            ["return None", "return (b)", "return (not (a)) and b", "return (a)", "return a and (not (b))"],
        ),
        ("return not a", ["return None", "return (a)"]),
        ("return a + 2", ["return None", "return (a - 2)", "return a + 3", "return a + 1"]),
        ("return True", ["return False"]),
        ("return 0", ["return 1"]),
        ("return min(a, b)", ["return None", "return max(a, b)"]),
        ("return [x for x in a]", ["return None", "return []"]),
        ("self.a = b", ["pass"]),
        ("a += b", ["pass"]),
        ("del a[b]", ["pass"]),
        ("a.go()", ["pass"]),
        ("raise ValueError(1)", ["pass"]),
        ("return", ["pass"]),
        ("a = b", []),
        ("assert a < 1", []),
        ("log_event('x', level=1)", []),
        ("assert_never(a)", []),
        ("raise NotImplementedError", []),
        ("a = f'{1 < 2}'", []),
    ],
)
def test_a_statement_has_these_mutants(statement: str, mutants: list[str]) -> None:
    found = changes(f"def f(self, a, b):\n    {statement}\n")

    assert [becomes for _, becomes in found] == mutants
    assert all(was == statement for was, _ in found)


def test_a_condition_is_negated_and_only_the_head_of_a_compound_statement_is_its_text() -> None:
    found = changes("""
        def f(a):
            if a.is_open:
                a.close()
        """)

    assert found == [("if a.is_open:", "if (not (a.is_open)):"), ("a.close()", "pass")]


def test_equal_statements_of_a_function_are_mutants_of_their_own_and_counted() -> None:
    source = "def f(a):\n    if a:\n        return\n    a()\n    return\n"
    found = [one for one in mutations_of("m", source) if one.was == "return"]

    assert [(one.line, one.number) for one in found] == [(3, 1), (5, 2)]
    assert len({one.key for one in found}) == 2
    text = "\n".join(["- module: m", "  mutants:", *as_entry(found[1]), "      why: it ends here anyway"])
    assert list(read_accepted(text)) == [found[1].key]


def test_what_tests_should_not_pin_down_is_left_alone() -> None:
    source = """
        LIMIT = 3
        class C:
            size: int = 4
            def __repr__(self):
                return str(1)
            def g(self, x: "int | 5" = 6) -> None:
                "7"
                if TYPE_CHECKING:
                    x += 1
        """

    assert changes(source) == []


def test_every_mutant_is_a_program_and_known_by_a_key_of_its_own_whatever_line_it_stands_on() -> None:
    source = (ROOT / path_of("qanat.replication.leader")).read_text()
    found = mutations_of("m", source)

    assert len(found) > 100
    assert len({one.key for one in found}) == len(found)
    for one in found:
        compile(one.source, "mutant", "exec")
        assert one.source != source
    moved = mutations_of("m", f"# A line more.\n{source}")
    assert [one.key for one in moved] == [one.key for one in found]
    assert [one.line for one in moved] == [one.line + 1 for one in found]


def test_every_module_and_test_of_the_map_is_there() -> None:
    named = [path_of(module) for module in mapped_tests()]
    named += [Path(test) for tests in mapped_tests().values() for test in tests]

    assert [str(path) for path in named if not (ROOT / path).exists()] == []
    assert all(mutants_in(module) for module in mapped_tests())


def test_every_accepted_survivor_has_a_reason_and_is_still_a_mutant() -> None:
    mutants = {one.key for module in mapped_tests() for one in mutants_in(module)}

    assert [key for key in accepted() if key not in mutants] == []
    assert all(len(reason) > 10 for reason in accepted().values())


def test_a_workshop_copies_every_folder_that_tests_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FOLDERS:
        (tmp_path / name).mkdir()
    monkeypatch.setattr(workshop, "ROOT", tmp_path)
    copy = Workshop(tmp_path / "copy").folder

    assert sorted(path.name for path in copy.iterdir()) == sorted(FOLDERS)


def test_a_survivor_counts_unless_it_is_accepted_and_one_that_dies_should_not_be_accepted() -> None:
    known, new, dead = mutations_of("m", "def f(a):\n    return a < 1\n")[:3]
    text = "\n".join(["- module: m", "  mutants:", *as_entry(known), "      why: cannot be seen"])
    known_reasons = read_accepted(text)
    verdicts = [Verdict(known, Outcome.SURVIVED), Verdict(new, Outcome.SURVIVED), Verdict(dead, Outcome.KILLED)]

    assert known_reasons == {known.key: "cannot be seen"}
    assert new_survivors(verdicts, known_reasons) == [new]
    assert killed_though_accepted(verdicts, known_reasons) == []
    assert killed_though_accepted([Verdict(known, Outcome.KILLED)], known_reasons) == [known]
    assert table(verdicts, known_reasons)[-1].split() == ["all", "1", "0", "1", "1"]
