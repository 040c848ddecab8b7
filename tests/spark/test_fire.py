"""An exactly-once Spark copy while processes are killed, in short. Longer, on a cluster: `make spark-fire`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.interop.conftest import ROOT

pytestmark = [pytest.mark.long, pytest.mark.data]

RECORDS = 9_000


def test_every_record_is_copied_once_and_in_order_while_driver_worker_and_broker_are_killed(tmp_path: Path) -> None:
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from verify.spark_fire.conductor import copy_under_kills

    kills = ["driver", "worker", "broker"]
    outcome = copy_under_kills(tmp_path, "local[2,20]", RECORDS, 1_500, kills, seed=1)

    assert outcome.problems == []
    assert {name: outcome.kills[name] for name in kills} == dict.fromkeys(kills, 1)
