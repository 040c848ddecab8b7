"""Records in and out: forms of bodies, keys and their partitions, encodings, acknowledgements, cursors, long polls."""

from __future__ import annotations

import base64
import gzip
import threading
import time

import msgspec
import pytest
from tests.servers.http.serving import ServedNode

from qanat.wire.key_hash import partition_of

NDJSON = "application/x-ndjson"


def consumed(node: ServedNode, topic: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = node.get(f"/api/v1/topics/{topic}/records?count=500").json["messages"]
    return rows


def test_a_key_goes_where_every_other_client_sends_it(node: ServedNode) -> None:
    for number in range(20):
        placed = node.post("/produce", {"topic": "keyed", "key": f"k{number}", "value": number}).json

        assert placed["partition"] == partition_of(f"k{number}".encode(), 4)


def test_records_without_a_key_take_turns(node: ServedNode) -> None:
    places = [node.post("/produce", {"topic": "turns", "value": 1}).json["partition"] for _ in range(8)]

    assert sorted(places) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("value", [{"a": [1, None]}, [], "text", "", 1.5, True, "\u2603\n", "123"])
def test_any_json_value_comes_back_as_it_was(node: ServedNode, value: object) -> None:
    topic = f"values-{abs(hash(repr(value)))}"
    node.post("/produce", {"topic": topic, "value": value})

    (message,) = consumed(node, topic)
    assert message["value"] == value
    assert "value_encoding" not in message


def test_text_and_binary_are_written_bare_and_shown_as_such(node: ServedNode) -> None:
    binary = bytes(range(256))
    rows = [
        {"key": "a", "value": "plain text", "value_encoding": "text"},
        {"key": base64.b64encode(b"\xff\xfe").decode(), "key_encoding": "base64", "value": None},
        {
            "key": "a",
            "value": base64.b64encode(binary).decode(),
            "value_encoding": "base64",
            "headers": {"h": "\u00e4"},
        },
    ]
    answer = node.post("/api/v1/topics/bare/records", rows)
    assert (answer.status, answer.json["produced"], answer.json["failed"]) == (200, 3, 0)

    found = {(one["key"], one.get("value_encoding")): one for one in consumed(node, "bare")}

    assert found["a", "text"]["value"] == "plain text"
    assert base64.b64decode(str(found["a", "base64"]["value"])) == binary
    assert found["a", "base64"]["headers"] == {"h": "ä"}
    assert found["//4=", None]["value"] is None
    assert found["//4=", None]["key_encoding"] == "base64"


def test_headers_that_json_objects_cannot_hold_come_back_exact_and_are_written_again(node: ServedNode) -> None:
    def packed(data: bytes) -> str:
        return base64.b64encode(data).decode()

    pairs = [[packed(b"h"), packed(b"1")], [packed(b"h"), None], [packed(b"\xff"), packed(b"\x00\xfe")]]
    assert node.post("/produce", {"topic": "exact", "value": 1, "raw_headers": pairs}).status == 200

    (message,) = consumed(node, "exact")
    assert message["raw_headers"] == pairs
    assert message["headers"] == {"h": None, "\ufffd": "\x00\ufffd"}
    plain = node.post("/produce", {"topic": "exact-plain", "value": 1, "headers": {"h": None, "i": "x"}})
    assert plain.status == 200
    assert "raw_headers" not in consumed(node, "exact-plain")[0]
    for wrong, reason in (([["?", None]], "raw_headers are not base64"), ([["aA=="]], "raw_headers"), ([], "")):
        refused = node.post("/produce", {"topic": "exact", "value": 1, "raw_headers": wrong})
        assert (refused.status, reason in str(refused.json)) == (400 if wrong else 200, True)
    both = node.post("/produce", {"topic": "exact", "value": 1, "headers": {"a": "b"}, "raw_headers": pairs})
    assert (both.status, both.json["detail"]) == (400, "the record has headers and raw_headers: give one of them")


def test_partition_and_timestamp_are_used(node: ServedNode) -> None:
    placed = node.post("/produce", {"topic": "placed", "key": "k", "value": 1, "partition": 2, "timestamp": 1234567890})

    assert placed.json == {"partition": 2, "offset": 0}
    assert consumed(node, "placed")[0]["timestamp"] == 1234567890


def test_lines_and_arrays_have_a_result_for_each_record(node: ServedNode) -> None:
    lines = b"\n".join(msgspec.json.encode({"key": f"k{number}", "value": number}) for number in range(5000))
    answer = node.post("/api/v1/topics/lines/records", lines, Content_Type=NDJSON)
    assert (answer.status, answer.json["produced"]) == (200, 5000)
    assert all(
        result["partition"] == partition_of(f"k{number}".encode(), 4)
        for number, result in enumerate(answer.json["results"])
    )
    ends = {result["partition"]: result["offset"] for result in answer.json["results"]}
    assert sum(ends.values()) + len(ends) == 5000

    mixed = node.post("/produce", {"topic": "lines", "records": [{"value": 1}, {"value": 2, "partition": 99}]})

    assert (mixed.status, mixed.json["produced"], mixed.json["failed"]) == (207, 1, 1)
    assert "numbered 0 to 3" in mixed.json["results"][1]["problem"]["detail"]


def test_a_record_that_is_too_large_takes_no_other_with_it(node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "small", "partitions": 1, "configs": {"max.message.bytes": 1000}})

    answer = node.post("/api/v1/topics/small/records", [{"value": 1}, {"value": "x" * 2000}, {"value": 3}])

    assert answer.status == 207
    assert [result.get("offset") for result in answer.json["results"]] == [0, None, 1]
    assert answer.json["results"][1]["problem"]["error"] == "MESSAGE_TOO_LARGE"
    assert node.post("/produce", {"topic": "small", "value": "x" * 2000}).status == 413


def test_acks_are_chosen_by_the_request(node: ServedNode) -> None:
    assert node.post("/produce?acks=leader", {"topic": "acks", "value": 1, "partition": 0}).json["offset"] == 0
    none = node.post("/produce?acks=none", {"topic": "acks", "value": 1, "partition": 0})
    assert (none.status, none.json) == (202, {"partition": 0, "offset": None})
    assert node.post("/produce", {"topic": "acks", "value": 1, "partition": 0, "acks": "all"}).json["offset"] == 2


def test_a_compressed_body_is_inflated(node: ServedNode) -> None:
    body = gzip.compress(msgspec.json.encode({"topic": "zipped", "value": 1}))

    assert node.post("/produce", body, Content_Encoding="gzip").status == 200


def test_a_body_without_encoding_may_say_so(node: ServedNode) -> None:
    assert node.post("/produce", {"topic": "unzipped", "value": 1}, Content_Encoding="identity").status == 200


def test_count_is_capped_and_next_offset_goes_on(node: ServedNode) -> None:
    node.post("/api/v1/topics/many/records", [{"value": number, "partition": 0} for number in range(620)])

    first = node.get("/consume?topic=many&partition=0").json
    assert (len(first["messages"]), first["next_offset"]) == (100, 100)
    capped = node.get("/consume?topic=many&partition=0&offset=0&count=100000").json
    assert (len(capped["messages"]), capped["next_offset"]) == (500, 500)
    rest = node.get("/consume?topic=many&partition=0&offset=500&count=500").json
    assert [message["value"] for message in rest["messages"]] == list(range(500, 620))
    assert rest["next_offset"] == 620


def test_a_cursor_can_be_used_again_and_goes_on_in_every_partition(node: ServedNode) -> None:
    node.post("/api/v1/topics/cursors/records", [{"value": number} for number in range(100)])
    seen: list[int] = []
    cursor, path = "", "/api/v1/topics/cursors/records?count=7"
    for _ in range(40):
        page = node.get(path + cursor).json
        assert node.get(path + cursor).json == page
        seen += [message["value"] for message in page["messages"]]
        cursor = f"&cursor={page['next_cursor']}"
        if not page["messages"]:
            break

    assert sorted(seen) == list(range(100))


def test_a_cursor_of_an_earlier_topic_is_refused(node: ServedNode) -> None:
    node.post("/produce", {"topic": "again", "value": 1})
    cursor = node.get("/api/v1/topics/again/records").json["next_cursor"]
    node.call("DELETE", "/api/v1/topics/again")
    node.post("/produce", {"topic": "again", "value": 1})

    assert node.get(f"/api/v1/topics/again/records?cursor={cursor}").status == 409
    assert node.get("/api/v1/topics/again/records?cursor=nonsense").status == 400


def test_a_long_poll_returns_as_soon_as_something_comes(node: ServedNode) -> None:
    node.post("/produce", {"topic": "polled", "value": 0, "partition": 0})
    began = time.monotonic()
    later = threading.Timer(0.2, node.post, ("/produce", {"topic": "polled", "value": 1, "partition": 0}))
    later.start()

    found = node.get("/consume?topic=polled&partition=0&offset=1&timeout_ms=60000").json

    later.join()
    assert [message["value"] for message in found["messages"]] == [1]
    assert time.monotonic() - began < 50


def test_reading_begins_at_a_time(node: ServedNode) -> None:
    rows = [{"value": number, "partition": 0, "timestamp": 1_700_000_000_000 + number} for number in range(10)]
    node.post("/api/v1/topics/timed/records", rows)

    late = node.get("/api/v1/topics/timed/records?from=1700000000005").json
    assert [message["value"] for message in late["messages"]] == [5, 6, 7, 8, 9]
    assert node.get("/api/v1/topics/timed/records?from=2200-01-01T00:00:00Z").json["messages"] == []


def test_a_record_without_a_key_does_not_take_others_with_it_into_refusal(node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "latest", "partitions": 1, "configs": {"cleanup.policy": "compact"}})
    rows = [{"key": "a", "value": 1}, {"value": 2}, {"key": "b", "value": 3}]
    answer = node.post("/api/v1/topics/latest/records", rows)
    assert (answer.status, answer.json["produced"], answer.json["failed"]) == (207, 2, 1)
    assert answer.json["results"][1]["problem"]["error"] == "INVALID_RECORD"
    assert [row["value"] for row in consumed(node, "latest")] == [1, 3]
