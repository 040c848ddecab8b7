"""A sample of the bug bank: known bugs, put back into the product, are found where they were found before.

All of them: `make bug-bank`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from verify.clusters.bug_bank.bank import BUGS, fitting_seeds
from verify.clusters.bug_bank.bug import INHERITED, Bug, Patches

QUICK = (
    "join_by_fetching",
    "keep_an_epoch_when_the_leader_changes",
    "show_what_is_not_committed",
    "mix_topics_of_one_name",
    "truncate_to_the_high_watermark",
)
"""Found in the first runs of a search, whatever else has changed; the first two in `make test`."""
MOST_SEEDS = 5
ROOT = Path(__file__).resolve().parents[2]


def test_the_bank_is_large_enough_and_names_each_bug_once() -> None:
    names = [bug.name for bug in BUGS]

    assert len(names) == len(set(names)) >= 20
    assert all(bug.corner_case in (bug.put_in.__doc__ or "") for bug in BUGS), "each says what it breaks"


def test_the_bank_runs_on_the_interpreted_build() -> None:
    program = (
        "import verify.clusters.bug_bank.__main__; "
        "from qanat.wire.kafka import fast_produce; "
        "from qanat.broker.replicas import partition; "
        "print(fast_produce.is_compiled(), partition.__file__)"
    )
    ran = _run("-c", program)

    is_compiled, file = ran.stdout.split()
    assert (is_compiled, Path(file).name) == ("False", "partition.py")


def test_the_page_of_the_simulation_lists_them_all() -> None:
    page = ROOT.joinpath("docs/internals/simulation.md").read_text()

    assert [bug.name for bug in BUGS if f"| {bug.corner_case} | `{bug.name}` |" not in page] == []


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_seed_that_found_a_bug_may_still_show_it(bug: Bug) -> None:
    """Where plans are drawn otherwise, the recorded seed is another run: search for the bug anew."""
    assert bug.found_at > 0, "one that was never found shows nothing"
    assert next(fitting_seeds(bug, bug.found_at)) == bug.found_at


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, marks=[] if bug.name in QUICK[:2] else [pytest.mark.long, pytest.mark.data])
        for bug in BUGS
        if bug.name in QUICK
    ],
    ids=lambda bug: bug.name,
)
def test_the_simulation_finds(bug: Bug) -> None:
    search = ["--most", str(MOST_SEEDS), "--first", str(bug.found_at), bug.name]
    ran = _run("-m", "verify.clusters.bug_bank", *search)

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_what_was_put_in_is_taken_out() -> None:
    program = (
        f"import verify.clusters.bug_bank.__main__; from {__name__} import put_in_and_take_out; put_in_and_take_out()"
    )
    ran = _run("-c", program)

    assert ran.returncode == 0, ran.stderr


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own: the product is interpreted there, and can be patched."""
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def put_in_and_take_out() -> None:
    for bug in BUGS:
        with Patches() as patches:
            bug.put_in(patches)
            put = [(owner, name, before) for owner, name, before in patches._before]
            assert all(vars(owner)[name] is not before for owner, name, before in put)
            assert put
        assert all(vars(owner).get(name, INHERITED) is before for owner, name, before in put)
