"""Administration over HTTP: what is asked for is done, seen by what the broker says and does afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from tests.servers.http.serving import Answer, ServedNode, node_settings, served


@pytest.fixture(scope="module")
def node() -> Iterator[ServedNode]:
    """One of its own: what is listed here must be all there is."""
    with served(node_settings()) as running:
        yield running


def create(node: ServedNode, name: str, **more: object) -> None:
    answer = node.post("/api/v1/topics", {"name": name, "replication_factor": 1, **more})
    assert answer.status in (200, 201), answer.body


def done(answer: Answer) -> Any:
    assert answer.status == 200, answer.body
    return answer.json


def test_a_list_comes_page_by_page_each_topic_once(node: ServedNode) -> None:
    names = [f"page-{number}" for number in range(5)]
    for name in names:
        create(node, name)

    listed, path = list[str](), "/api/v1/topics?limit=2"
    while True:
        page = done(node.get(path))
        assert len(page["topics"]) <= 2
        listed += [topic["name"] for topic in page["topics"]]
        if page["next_page_token"] is None:
            break
        path = f"/api/v1/topics?limit=2&page_token={page['next_page_token']}"

    assert len(listed) == len(set(listed))
    assert set(names) <= set(listed)


def test_a_topic_is_altered_grown_and_deleted(node: ServedNode) -> None:
    create(node, "changing", partitions=2)

    done(node.call("PATCH", "/api/v1/topics/changing", {"configs": {"retention.ms": "60000"}}))
    assert done(node.get("/api/v1/topics/changing"))["configs"] == {"retention.ms": "60000"}
    done(node.post("/api/v1/topics/changing/partitions", {"partitions": 4}))
    described = done(node.get("/api/v1/topics/changing"))
    assert [one["partition"] for one in described["partition_details"]] == [0, 1, 2, 3]
    fewer = node.post("/api/v1/topics/changing/partitions", {"partitions": 3})
    assert (fewer.status, fewer.json["error"]) == (400, "INVALID_PARTITIONS")

    done(node.call("DELETE", "/api/v1/topics/changing"))
    assert node.get("/api/v1/topics/changing").status == 404


def test_records_are_deleted_before_an_offset(node: ServedNode) -> None:
    create(node, "shrinking", partitions=1)
    node.post("/api/v1/topics/shrinking/records", [{"value": number} for number in range(6)])

    done(node.call("DELETE", "/api/v1/topics/shrinking/records", {"offsets": {"0": 4}}))

    assert done(node.get("/api/v1/topics/shrinking"))["partition_details"][0]["earliest_offset"] == 4
    kept = done(node.get("/consume?topic=shrinking&partition=0&offset=earliest"))
    assert [message["value"] for message in kept["messages"]] == [4, 5]


@pytest.mark.parametrize(
    ("of", "name", "value"),
    [
        ("topics/configured", "retention.ms", "1234"),
        ("brokers/all", "log.retention.ms", "5678"),
        ("groups/configured", "share.record.lock.duration.ms", "20000"),
    ],
)
def test_settings_are_changed_and_go_back_to_their_default(node: ServedNode, of: str, name: str, value: str) -> None:
    if of.startswith("topics/"):
        create(node, "configured")

    def in_force() -> Any:
        rows = {row["name"]: row for row in done(node.get(f"/api/v1/configs/{of}"))["configs"]}
        return rows.get(name, {"value": None})["value"]

    before = in_force()
    done(node.call("PATCH", f"/api/v1/configs/{of}", {"configs": {name: value}}))
    assert in_force() == value != before
    done(node.call("PATCH", f"/api/v1/configs/{of}", {"configs": {name: None}}))
    assert in_force() == before


def test_a_group_is_listed_described_with_its_lag_and_deleted(node: ServedNode) -> None:
    create(node, "lagging", partitions=1)
    node.post("/api/v1/topics/lagging/records", [{"value": number} for number in range(10)])
    offset = {"topic": "lagging", "partition": 0, "offset": 3}
    done(node.post("/api/v1/groups/behind/offsets", {"offsets": [offset]}))

    assert "behind" in [group["group"] for group in done(node.get("/api/v1/groups"))["groups"]]
    described = done(node.get("/api/v1/groups/behind"))
    assert ([row["lag"] for row in described["partitions"]], described["total_lag"]) == ([7], 7)
    (fetched,) = done(node.get("/api/v1/groups/behind/offsets"))["offsets"]
    assert fetched["offset"] == 3
    done(node.call("DELETE", "/api/v1/groups/behind"))
    assert node.get("/api/v1/groups/behind").status == 404


def test_the_cluster_and_its_brokers_are_described(node: ServedNode) -> None:
    cluster, brokers = done(node.get("/api/v1/cluster")), done(node.get("/api/v1/brokers"))

    assert cluster["controller_id"] == 0
    assert [(one["node_id"], one["port"]) for one in brokers["brokers"]] == [(0, node.node.listener.port)]
    assert node.get("/api/v1/brokers/7").status == 404


def test_a_transaction_is_listed_described_and_aborted_under_its_producer(node: ServedNode) -> None:
    create(node, "ledger", partitions=1)
    address = f"127.0.0.1:{node.node.listener.port}"
    producer = Producer({"bootstrap.servers": address, "transactional.id": "accountant"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("ledger", b"never seen")
    assert producer.flush(30) == 0

    (listed,) = done(node.get("/api/v1/transactions"))["transactions"]
    assert listed["transactional_id"] == "accountant"
    described = done(node.get("/api/v1/transactions/accountant"))
    assert described["state"] == "Ongoing", described
    done(node.post("/api/v1/transactions/accountant/abort"))

    with pytest.raises(KafkaException):
        producer.commit_transaction(30)
    assert done(node.get("/consume?topic=ledger&partition=0&offset=earliest"))["messages"] == []
    assert node.get("/api/v1/transactions/nobody").status == 404
