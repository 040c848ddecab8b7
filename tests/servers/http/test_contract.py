"""The contract that others were given: the commands as they are printed there, run by a real curl."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.app.processes import running_broker

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")

PRINTED = """
curl -X POST http://localhost:8080/api/v1/topics \\
     -H "Content-Type: application/json" \\
     -d '{
       "name": "test-topic",
       "partitions": 10,
       "replication_factor": %d
     }'
"""


class Shell:
    """Commands as they are printed, with the port of this broker for 8080."""

    def __init__(self, address: str) -> None:
        self._port = address.rpartition(":")[2]

    def __call__(self, command: str) -> Any:
        line = command.strip().replace("localhost:8080", f"127.0.0.1:{self._port}")
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def curl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder: Path = tmp_path_factory.mktemp("contract")
    with running_broker(folder, "--port", "0", "-X", "http.port=0") as broker:
        yield Shell(str(broker.started["http"]))


def test_the_quick_start_commands_work_against_a_fresh_broker(curl: Shell) -> None:
    health = curl("curl http://localhost:8080/health")
    assert (health["status"], health["live"], health["ready"]) == ("HEALTHY", True, True)

    refused = curl(PRINTED % 3)
    assert refused["status"] == 400
    assert "only 1 broker(s) are registered" in refused["detail"]
    assert "ask for a replication_factor of at most the number of brokers" in refused["detail"]

    made = curl(PRINTED % 1)
    assert (made["name"], made["partitions"], made["replication_factor"]) == ("test-topic", 10, 1)


def test_produce_consume_and_subscribe_answer_in_the_words_of_the_contract(curl: Shell) -> None:
    produced = curl(
        """curl -X POST http://localhost:8080/produce -H "Content-Type: application/json" \\
        -d '{"topic": "metrics.inbound", "key": "client_123", "value": {"cpu": 0.5}}'"""
    )
    assert set(produced) == {"partition", "offset"}
    assert produced["offset"] == 0
    number = produced["partition"]

    consumed = curl(f"curl 'http://localhost:8080/consume?topic=metrics.inbound&partition={number}&offset=0&count=100'")
    assert set(consumed) == {"messages", "next_offset"}
    assert consumed["next_offset"] == 1
    (message,) = consumed["messages"]
    assert (message["key"], message["value"], message["offset"]) == ("client_123", {"cpu": 0.5}, 0)

    subscribed = curl(
        """curl -X POST http://localhost:8080/subscribe -H "Content-Type: application/json" \\
        -d '{"group": "storage-workers", "topics": ["metrics.inbound"]}'"""
    )
    assert subscribed["assigned_partitions"] == [0, 1, 2, 3]
    assert subscribed["assignment"] == {"metrics.inbound": [0, 1, 2, 3]}
    assert subscribed["member_id"]
    assert subscribed["session_timeout_ms"] == 30_000


def test_without_a_topic_consume_lists_those_there_are(curl: Shell) -> None:
    curl(PRINTED.replace("test-topic", "another") % 1)

    refused = curl("curl 'http://localhost:8080/consume?partition=3&offset=12847&count=100'")

    assert refused["status"] == 400
    assert "another" in refused["topics"]
    assert "add topic=NAME" in refused["detail"]
