"""Runs of pipelines over HTTP, as their topic has them."""

from __future__ import annotations

import time

import msgspec
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families
from tests.servers.http.serving import ServedNode

from qanat.model.pipeline_runs import QueryState, RunState, TopicLag, past_entries, state_entry
from qanat.model.topic_names import PIPELINES_TOPIC


def test_without_runs_the_list_is_empty(node: ServedNode) -> None:
    assert node.get("/api/v1/pipelines").json == {"pipelines": [], "next_page_token": None}
    assert node.get("/api/v1/pipelines/orders").json["detail"] == (
        "no pipeline orders has run in this cluster; there is none yet"
    )


def test_runs_are_listed_and_described_with_their_past(node: ServedNode) -> None:
    now = time.time_ns() // 1_000_000
    query = QueryState("orders-out", 2, 30, rows_per_second=4.0, lag={"orders": TopicLag(5, 1.5)})
    alive = RunState(name="orders", run_id="b", phase="running", updated_ms=now, started_ms=now, queries=[query])
    silent = RunState(name="old", run_id="c", phase="running", updated_ms=now - 61_000)
    before = RunState(name="orders", run_id="a", phase="failed", error="a disk is full", started_ms=1, ended_ms=2)
    assert node.post("/api/v1/topics", {"name": PIPELINES_TOPIC, "partitions": 1}).status == 201
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.node.listener.port}"})
    for key, value in [state_entry(alive), state_entry(silent), *past_entries(before, [])]:
        producer.produce(PIPELINES_TOPIC, value, key)
    assert producer.flush(60) == 0

    listed = node.get("/api/v1/pipelines").json["pipelines"]
    described = node.get("/api/v1/pipelines/orders").json
    nearest = node.get("/api/v1/pipelines/order")

    page = node.get("/metrics/pipelines").body.decode()
    samples = {
        (one.name, *one.labels.values()): one.value
        for family in text_string_to_metric_families(page)
        for one in family.samples
    }

    assert (samples["qanat_pipeline_up", "orders"], samples["qanat_pipeline_up", "old"]) == (1, 0)
    assert samples["qanat_pipeline_topic_lag_seconds", "orders", "orders-out", "orders"] == 1.5
    assert [(one["name"], one["state"]) for one in listed] == [("old", "lost"), ("orders", "running")]
    assert (listed[1]["rows"], listed[1]["lag_records"], listed[1]["lag_seconds"]) == (30, 5, 1.5)
    assert msgspec.convert(described["run"], RunState) == alive
    assert [(one["run_id"], one["state"], one["error"]) for one in described["history"]] == [
        ("a", "failed", "a disk is full")
    ]
    assert (nearest.status, nearest.json["detail"]) == (
        404,
        "no pipeline order has run in this cluster; did you mean orders?",
    )
