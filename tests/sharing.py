"""How tests are shared out to workers: what is dear to set up is set up once, and what takes long begins first.

A file's tests stay together, so that a broker for the tests of a module is started by one worker. Tests on Spark stay
together, too: a session's Java costs half a minute of processor time before it has warmed up, whichever worker has it.
Tests of what runs beside Spark do not need it, and go to other workers.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[1]
_SPARK = "tests/spark"
_NEEDS_SPARK = re.compile(r"\bSparkSession\b|\bqanat_(?:spark|pipeline)\b")
_OWN_SPARK = "tests/spark/test_fire.py"
"""Has clusters of its own."""
_RUNS, _BITS = "tests/sim/test_cluster_runs.py", "tests/log/test_flipped_bits.py"
_ONE_BY_ONE = (_RUNS, _BITS)
"""Share nothing, and each takes long."""
LONG = (
    _OWN_SPARK,
    _SPARK,
    "tests/wire/kafka/test_kafka_judges_records.py",
    "tests/clients/test_matrix.py",
    "tests/servers/test_bad_input_large.py",
    _RUNS,
    _BITS,
    "tests/chaos/test_chaos.py",
    "tests/restart/test_power_loss.py",
    "tests/spark/pipelines/test_metrics_killed.py",
    "tests/spark/test_cluster.py",
)
"""Or the last worker would still be at one of these when all others have nothing left to do.

Kafka's records and the clients wait for what Maven and Go bring; the other workers have enough to do meanwhile.
"""


class Sharing(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each worker a share at a time, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)


def share_of(nodeid: str) -> str:
    """The name of the share that a test belongs to."""
    path, _, _ = nodeid.partition("::")
    if path in _ONE_BY_ONE:
        return nodeid
    return _SPARK if path.startswith(f"{_SPARK}/") and path != _OWN_SPARK and _needs_spark(path) else path


@functools.cache
def _needs_spark(path: str) -> bool:
    return _NEEDS_SPARK.search((ROOT / path).read_text()) is not None


def place_of(nodeid: str) -> int:
    """Those that take long come first, in this order; all others behind them, as they are."""
    share = share_of(nodeid).partition("::")[0]
    return LONG.index(share) if share in LONG else len(LONG)
