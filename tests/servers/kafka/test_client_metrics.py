"""Real clients push their metrics (KIP-714); HTTP and /metrics show them by client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tests.servers.http.serving import ServedNode, node_settings, served
from tests.servers.kafka.raw import RawClient
from tests.wire.otlp_writing import gauge, payload, point

from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages import api_versions, get_telemetry_subscriptions, push_telemetry
from qanat.wire.kafka.registry import ApiKey

HOSTILE = '"} evil{a="<script>\n\\'


@pytest.fixture(scope="module")
def node() -> Iterator[ServedNode]:
    with served(node_settings()) as running:
        running.post("/api/v1/topics", {"name": "orders", "partitions": 1})
        body = {"configs": {"metrics": "org.apache.kafka.,m", "interval.ms": 300}}
        assert running.call("PATCH", "/api/v1/configs/client-metrics/all", body).status == 200
        yield running


def clients(node: ServedNode, search: str, is_ready: Any = bool) -> list[Any]:
    """The clients that are found, once they are as they should be."""
    until = time.monotonic() + 60
    while True:
        found = node.get(f"/api/v1/clients?search={search}").json["clients"]
        if found and is_ready(found[0]):
            return list(found)
        assert time.monotonic() < until, found
        time.sleep(0.05)


def test_librdkafka_pushes_and_is_shown_by_client(node: ServedNode) -> None:
    settings = {"bootstrap.servers": f"127.0.0.1:{node.node.listener.port}", "enable.metrics.push": True}
    producer = Producer({**settings, "client.id": "billing"})
    consumer = Consumer({**settings, "client.id": "reports", "group.id": "g"})
    try:
        consumer.subscribe(["orders"])
        producer.produce("orders", b"x")
        producer.flush()
        consumer.poll(0.1)
        (found,) = clients(node, "billing", lambda one: one["pushes"] > 1)
        (other,) = clients(node, "reports", lambda one: one["pushes"] > 0)
    finally:
        consumer.close()
    assert found["software_name"] == "confluent-kafka-python"
    assert found["metrics"] == ["m", "org.apache.kafka."]
    assert (found["last_error"], other["last_error"]) == (None, None)
    described = node.get(f"/api/v1/clients/{found['client_instance_id']}").json
    names = {one["name"] for one in described["series"]}
    assert "org.apache.kafka.producer.connection.creation.total" in names
    text = node.get("/metrics").body.decode()
    line = 'qanat_client_metric{metric="org.apache.kafka.producer.connection.creation.total",client_id="billing"'
    assert line in text
    assert "qanat_client_metrics_clients 2" in text


def test_what_a_client_says_of_itself_is_text_and_nothing_more(node: ServedNode) -> None:
    with RawClient(f"127.0.0.1:{node.node.listener.port}") as client:
        client.ask(ApiKey.API_VERSIONS, 3, api_versions.ApiVersionsRequest("hand-made", "1.0"))
        request = get_telemetry_subscriptions.GetTelemetrySubscriptionsRequest()
        told = client.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, request)
        assert (told.error_code, told.push_interval_ms, told.delta_temporality) == (0, 300, False)
        assert told.requested_metrics == ["m", "org.apache.kafka."]
        hostile = gauge(HOSTILE, point(1.0, {HOSTILE: HOSTILE, "metric": "mine", "": "x"}))
        data = payload(hostile, gauge("m.nan", point(float("nan"))), gauge("m.inf", point(float("-inf"))))
        push = push_telemetry.PushTelemetryRequest(told.client_instance_id, told.subscription_id, False, 0, data)
        assert client.ask(ApiKey.PUSH_TELEMETRY, 0, push).error_code == 0
        again = client.ask(ApiKey.PUSH_TELEMETRY, 0, push)
        assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    text = node.get("/metrics").body.decode()
    lines = [line for line in text.splitlines() if "evil" in line]
    assert len(lines) == 1
    assert lines[0].startswith("qanat_client_metric{")
    assert 'client_metric="mine"' in lines[0]
    (found,) = clients(node, "hand-made")
    described = node.get(f"/api/v1/clients/{found['client_instance_id']}").json
    values = {one["name"]: one["value"] for one in described["series"]}
    assert values == {HOSTILE: 1.0, "m.nan": None, "m.inf": None}
    assert found["software_version"] == "1.0"


def test_wrong_ids_and_unknown_clients_are_refused_with_a_sentence(node: ServedNode) -> None:
    wrong = node.get("/api/v1/clients/nobody")
    absent = node.get("/api/v1/clients/00000000-0000-0000-0000-0000000000ff")

    assert (wrong.status, "is no client instance id" in wrong.json["detail"]) == (400, True)
    assert (absent.status, "no client" in absent.json["detail"]) == (404, True)
    refused = node.call("PATCH", "/api/v1/configs/client-metrics/x", {"configs": {"match": "client_id=(a+)+"}})
    assert (refused.status, "could take too long" in refused.json["detail"]) == (400, True)


def test_a_subscription_ends_when_its_settings_are_gone(node: ServedNode) -> None:
    path = "/api/v1/configs/client-metrics/brief"
    assert node.call("PATCH", path, {"configs": {"metrics": "x"}}).status == 200
    assert node.get("/api/v1/configs/client-metrics").json["names"] == ["all", "brief"]
    assert node.call("PATCH", path, {"configs": {"metrics": None}}).status == 200
    assert node.get("/api/v1/configs/client-metrics").json["names"] == ["all"]
