"""The moves of `qanat cluster reassign`, from arguments and from plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.cluster.reassignment_plan import wanted_moves

MOVE = {"topic": "orders", "partition": 1, "replicas": [2, 0]}


def _plan(folder: Path, *rows: object) -> Path:
    path = folder / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return path


def test_a_plan_is_read_and_the_same_plan_takes_its_moves_back(tmp_path: Path) -> None:
    plan = _plan(tmp_path, MOVE)

    assert wanted_moves([], None, plan, is_cancelled=False) == {("orders", 1): (2, 0)}
    assert wanted_moves([], None, plan, is_cancelled=True) == {("orders", 1): None}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((MOVE, MOVE | {"replicas": [1]}), "orders:1 is named twice"),
        ((), "it names no partition"),
        ((MOVE | {"replicas": "12"},), "a list of broker ids, not '12'"),
        (({"topic": "orders"},), "it should read"),
    ],
    ids=["twice", "nothing", "text for a list", "half a row"],
)
def test_a_plan_that_is_wrong_is_refused(tmp_path: Path, rows: tuple[object, ...], expected: str) -> None:
    with pytest.raises(WrongArgumentError, match=expected):
        wanted_moves([], None, _plan(tmp_path, *rows), is_cancelled=False)


@pytest.mark.parametrize(
    ("partitions", "to", "has_plan", "is_cancelled", "expected"),
    [
        (["orders:0", "orders:0"], "1", False, False, "orders:0 is named twice"),
        (["orders:0"], "1", True, False, "not with both"),
        (["orders:0"], "1", False, True, "leave --to out"),
    ],
)
def test_words_that_contradict_each_other_are_refused(
    tmp_path: Path, partitions: list[str], to: str, expected: str, *, has_plan: bool, is_cancelled: bool
) -> None:
    with pytest.raises(WrongArgumentError, match=expected):
        wanted_moves(partitions, to, _plan(tmp_path, MOVE) if has_plan else None, is_cancelled=is_cancelled)
