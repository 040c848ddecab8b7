"""A whole node after a power cut, at a hundred moments of its life. Longer: python -m verify.restart power."""

from __future__ import annotations

from pathlib import Path

import pytest
from verify.restart.power import check_images, cut_images

IMAGES = 120


@pytest.mark.long
@pytest.mark.data
def test_what_was_acknowledged_before_a_power_cut_is_there_after_it(tmp_path: Path) -> None:
    ledger, images = cut_images(tmp_path, IMAGES, seed=1)
    assert len(images) >= IMAGES
    assert check_images(images, ledger) == []
    assert images[-1].mark.records > 100, "clients were promised too little to show anything"
    assert images[-1].mark.commits > 1
    assert images[-1].mark.topics > 1


@pytest.mark.long
@pytest.mark.data
def test_a_broker_that_answers_before_the_disk_does_is_found_out(tmp_path: Path) -> None:
    ledger, images = cut_images(tmp_path, 40, seed=2, log_flush_interval_messages="1000000")
    problems = check_images(images[10:], ledger)
    assert any("was acknowledged at" in problem for problem in problems)
    assert any("was committed at" in problem for problem in problems)
