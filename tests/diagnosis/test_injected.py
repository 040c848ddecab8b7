"""Real brokers with a bottleneck each: `qanat diagnose` names it, and is silent where nothing is wrong."""

from __future__ import annotations

import shutil

import pytest
from verify.diagnosis.__main__ import NEEDED, is_named, watch_health
from verify.diagnosis.cases import CASES

WINDOW_S = 6.0

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler, so no disk can be made slow"),
]


@pytest.mark.timeout(900)
def test_nine_of_ten_injected_bottlenecks_are_named() -> None:
    missed = [one.cause for one in CASES if not is_named(one, WINDOW_S)]

    assert len(missed) <= round((1 - NEEDED) * len(CASES)), missed


@pytest.mark.timeout(300)
def test_a_healthy_cluster_is_met_with_silence() -> None:
    assert watch_health(20.0, WINDOW_S) == []
