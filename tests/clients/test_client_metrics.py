"""Java's own client pushes its metrics (KIP-714), compressed."""

from __future__ import annotations

import subprocess
import time

import pytest
from tests.clients.java_client import java_command
from tests.fetching import Unavailable
from tests.servers.http.serving import node_settings, served


@pytest.mark.long
def test_javas_client_lists_subscriptions_and_pushes_what_they_want() -> None:
    try:
        command = java_command("ClientMetrics")
    except Unavailable as reason:
        pytest.skip(str(reason))
    with served(node_settings()) as node:
        node.post("/api/v1/topics", {"name": "orders", "partitions": 1})
        body = {"configs": {"metrics": "*", "interval.ms": 500, "match": "client_software_name=apache-kafka-java"}}
        assert node.call("PATCH", "/api/v1/configs/client-metrics/java", body).status == 200
        address = f"127.0.0.1:{node.node.listener.port}"
        with subprocess.Popen(
            [*command, address, "orders", "from-java"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as running:
            assert running.stdin is not None
            assert running.stdout is not None
            assert running.stdout.readline().strip() == "java"
            until = time.monotonic() + 40
            while True:
                clients = node.get("/api/v1/clients?search=from-java").json["clients"]
                if any(one["pushes"] > 1 and one["series"] > 20 for one in clients):
                    break
                assert time.monotonic() < until, clients
                time.sleep(0.2)
            running.stdin.write("\n")
            running.stdin.flush()
            instance = running.stdout.readline().strip()
            assert running.wait(30) == 0
        producers = [one for one in node.get("/api/v1/clients?search=from-java").json["clients"] if one["pushes"]]
        (producer,) = [one for one in producers if one["series"] > 20]
        assert (producer["software_name"], producer["last_error"]) == ("apache-kafka-java", None)
        assert len(instance) >= 20
        series = node.get(f"/api/v1/clients/{producer['client_instance_id']}").json["series"]
        names = {one["name"] for one in series}
        assert "org.apache.kafka.producer.record.send.total" in names
        (sent,) = [one for one in series if one["name"] == "org.apache.kafka.producer.record.send.total"]
        assert sent["value"] > 1
