"""Which tests one worker runs, and which begin first."""

from __future__ import annotations

from pathlib import Path

from tests.sharing import LONG, place_of, share_of

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_set_up_for_several_tests_is_set_up_by_one_worker() -> None:
    assert share_of("tests/log/test_segment.py::test_a[b]") == share_of("tests/log/test_segment.py::test_c")
    assert share_of("tests/spark/pipelines/test_metrics.py::test_a") == share_of(
        "tests/spark/test_range_reader.py::test_b"
    )


def test_what_takes_long_and_shares_nothing_is_shared_out() -> None:
    seeds = {share_of(f"tests/sim/test_cluster_runs.py::test_a[{seed}]") for seed in (1, 11, 21)}
    assert len(seeds) == 3
    session = share_of("tests/spark/test_range_reader.py::test_b")
    assert session not in (
        share_of("tests/spark/test_fire.py::test_a"),
        share_of("tests/spark/test_options.py::test_a"),
    )


def test_what_begins_first_is_there() -> None:
    assert [path for path in LONG if not (ROOT / path).exists()] == []
    wanted = [
        "tests/log/test_segment.py::test_a",
        "tests/spark/test_range_reader.py::test_b",
        "tests/spark/test_fire.py::c",
    ]
    assert sorted(wanted, key=place_of) == wanted[::-1]
