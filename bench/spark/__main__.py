"""`python -m bench.spark`: the workloads on each side, and the table of rows a second."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tools.connector.fetching import Connector, ConnectorUnavailableError, have_connector
from tools.kafka_jars import JarsUnavailableError, have_jars

from bench.servers import Server, kafka, qanat
from bench.spark.memory import WorkerMemory
from bench.workloads import UNFLUSHED
from qanat.spark.session import require_java, session

PARTITIONS = 4
_LIMIT_S = 7200.0
_TWICE, _MOST = 2.0, 0.6
"""What is wanted: so many times the connector, so much of the ceiling."""
_BACKLOG_SIZE = 1000
_TOPICS = ["bench-read", *(f"bench-{kind}-{number}" for kind in ("write", "once") for number in range(4))]


def main() -> int:
    parser = argparse.ArgumentParser(description="Rows a second of format('qanat'), of Spark's connector, and at most.")
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--backlog-gb", type=float, default=10.0, help="how much a worker reads while it is measured")
    parser.add_argument("--skip-connector", action="store_true")
    given = parser.parse_args()
    require_java()
    seconds: dict[str, dict[str, list[float]]] = {}
    with TemporaryDirectory(prefix="bench-spark-") as scratch:
        for which, server, connector in _sides(given.skip_connector):
            print(f"running {which}{f' on {server}' if server else ''} ...", flush=True)
            found = _run(which, server, connector, given, Path(scratch) / which)
            seconds[which] = found["seconds"]
            print(f"  Spark {found['spark']}: " + json.dumps(found["seconds"]), flush=True)
        _print_table(seconds, given.records)
        if given.backlog_gb > 0:
            _measure_memory(Path(scratch) / "backlog", given.backlog_gb)
    return 0


def _sides(is_connector_skipped: bool) -> list[tuple[str, Server | None, Connector | None]]:
    sides: list[tuple[str, Server | None, Connector | None]] = [("ceiling", None, None), ("qanat", qanat(), None)]
    try:
        if not is_connector_skipped:
            sides.append(("kafka", kafka(have_jars()), have_connector()))
    except (JarsUnavailableError, ConnectorUnavailableError) as fault:
        print(f"without Spark's own connector on Apache Kafka, which cannot be had here: {fault}")
    return sides


def _run(which: str, server: Server | None, connector: Connector | None, given: Any, folder: Path) -> Any:
    with ExitStack() as stack:
        address = "-"
        if server is not None:
            address = stack.enter_context(server.running(folder)).address
            _make_topics(address)
        scratch = folder.with_name(f"{which}-scratch")
        root = Path(__file__).resolve().parents[2]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
        environment["PYTHONPATH"] = os.pathsep.join([str(root), environment.get("PYTHONPATH", "")])
        command = [str(Path(__file__).with_name("engine.py")), which, address, str(given.records), str(given.size)]
        command.append(str(scratch))
        python = sys.executable
        if connector is not None:
            python, command = str(connector.python), [*command, connector.class_path]
            del environment["PYTHONPATH"]
        done = subprocess.run(
            [python, *command], capture_output=True, text=True, timeout=_LIMIT_S, env=environment, check=False
        )
    if done.returncode:
        raise RuntimeError(f"{which}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def _make_topics(address: str) -> None:
    """The same on both sides: when to write to disk is left to the kernel, which is Kafka's default and not Qanat's."""
    admin = AdminClient({"bootstrap.servers": address})
    topics = [NewTopic(name, PARTITIONS, 1, config=dict(UNFLUSHED)) for name in _TOPICS]
    for future in admin.create_topics(topics).values():
        future.result(60)


def _print_table(seconds: dict[str, dict[str, list[float]]], records: int) -> None:
    print(f"\n{records:,} records, rows a second, median of 3 after one to warm up; topics with {UNFLUSHED}")
    print(f"{'':20}{'ceiling':>12}{'qanat':>12}{'connector':>12}{'of ceiling':>12}{'x connector':>12}")
    for workload, taken in seconds["qanat"].items():
        alike = "write" if workload.startswith("write") else workload
        ours = records / statistics.median(taken)
        most = records / statistics.median(seconds["ceiling"][alike])
        line = f"{workload:20}{most:12,.0f}{ours:12,.0f}"
        if "kafka" in seconds:
            theirs = records / statistics.median(seconds["kafka"][alike])
            line += f"{theirs:12,.0f}{ours / most:12.0%}{ours / theirs:12.2f}"
            is_met = ours >= _MOST * most and ours >= _TWICE * theirs
        else:
            line += f"{'-':>12}{ours / most:12.0%}{'-':>12}"
            is_met = ours >= _MOST * most
        print(line + ("" if is_met else "   not met"))


def _measure_memory(folder: Path, backlog_gb: float) -> None:
    """Read a backlog of one partition with one task, and look at its worker all the while."""
    records = int(backlog_gb * 1e9 / _BACKLOG_SIZE)
    with qanat().running(folder) as running, WorkerMemory() as memory:
        spark = session("backlog", "local[2]", {"spark.ui.enabled": "false", "spark.driver.memory": "2g"})
        # Whoever asks must stay until the answer is there.
        admin = AdminClient({"bootstrap.servers": running.address})
        admin.create_topics([NewTopic("backlog", 1, 1)])["backlog"].result(60)
        access = {"kafka.bootstrap.servers": running.address}
        rows = spark.range(0, records, 1, 2).selectExpr(f"cast(repeat('x', {_BACKLOG_SIZE}) as binary) value")
        rows.write.format("qanat").mode("append").options(**access, topic="backlog").save()
        memory.largest_mb = 0.0
        spark.read.format("qanat").options(**access, subscribe="backlog").load().write.format("noop").mode(
            "overwrite"
        ).save()
        spark.stop()
    print(f"\nlargest Python worker while {backlog_gb:g} GB of one partition were read: {memory.largest_mb:.0f} MB")


if __name__ == "__main__":
    sys.exit(main())
