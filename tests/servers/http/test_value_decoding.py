"""Search and streams show Avro and Protobuf as JSON: by the topic's settings, or a schema that is given."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.servers.http.serving import ServedNode, node_settings, served
from tests.wire.test_avro_values import written
from tests.wire.test_protobuf_values import FILES, ORDER

from qanat.client.serializers.avro import Avro
from qanat.client.serializers.protobuf import Protobuf
from qanat.client.serializers.registry import MemoryRegistry

PAYMENT = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "amount", "type": "long"}, {"name": "by", "type": "string"}],
}
SCHEMA = json.dumps(PAYMENT)
DESCRIPTOR = base64.b64encode(FILES.SerializeToString()).decode()


@pytest.fixture(scope="module")
def node() -> Iterator[ServedNode]:
    with served(node_settings()) as running:
        yield running


def topic(node: ServedNode, name: str, values: list[bytes], **configs: str) -> None:
    body = {"name": name, "partitions": 1, "configs": {f"value.{part}": text for part, text in configs.items()}}
    answer = node.post("/api/v1/topics", body)
    assert answer.status == 201, answer.body
    rows = [{"value": base64.b64encode(one).decode(), "value_encoding": "base64"} for one in values]
    assert node.post(f"/api/v1/topics/{name}/records", rows).status == 200


def search(node: ServedNode, name: str, **parameters: Any) -> Any:
    return node.get(f"/api/v1/topics/{name}/search?{urlencode(parameters)}").json


def payments() -> list[bytes]:
    return [written(PAYMENT, {"amount": n, "by": f"user-{n}"}) for n in range(200)]


def test_values_are_decoded_and_searched_by_the_topics_settings(node: ServedNode) -> None:
    topic(node, "payments", payments(), format="avro", schema=SCHEMA)

    found = search(node, "payments", where="json.amount >= 198")["messages"]
    assert [one["value"] for one in found] == [{"amount": 198, "by": "user-198"}, {"amount": 199, "by": "user-199"}]
    assert [one["value_format"] for one in found] == ["avro", "avro"]
    assert base64.b64decode(found[0]["value_bytes"]) == payments()[198]
    (text,) = search(node, "payments", where="json.amount == 7", encoding="text")["messages"]
    assert (text["value"], text["value_encoding"]) == ('{"amount":7,"by":"user-7"}', "text")
    (plain,) = search(node, "payments", value_format="none", count=1)["messages"]
    assert "value_format" not in plain


def test_a_schema_may_be_given_and_what_does_not_fit_is_shown_as_it_is(node: ServedNode) -> None:
    topic(node, "mixed", [payments()[3], b"\xff\xff\xff not avro"])

    found = search(node, "mixed", value_format="avro", value_schema=SCHEMA)["messages"]
    assert found[0]["value"] == {"amount": 3, "by": "user-3"}
    assert found[1]["value_encoding"] == "base64"
    assert found[1]["value_problem"].startswith("it is not Avro of this schema: ")
    assert node.get("/api/v1/topics/mixed/search?value_format=avro&value_schema=7").json["detail"] == (
        "7 in the Avro schema is no type"
    )


def test_what_the_clients_serializers_frame_is_read(node: ServedNode) -> None:
    registry = MemoryRegistry()
    registry.schema_id("other-value", '"string"', "AVRO")
    message = ORDER(an_int64=2**60, a_string="<b>")
    avro = Avro(PAYMENT, registry).encode("framed", {"amount": 1, "by": "a"})
    protobuf = Protobuf(ORDER, registry).encode("framed-too", message)
    assert avro is not None
    assert protobuf is not None
    topic(node, "framed", [avro], format="avro", schema=SCHEMA, framing="confluent")
    topic(
        node, "framed-too", [protobuf], format="protobuf", schema=DESCRIPTOR, message="shop.Order", framing="confluent"
    )

    assert search(node, "framed")["messages"][0]["value"] == {"amount": 1, "by": "a"}
    assert search(node, "framed-too")["messages"][0]["value"] == {"an_int64": 2**60, "a_string": "<b>"}


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({"value.format": "avro"}, "needs value.schema"),
        ({"value.format": "avro", "value.schema": '"colour"'}, "'colour' of the Avro schema is not defined"),
        ({"value.format": "thrift", "value.schema": "x"}, "thrift"),
        ({"value.format": "protobuf", "value.schema": "x y"}, "is the base64 of a file descriptor set"),
        ({"value.format": "protobuf", "value.schema": DESCRIPTOR, "value.message": "shop.Ordr"}, "did you mean"),
    ],
)
def test_a_wrong_schema_is_refused_when_it_is_set(node: ServedNode, configs: dict[str, str], reason: str) -> None:
    answer = node.post("/api/v1/topics", {"name": "refused", "partitions": 1, "configs": configs})

    assert (answer.status, reason in answer.json["detail"]) == (400, True), answer.body


def test_a_schema_that_no_address_holds_goes_in_a_body(node: ServedNode) -> None:
    topic(node, "long", payments()[:5])
    body = {
        "value_format": "avro",
        "value_schema": json.dumps({**PAYMENT, "doc": "x" * 100_000}),
        "where": "json.amount == 4",
        "from": "earliest",
    }
    answer = node.post("/api/v1/topics/long/search", body)
    assert [one["value"] for one in answer.json["messages"]] == [{"amount": 4, "by": "user-4"}]
    wrong = node.post("/api/v1/topics/long/search", {"form": "avro"})
    assert (wrong.status, "form" in wrong.json["detail"]) == (400, True)
    assert node.post("/api/v1/topics/absent/search", body).status == 404


def test_streams_decode_as_well(node: ServedNode) -> None:
    import http.client

    topic(node, "streamed", payments()[:3], format="avro", schema=SCHEMA)
    connection = http.client.HTTPConnection(node.url.removeprefix("http://"), timeout=20)
    connection.request("GET", "/api/v1/topics/streamed/stream?from=earliest")
    answer = connection.getresponse()
    seen: list[Any] = []
    while len(seen) < 3:
        line = answer.readline()
        if line.startswith(b"data: {") and b"value" in line:
            seen.append(json.loads(line.removeprefix(b"data: "))["value"])
    connection.close()
    wrong = node.get("/api/v1/topics/streamed/stream?where=amount+%3E+1")
    assert (wrong.status, wrong.json["parameter"]) == (400, "where")
    assert seen == [{"amount": n, "by": f"user-{n}"} for n in range(3)]
