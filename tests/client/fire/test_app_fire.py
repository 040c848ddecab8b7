"""An app under fire, shortly: on Qanat and on Apache Kafka. Longer: `make app-fire`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.kafka_jars import JarsUnavailableError
from verify.app_fire.conductor import work_under_fire
from verify.app_fire.sides import SIDES, Side, brokers_of

pytestmark = pytest.mark.long


@pytest.mark.parametrize("side", SIDES)
def test_nothing_is_lost_doubled_or_out_of_order_while_workers_and_brokers_are_killed(
    side: Side, tmp_path: Path
) -> None:
    try:
        brokers = brokers_of(side, tmp_path)
    except JarsUnavailableError as fault:
        pytest.skip(f"Kafka does not judge here: {fault}")
    with brokers:
        outcome = work_under_fire(tmp_path, brokers, records=1_500, faults=8, seed=1)

    assert outcome.problems() == []
    assert outcome.done == {"worker": 3, "rebalance": 2, "broker": 2, "freeze": 1}
