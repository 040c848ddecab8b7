"""A standalone cluster of Spark, with Qanat shipped to its executors as an archive."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.interop.conftest import ROOT

from qanat.testing import EmbeddedBroker

pytestmark = [pytest.mark.long, pytest.mark.data]

JOB = """
import sys
from pathlib import Path
from qanat.spark.session import session
from qanat.spark.shipping import pack, settings

master, bootstrap, folder = sys.argv[1:]
archive = Path(folder) / "qanat-lib.tar.gz"
pack(archive)
here = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
spark = session("cluster", master, {**settings(archive), **here, "spark.executor.memory": "512m"})
access = {"kafka.bootstrap.servers": bootstrap}
rows = spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) value")
staging = {"delivery": "exactly-once", "stagingLocation": folder + "/staging"}
rows.write.format("qanat").mode("append").options(**access, topic="orders", **staging).save()
found = spark.read.format("qanat").options(**access, subscribe="orders").load()

def where(batches):
    import pyarrow as pa
    import qanat
    from qanat.wire import column_reader
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"package": [qanat.__file__], "core": [column_reader.__file__]})

print("rows", found.count())
for row in found.mapInArrow(where, "package string, core string").distinct().collect():
    print("package", row.package)
    print("core", row.core)
spark.stop()
"""


def test_executors_run_what_was_shipped_to_them(tmp_path: Path) -> None:
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from tools.spark_cluster import standalone_cluster

    with EmbeddedBroker() as broker, standalone_cluster(tmp_path) as master:
        broker.create_topic("orders", partitions=2)
        job = [sys.executable, "-c", JOB, master, broker.bootstrap_servers, str(tmp_path)]
        done = subprocess.run(job, capture_output=True, text=True, timeout=500, check=False)

    assert done.returncode == 0, done.stderr[-3000:]
    printed = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert printed["rows"] == "1000"
    assert printed["package"].startswith(str(tmp_path / "work"))
    assert printed["core"].startswith(str(tmp_path / "work"))
