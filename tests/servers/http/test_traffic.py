"""Sizes, rates and lag in listings; windows of long listings."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import pytest
from tests.servers.http.serving import ServedNode

from qanat.servers.http.admin.rate_history import RateRing


def listed(node: ServedNode, query: str) -> Any:
    answer = node.get(f"/api/v1/topics?search=traffic&{query}")
    assert answer.status == 200, answer.body
    return answer.json


@pytest.fixture(scope="module")
def topics(node: ServedNode) -> list[str]:
    names = [f"traffic-{number}" for number in range(5)]
    for number, name in enumerate(names):
        node.post("/api/v1/topics", {"name": name, "partitions": 2})
        node.post(f"/api/v1/topics/{name}/records", [{"value": "x" * 100} for _ in range(10 * (number + 1))])
    node.post("/api/v1/groups/traffic-readers/offsets", {"offsets": [{"topic": names[1], "partition": 0, "offset": 1}]})
    return names


def wait_for(node: ServedNode, query: str, is_there: Any) -> Any:
    """The listing, once a pass has seen what the test did."""
    deadline = time.monotonic() + 40
    while not is_there(found := listed(node, query)):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    return found


def test_a_listing_without_traffic_computes_none(node: ServedNode, topics: list[str]) -> None:
    page = listed(node, "limit=2")

    assert [row["name"] for row in page["topics"]] == topics[:2]
    assert (page["total"], page["topics"][0]["traffic"]) == (5, None)


def test_topics_are_listed_by_size_the_largest_first(node: ServedNode, topics: list[str]) -> None:
    page = wait_for(
        node, "sort=size_bytes", lambda found: sum(row["traffic"]["records"] for row in found["topics"]) == 150
    )

    assert [row["name"] for row in page["topics"]] == topics[::-1]
    sizes = [row["traffic"]["size_bytes"] for row in page["topics"]]
    assert sizes == sorted(sizes, reverse=True)
    assert [row["name"] for row in listed(node, "sort=size_bytes&reverse=true")["topics"]] == topics


def test_a_window_may_begin_anywhere_and_its_token_goes_on(node: ServedNode, topics: list[str]) -> None:
    wait_for(node, "sort=records", lambda found: found["topics"][0]["traffic"]["records"] == 50)
    window = listed(node, "sort=records&offset=1&limit=2")
    rest = listed(node, f"sort=records&page_token={quote(window['next_page_token'])}")

    assert [row["name"] for row in window["topics"] + rest["topics"]] == topics[3::-1]
    backwards = listed(node, "reverse=true&limit=2")
    rest = listed(node, f"reverse=true&page_token={backwards['next_page_token']}")
    assert [row["name"] for row in backwards["topics"] + rest["topics"]] == topics[::-1]


def test_the_lag_of_a_topic_is_that_of_its_slowest_group(node: ServedNode, topics: list[str]) -> None:
    page = wait_for(node, "sort=lag", lambda found: found["topics"][0]["traffic"]["lag"])
    first = page["topics"][0]
    latest = node.get(f"/consume?topic={topics[1]}&partition=0&offset=latest").json["next_offset"]

    assert (first["name"], first["traffic"]["lag"]) == (topics[1], latest - 1)


def test_rates_are_those_between_two_passes(node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "rated", "partitions": 1})
    node.get("/api/v1/topics/rated/traffic")
    deadline, written = time.monotonic() + 40, 0
    while not (found := node.get("/api/v1/topics/rated/traffic").json)["history"]:
        assert time.monotonic() < deadline
        node.post("/api/v1/topics/rated/records", [{"value": "x" * 1000}] * 10)
        written += 10
        time.sleep(0.1)

    assert 0 < found["history"][0]["records_per_s"] < 10 * 30
    assert found["traffic"]["bytes_per_s"] > 900 * found["traffic"]["records_per_s"]
    assert found["partitions"][0]["latest_offset"] <= written
    cluster = node.get("/api/v1/cluster/traffic").json
    assert cluster["last_hour"]
    assert cluster["brokers"][0]["leaders"] == cluster["partitions"]


def test_history_is_bounded_and_counts_what_it_skips() -> None:
    ring = RateRing(every_ms=10, limit=3)
    for at_ms in range(0, 100, 5):
        ring.add(at_ms, float(at_ms), 1.0)

    assert [(point.at_ms, point.records_per_s) for point in ring.points()] == [(70, 67.5), (80, 77.5), (90, 87.5)]
