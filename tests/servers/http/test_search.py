"""Search: records that meet a condition, a bounded piece with each request."""

from __future__ import annotations

import socket
import time
from typing import Any
from urllib.parse import quote

import pytest
from tests.servers.http.serving import TIMEOUT_S, ServedNode

TOPIC = "searched"
COUNT = 3000


@pytest.fixture(scope="module")
def node_with_topic(node: ServedNode) -> ServedNode:
    node.post("/api/v1/topics", {"name": TOPIC, "partitions": 3})
    for begin in range(0, COUNT, 500):
        rows = [{"key": f"k{n}", "value": {"n": n}, "headers": {"odd": str(n % 2)}} for n in range(begin, begin + 500)]
        assert node.post(f"/api/v1/topics/{TOPIC}/records", rows).status == 200
    return node


def search(node: ServedNode, **query: object) -> Any:
    text = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
    return node.get(f"/api/v1/topics/{TOPIC}/search?{text}")


def search_all(node: ServedNode, **query: object) -> list[int]:
    found: list[int] = []
    answer = search(node, **query).json
    while True:
        found += [one["value"]["n"] for one in answer["messages"]]
        if answer["is_complete"]:
            assert answer["left"] == 0
            return sorted(found)
        answer = search(node, **query, cursor=answer["next_cursor"]).json


def test_a_search_finds_each_record_once_in_pieces(node_with_topic: ServedNode) -> None:
    assert search_all(node_with_topic, where="json.n % 100 == 7", count=4) == list(range(7, COUNT, 100))
    assert search_all(node_with_topic, where='headers["odd"] == "1" and json.n < 10') == [1, 3, 5, 7, 9]
    assert search_all(node_with_topic, where='key == "k12"') == [12]
    assert search_all(node_with_topic, count=1000) == list(range(COUNT))


def test_partitions_larger_than_one_answer_are_read_to_their_ends(node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "large", "partitions": 3})
    for number in range(12):
        rows = [{"value": {"n": number, "fill": "x" * 30_000}, "partition": number % 3} for _ in range(20)]
        assert node.post("/api/v1/topics/large/records", rows).status == 200

    found = node.get(f"/api/v1/topics/large/search?where={quote('json.n < 0')}&budget_ms=5000").json

    assert (found["scanned"], found["is_complete"], found["left"]) == (240, True, 0)


def test_skipped_batches_count_as_read_and_ranges_within_them_hold(node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "skipped", "partitions": 1})
    rows = [{"key": f"k{n}", "value": {"who": "ann" if n == 30 else "bob"}, "partition": 0} for n in range(50)]
    for part in (rows[:20], rows[20:]):
        assert node.post("/api/v1/topics/skipped/records", part).status == 200

    def scanned(place: str, where: str = 'json.who == "ann"') -> tuple[int, list[int]]:
        answer = node.get(f"/api/v1/topics/skipped/search?where={quote(where)}&budget_ms=5000&{place}").json
        assert answer["is_complete"]
        return answer["scanned"], [one["offset"] for one in answer["messages"]]

    assert scanned("from=earliest") == (50, [30])
    assert scanned("from=offset:7&until=offset:31") == (24, [30])
    assert scanned("from=offset:7&until=offset:30") == (23, [])
    assert scanned("from=earliest", 'key == "k3"') == (50, [3])
    assert scanned("from=earliest", 'json.who == "eve"') == (50, [])


def test_a_small_budget_ends_a_request_not_the_search(node_with_topic: ServedNode) -> None:
    first = search(node_with_topic, where="json.n < 0", budget_ms=1).json

    assert not first["is_complete"]
    assert 0 <= first["scanned"] < COUNT
    assert search_all(node_with_topic, where="json.n == 2999", budget_ms=5) == [2999]


def test_ranges_and_partitions_bound_a_search(node_with_topic: ServedNode) -> None:
    answer = search(node_with_topic, partition=1, **{"from": "offset:5"}, until="offset:8", count=10).json

    assert [(one["partition"], one["offset"]) for one in answer["messages"]] == [(1, 5), (1, 6), (1, 7)]
    assert answer["is_complete"]
    newest = search(node_with_topic, last=1).json["messages"]
    assert sorted(one["partition"] for one in newest) == [0, 1, 2]
    assert COUNT - 1 in [one["value"]["n"] for one in newest]
    assert search(node_with_topic, **{"from": "latest"}).json["messages"] == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"where": "matches(value, '(a+)+$')"}, "is not understood"),
        ({"where": "open('/etc/passwd')"}, "is not understood"),
        ({"from": "offset:x"}, "offset:17"),
        ({"partition": 9}, "no partition 9"),
        ({"cursor": "far"}, "no cursor"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_a_sentence(
    node_with_topic: ServedNode, query: dict[str, object], words: str
) -> None:
    answer = search(node_with_topic, **query)

    assert answer.status in (400, 404)
    assert words in answer.json["detail"]


def test_a_search_ends_when_its_client_goes(node_with_topic: ServedNode) -> None:
    path = f"/api/v1/topics/{TOPIC}/search?where={quote('json.n < 0')}&budget_ms=5000"
    context = node_with_topic.node.http.context  # type: ignore[union-attr]
    node_with_topic.run(context.searching.acquire())  # So that it waits for its turn until we let it.
    try:
        with socket.create_connection(("127.0.0.1", node_with_topic.port)) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            deadline = time.monotonic() + TIMEOUT_S
            while not context.searching._waiters:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        deadline = time.monotonic() + TIMEOUT_S
        while any(not one.done() for one in context.searching._waiters or ()):
            assert time.monotonic() < deadline, "it still waits for its turn, which never comes"
            time.sleep(0.01)
    finally:
        node_with_topic.loop.call_soon_threadsafe(context.searching.release)


def test_requests_are_answered_while_a_search_reads(node_with_topic: ServedNode) -> None:
    began = time.monotonic()
    for _ in range(3):
        search(node_with_topic, where="json.n < 0 or value == 'x' or len(key) > 9", budget_ms=200)
        assert node_with_topic.post("/produce", {"topic": "beside", "value": 1}).status == 200

    assert time.monotonic() - began < TIMEOUT_S
