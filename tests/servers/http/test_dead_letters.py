"""Dead letters over HTTP: listed by filter, and redriven exactly once."""

from __future__ import annotations

from collections import Counter

from tests.app.dead_letters.letters import committed_records, origins, write_letters
from tests.servers.http.serving import ServedNode

from qanat.model.dead_letters import Origin


def bootstrap(node: ServedNode) -> str:
    return f"127.0.0.1:{node.node.listener.port}"


def made(node: ServedNode, *names: str) -> None:
    for name in names:
        assert node.post("/api/v1/topics", {"name": name, "partitions": 2}).status == 201


def test_letters_are_listed_by_filter(node: ServedNode) -> None:
    made(node, "hl-orders", "hl-orders.dead")
    write_letters(bootstrap(node), "hl-orders.dead", origins("hl-orders", 3, "a timeout of the bank"))
    write_letters(bootstrap(node), "hl-orders.dead", [Origin("other", 0, 9, "rejected")], partition=1)
    path = "/api/v1/topics/hl-orders.dead/dead-letters"

    every = node.get(path).json["letters"]
    by_error = node.get(f"{path}?error=TimeOut").json["letters"]
    by_where = node.get(f"{path}?where=offset%20%3D%3D%201&partition=0").json["letters"]
    by_place = node.get(f"{path}?partition=0&from=offset:1&until=offset:2").json["letters"]
    wrong = node.get(f"{path}?where=matches(value,%20'a')")
    nowhere = node.get(f"{path}?partition=7")

    assert sorted((row["topic"], row["offset"]) for row in every) == [
        ("hl-orders", 0),
        ("hl-orders", 1),
        ("hl-orders", 2),
        ("other", 9),
    ]
    assert {row["error"] for row in by_error} == {"a timeout of the bank"}
    assert [row["offset"] for row in by_where] == [row["offset"] for row in by_place] == [1]
    assert by_place[0]["letter"]["headers"] == {"trace": "1"}
    assert (by_place[0]["group"], by_place[0]["delivery_count"], by_place[0]["is_redriven"]) == ("workers", 5, False)
    assert (wrong.status, "matches('value', 'a')" in wrong.json["detail"]) == (400, False)
    assert "is not understood" in wrong.json["detail"]
    assert nowhere.status == 404


def test_a_redrive_is_repeated_until_it_is_complete_and_exact(node: ServedNode) -> None:
    made(node, "hr-orders", "hr-orders.dead")
    write_letters(bootstrap(node), "hr-orders.dead", origins("hr-orders", 25))
    path = "/api/v1/topics/hr-orders.dead/dead-letters/redrive"

    would = node.post(path, {"dry_run": True}).json
    answers = [node.post(path, {"max_records": 10}).json for _ in range(3)]
    again = node.post(path, {}).json

    assert (would["redriven"], would["to"]) == (25, {"hr-orders": 25})
    assert [(one["redriven"], one["is_complete"]) for one in answers] == [(10, False), (10, False), (5, True)]
    assert (again["redriven"], again["done_before"], again["is_complete"]) == (0, 25, True)
    found = committed_records(bootstrap(node), "hr-orders")
    assert Counter(bytes(one.value() or b"").decode() for one in found) == Counter(
        f"hr-orders-{number % 2}-{number}" for number in range(25)
    )
    assert node.get("/api/v1/topics/hr-orders.dead/dead-letters?pending=true").json["letters"] == []


def test_a_paced_redrive_takes_its_time_between_transactions(node: ServedNode) -> None:
    made(node, "hp-orders", "hp-orders.dead")
    write_letters(bootstrap(node), "hp-orders.dead", origins("hp-orders", 30))
    path = "/api/v1/topics/hp-orders.dead/dead-letters/redrive"
    answer = node.post(path, {"records_per_second": 2, "from": "offset:28"}).json
    assert (answer["redriven"], answer["is_complete"]) == (2, True)


def test_a_topic_that_is_not_there_is_named(node: ServedNode) -> None:
    answer = node.post("/api/v1/topics/no-letters/dead-letters/redrive", {})
    assert (answer.status, "there is no topic no-letters" in answer.json["detail"]) == (404, True)
