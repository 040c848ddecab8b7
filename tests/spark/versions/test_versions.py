"""Every way to use Qanat from Spark, with every supported version, in classic sessions and in those of Spark Connect.

Each version and kind of session is one process, which runs all workloads.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest
from tests.interop.conftest import ROOT
from tests.spark.conftest import FOREVER
from tests.spark.versions.workloads import RECORDS
from tools.spark_versions import SUPPORTED, SparkUnavailableError, python_with_spark

from qanat.spark.session import require_java
from qanat.testing import EmbeddedBroker

pytestmark = pytest.mark.long

FOUND = {
    "write": RECORDS,
    "read": RECORDS,
    "write, exactly once": RECORDS,
    "stream": RECORDS,
    "stream, exactly once": RECORDS,
    "metrics": 10 + 2 + 1,
    "archive": RECORDS,
    "replay": RECORDS,
    "mirror": RECORDS,
    "yaml": RECORDS - 100,
}
"""The records at the end of each workload: of `metrics`, the windows of ten minutes."""
TOPICS = ("numbers", "once", "streamed", "streamed-once", "metrics.inbound")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("versions")


@cache
def ran(version: str, kind: str, folder: Path) -> dict[str, int | str]:
    """What each workload found."""
    python = python_with_spark(version)
    place = folder / f"{version}-{kind}"
    place.mkdir()
    with EmbeddedBroker() as broker, EmbeddedBroker() as other:
        for topic in TOPICS:
            broker.create_topic(topic, partitions=2, configs=FOREVER)
        command = [str(python), "-m", "tests.spark.versions.workloads", kind]
        command += [broker.bootstrap_servers, other.bootstrap_servers, str(place)]
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        environment = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=1200)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stderr[-3000:]
    assert lines[0]["spark"].startswith(f"{version}.")
    return {line["workload"]: line["found"] for line in lines[1:]}


@pytest.mark.parametrize("workload", FOUND)
@pytest.mark.parametrize("kind", ["classic", "connect"])
@pytest.mark.parametrize("version", SUPPORTED)
def test_every_workload_runs_in_every_session(version: str, kind: str, workload: str, folder: Path) -> None:
    require_java()
    try:
        found = ran(version, kind, folder)
    except SparkUnavailableError as fault:
        pytest.skip(f"PySpark {version} is not here: {fault}")
    assert found.get(workload) == FOUND[workload], f"{workload}: {found.get(workload)}"
