"""Groups and queues over HTTP: partitions are assigned, revoked and committed; records are acquired and released."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.servers.http.serving import TIMEOUT_S, ServedNode, node_settings, served


def subscribe(node: ServedNode, group: str, topic: str, **more: object) -> Any:
    answer = node.post("/subscribe", {"group": group, "topics": [topic], **more})
    assert answer.status == 200, answer.body
    return answer.json


def beat(node: ServedNode, group: str, member: str) -> Any:
    return node.post(f"/api/v1/groups/{group}/members/{member}/heartbeat").json


def test_two_members_share_the_partitions_and_one_takes_over_when_the_other_leaves(node: ServedNode) -> None:
    first = subscribe(node, "shared", "work")
    assert first["assigned_partitions"] == [0, 1, 2, 3]
    second = subscribe(node, "shared", "work")
    assert second["assigned_partitions"] == []

    assert len(beat(node, "shared", first["member_id"])["assigned_partitions"]) == 2
    beat(node, "shared", first["member_id"])
    theirs = beat(node, "shared", second["member_id"])
    ours = subscribe(node, "shared", "work", member_id=first["member_id"])
    assert sorted(ours["assigned_partitions"] + theirs["assigned_partitions"]) == [0, 1, 2, 3]

    assert node.call("DELETE", f"/api/v1/groups/shared/members/{second['member_id']}").json["done"] == "left"
    assert subscribe(node, "shared", "work", member_id=first["member_id"])["assigned_partitions"] == [0, 1, 2, 3]
    assert node.post(f"/api/v1/groups/shared/members/{second['member_id']}/heartbeat").status == 404


def test_a_member_reads_on_from_what_was_committed(node: ServedNode) -> None:
    node.post("/api/v1/topics/jobs/records", [{"value": number} for number in range(10)])
    member = subscribe(node, "readers", "jobs")["member_id"]
    path = f"/api/v1/groups/readers/members/{member}/records"

    page = node.get(f"{path}?count=4").json
    assert len(page["messages"]) == 4
    assert node.get(f"{path}?count=4").json["messages"] == page["messages"]
    assert node.post("/api/v1/groups/readers/offsets", {"offsets": page["offsets"], "member_id": member}).status == 200
    rest = node.get(f"{path}?count=100&auto_commit=true").json

    values = [message["value"] for message in page["messages"] + rest["messages"]]
    assert sorted(values) == list(range(10))
    assert node.get(path).json["messages"] == []
    described = node.get("/api/v1/groups/readers").json
    assert (described["total_lag"], described["members"][0]["member_id"]) == (0, member)
    outsider = node.post("/api/v1/groups/readers/offsets", {"offsets": page["offsets"]})
    assert (outsider.status, outsider.json["error"]) == (409, "NON_EMPTY_GROUP")


def test_a_silent_member_is_out_after_its_session() -> None:
    with served(node_settings(http_session_timeout_ms=300)) as node:
        first = subscribe(node, "silent", "t")["member_id"]
        deadline = time.monotonic() + TIMEOUT_S
        while node.get("/api/v1/groups/silent").json["members"]:
            assert time.monotonic() < deadline
            time.sleep(0.1)

        assert node.post(f"/api/v1/groups/silent/members/{first}/heartbeat").status == 404


def test_a_member_that_waits_for_records_is_not_silent() -> None:
    with served(node_settings(http_session_timeout_ms=2000)) as node:
        member = subscribe(node, "patient", "t")["member_id"]

        answer = node.get(f"/api/v1/groups/patient/members/{member}/records?timeout_ms=4000")

        assert (answer.status, answer.json["messages"]) == (200, [])
        assert node.post(f"/api/v1/groups/patient/members/{member}/heartbeat").status == 200


def test_offsets_are_reset_where_a_group_has_no_members(node: ServedNode) -> None:
    node.post("/api/v1/topics/past/records", [{"value": number, "partition": 0} for number in range(5)])
    rows = [{"topic": "past", "partition": 0, "offset": 3}]
    assert node.post("/api/v1/groups/old/offsets", {"offsets": rows}).json["offsets"][0]["offset"] == 3

    planned = node.post("/api/v1/groups/old/offsets/reset", {"shift_by": -2, "partitions": [0], "topic": "past"}).json
    assert planned["offsets"] == [{"topic": "past", "partition": 0, "committed_offset": 3, "new_offset": 1}]
    node.post("/api/v1/groups/old/offsets/reset", {"to": "latest", "topic": "past", "dry_run": True})
    assert node.get("/api/v1/groups/old/offsets").json["offsets"][0]["offset"] == 1

    assert node.call("DELETE", "/api/v1/groups/old").json["done"] == "deleted"
    assert node.get("/api/v1/groups/old").status == 404


def acquire(node: ServedNode, queue: str, member: str | None, count: int, timeout_ms: int = 0) -> Any:
    wanted = {"topics": ["tasks"], "member_id": member, "count": count, "timeout_ms": timeout_ms}
    answer = node.post(f"/api/v1/queues/{queue}/acquire", wanted)
    assert answer.status == 200, answer.body
    return answer.json


@pytest.fixture
def queue(node: ServedNode) -> str:
    if node.get("/api/v1/topics/tasks").status == 404:
        node.post("/api/v1/topics", {"name": "tasks", "partitions": 1})
    name = f"q{time.monotonic_ns()}"
    latest = {"configs": {"share.auto.offset.reset": "latest"}}
    assert node.call("PATCH", f"/api/v1/configs/groups/{name}", latest).status == 200
    acquire(node, name, None, 1)
    return name


def test_a_record_of_a_queue_is_given_to_one_member_until_it_is_acknowledged(node: ServedNode, queue: str) -> None:
    node.post("/api/v1/topics/tasks/records", [{"value": number} for number in range(4)])
    mine = acquire(node, queue, None, 2, 10_000)
    theirs = acquire(node, queue, None, 10, 10_000)
    assert [one["value"] for one in mine["messages"] + theirs["messages"]] == [0, 1, 2, 3]
    assert mine["lock_timeout_ms"] > 0

    def say(member: str, one: Any, action: str) -> int:
        row = {"topic": one["topic"], "partition": one["partition"], "offset": one["offset"], "action": action}
        path = f"/api/v1/queues/{queue}/acknowledge"
        return node.post(path, {"member_id": member, "records": [row]}).status

    assert say(mine["member_id"], mine["messages"][0], "accept") == 200
    assert say(mine["member_id"], mine["messages"][1], "release") == 200
    assert say(theirs["member_id"], theirs["messages"][0], "reject") == 200
    assert say(mine["member_id"], theirs["messages"][1], "accept") == 409

    again = acquire(node, queue, theirs["member_id"], 10, 10_000)
    assert [(one["value"], one["delivery_count"]) for one in again["messages"]] == [(1, 2)]

    left = node.call("DELETE", f"/api/v1/queues/{queue}/members/{theirs['member_id']}")
    assert left.json["done"] == "left"
    back = acquire(node, queue, mine["member_id"], 10, 10_000)
    assert sorted(one["value"] for one in back["messages"]) == [1, 3]


def test_push_consumers_of_a_group_get_a_topic_again(node: ServedNode) -> None:
    node.post("/api/v1/topics/refreshed/records", [{"value": number, "partition": 1} for number in range(3)])
    path = "/api/v1/groups/till/refreshes"

    begun = node.post(path, {"topic": "refreshed", "partitions": [1]})
    assert begun.status == 200, begun.body
    row = {"partition": 1, "state": "waiting", "start": 0, "end": 3, "attempt": 0}
    assert (begun.json["group"], begun.json["topic"], begun.json["partitions"]) == ("till", "refreshed", [row])
    assert node.get(path).json["refreshes"] == [begun.json]
    again = node.post(path, {"topic": "refreshed"})
    assert again.status == 409
    assert again.json["detail"].endswith("is under way; cancel it first")

    ended = node.call("DELETE", f"{path}/refreshed").json
    assert (ended["is_over"], ended["partitions"][0]["state"]) == (True, "cancelled")
    assert node.call("DELETE", f"{path}/refreshed").status == 404
    late = node.post(path, {"topic": "refreshed", "from": "latest"}).json
    assert [(one["start"], one["end"]) for one in late["partitions"]] == [(0, 0), (3, 3), (0, 0), (0, 0)]
    assert node.call("DELETE", "/api/v1/topics/refreshed").status == 200
    assert node.get(path).json["refreshes"] == []
