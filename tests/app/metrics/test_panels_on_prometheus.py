"""Every panel's query on a real Prometheus that scrapes a cluster of three, with load on it: none is empty."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.app.processes import RunningBroker
from tests.servers.http.test_cluster import call, cluster, free_port, wait_for_three  # noqa: F401
from tools.toolchains.prometheus import have_prometheus
from tools.toolchains.registries import MissingToolError

from qanat.app.metrics.panel_table import DASHBOARDS, SPARK
from qanat.app.metrics.rules import rules_text

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
QUERIES = [query for one in DASHBOARDS if one is not SPARK for panel in one.panels for query, _ in panel.queries]
MAY_BE_EMPTY = ("qanat_request_errors_total",)
"""Where nothing goes wrong, nothing is counted."""
PATIENCE_S = 180


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return have_prometheus()
    except MissingToolError as reason:
        pytest.skip(f"the panels are not tried: {reason}")


@contextlib.contextmanager
def prometheus(program: Path, folder: Path, targets: list[str]) -> Iterator[str]:
    """A Prometheus that scrapes these addresses every second, with our rules."""
    (folder / "rules.yml").write_text(rules_text())
    job = {"job_name": "qanat", "static_configs": [{"targets": targets}]}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.yml")],
        "scrape_configs": [job],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    flags = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    line = [str(program), *flags, f"--web.listen-address={address}"]
    with (folder / "prometheus.log").open("wb") as log, subprocess.Popen(line, stdout=log, stderr=log) as process:
        try:
            yield f"http://{address}"
        finally:
            process.terminate()


def asked(address: str, query: str) -> list[object]:
    """The result of a query; nothing while Prometheus starts."""
    url = f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            found: list[object] = json.loads(answer.read())["data"]["result"]
            return found
    except OSError:
        return []


def use(brokers: list[RunningBroker], round_number: int) -> None:
    """Records, a group and a queue, so that every panel has something to show."""
    servers = ",".join(broker.address for broker in brokers)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "panels"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(30):
        producer.produce("orders", b"%d" % number, partition=number % 3)
    producer.commit_transaction(60)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "readers"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    assert consumer.poll(60) is not None
    consumer.commit(offsets=[TopicPartition("orders", 0, round_number)], asynchronous=False)
    consumer.close()
    body = {"topics": ["orders"], "count": 1, "timeout_ms": 100}
    assert call(brokers[0], "POST", "/api/v1/queues/workers/acquire", body)[0] == 200


def test_no_panel_is_empty(program: Path, cluster: list[RunningBroker], tmp_path: Path) -> None:  # noqa: F811
    wait_for_three(cluster[0])
    wanted = {"name": "orders", "partitions": 3, "replication_factor": 3}
    assert call(cluster[0], "POST", "/api/v1/topics", wanted)[0] == 201
    targets = [str(broker.started["http"]).removeprefix("http://") for broker in cluster]
    empty = [query for query in QUERIES if not any(name in query for name in MAY_BE_EMPTY)]
    deadline = time.monotonic() + PATIENCE_S
    with prometheus(program, tmp_path, targets) as address:
        round_number = 0
        while empty:
            assert time.monotonic() < deadline, empty
            use(cluster, round_number)
            round_number += 1
            empty = [query for query in empty if not asked(address, query)]
        firing = asked(address, 'ALERTS{alertstate="firing"}')

    assert firing == []
