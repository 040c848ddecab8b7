"""The page on what is stable names everything that a user can build on."""

from __future__ import annotations

import re

import pytest
from tests.documents.blocks import ROOT

from qanat.app.node import plugins
from qanat.app.settings import handler_names
from qanat.spark.pipelines import installed

PAGE = (ROOT / "docs" / "stability.md").read_text()
ROWS = [row.split("|")[1:4] for row in PAGE.splitlines() if row.startswith("| ") and "---" not in row][1:]


def test_every_group_of_entry_points_is_on_the_page() -> None:
    found = {text for text in vars(plugins).values() if isinstance(text, str) and text.startswith("qanat.")}
    groups = {one for one in found if one != plugins.__name__ and one != plugins.__package__}

    assert groups
    assert {*groups, handler_names.GROUP, installed.GROUP} == set(re.findall(r"`(qanat\.(?!client|testing)\w+)`", PAGE))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip())
def test_every_feature_is_stable_with_a_promise_or_preview_without_one(row: list[str]) -> None:
    state, promise = (cell.strip() for cell in row[1:3])

    assert (state, bool(promise)) in (("stable", True), ("preview", False))
