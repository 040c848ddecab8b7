"""Avro and Protobuf on the records' screen; clients that push metrics; the edge tree: in a real browser."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from tests.console.browsing import Visit, visit
from tests.console.test_hostile import hostile
from tests.servers.http.serving import ServedNode
from tests.servers.kafka.raw import RawClient
from tests.wire.otlp_writing import gauge, payload, point
from tests.wire.test_avro_values import written
from tests.wire.test_protobuf_values import FILES, ORDER

from qanat.wire.kafka.messages import get_telemetry_subscriptions, push_telemetry
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAYMENT = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "amount", "type": "long"}, {"name": "by", "type": "string"}],
}


def put(node: ServedNode, topic: str, values: list[bytes]) -> None:
    node.post("/api/v1/topics", {"name": topic, "partitions": 1})
    rows = [{"value": base64.b64encode(one).decode(), "value_encoding": "base64"} for one in values]
    assert node.post(f"/api/v1/topics/{topic}/records", rows).status == 200


def test_avro_is_decoded_by_a_schema_that_is_given_and_then_kept_for_everybody(
    console: Visit, node: ServedNode
) -> None:
    values = [written(PAYMENT, {"amount": n, "by": hostile(n)}) for n in range(20)]
    put(node, "avro", [*values, b"\xff\xff"])
    page = console.open("topics/avro/records")
    page.get_by_role("button", name="Decode …").click()
    page.get_by_label("Format").select_option("avro")
    page.get_by_label("Schema", exact=False).last.fill("7")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("7 in the Avro schema is no type").wait_for()
    page.get_by_role("button", name="Decode").click()
    page.get_by_label("Schema", exact=False).last.fill(json.dumps({**PAYMENT, "doc": "x" * 8000}))
    page.get_by_role("button", name="Show").click()
    page.get_by_text('{"amount":19').first.wait_for()
    page.get_by_role("button", name="Live tail").click()
    page.get_by_text("is too long for a live tail").wait_for()
    page.get_by_role("button", name="Decoded: Avro").click()
    page.get_by_label("Schema", exact=False).last.fill(json.dumps(PAYMENT))
    page.get_by_role("button", name="Show").click()
    page.get_by_text('{"amount":19').first.wait_for()
    page.get_by_role("button", name="Record 20 ").click()
    page.get_by_text("it is not Avro of this schema").wait_for()
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Decoded: Avro").click()
    page.get_by_role("button", name="Save for everybody").click()
    page.get_by_text("is a setting of avro now").wait_for()
    assert node.get("/api/v1/topics/avro").json["configs"]["value.format"] == "avro"
    page.get_by_label("Condition").fill("json.amount == 17")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("1 found among").wait_for()
    page.get_by_role("button", name="Record 17 ").click()
    shown = page.locator("dialog pre").inner_text()
    assert json.loads(shown)["amount"] == 17
    page.get_by_role("button", name="Hex").click()
    assert page.locator("dialog pre").inner_text().startswith("000000  " + values[17][:4].hex(" "))
    page.get_by_role("button", name="Edit and republish").click()
    page.get_by_role("dialog").get_by_role("button", name="Produce").click()
    page.get_by_text("Written: partition 0, offset 21").wait_for()
    found = node.get("/consume?topic=avro&offset=21&encoding=base64").json["messages"]
    assert base64.b64decode(found[0]["value"]) == values[17]


def test_protobuf_is_decoded_and_the_live_tail_decodes_as_well(console: Visit, node: ServedNode) -> None:
    message = ORDER(an_int64=42, a_string="from protobuf")
    put(node, "protobuf", [message.SerializeToString()])
    page = console.open("topics/protobuf/records")
    page.get_by_role("button", name="Decode …").click()
    page.get_by_label("Format").select_option("protobuf")
    descriptor = base64.b64encode(FILES.SerializeToString()).decode()
    page.get_by_label("Schema", exact=False).last.fill(descriptor)
    page.get_by_label("Message").fill("shop.Order")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("from protobuf").wait_for()
    with page.expect_response(lambda answer: "/stream" in answer.url):
        page.get_by_role("button", name="Live tail").click()
    message.a_string = "while it arrives"
    put(node, "protobuf", [message.SerializeToString()])
    page.get_by_text("while it arrives").wait_for()


def test_clients_are_asked_for_metrics_and_shown_with_what_they_push(console: Visit, node: ServedNode) -> None:
    page = console.open("clients")
    page.get_by_role("button", name="New subscription").click()
    page.locator("input[name=name], input[name=node]").fill("everything")
    page.locator("input[name=match]").fill("client_id=(a+)+")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("could take too long").wait_for()
    page.locator("input[name=match]").fill("")
    page.locator("input[name=interval]").fill("0.3")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("everything was saved").wait_for()

    producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.node.listener.port}", "client.id": "shown-client"})
    producer.produce("orders", b"x")
    producer.flush()
    until = time.monotonic() + 60
    while not any(one["pushes"] for one in node.get("/api/v1/clients?search=shown-client").json["clients"]):
        assert time.monotonic() < until
        time.sleep(0.1)
    page.get_by_label("Search clients").fill("shown-client")
    page.get_by_role("link", name="shown-client").click()
    page.get_by_text("org.apache.kafka.producer.connection.creation.total").wait_for()
    del producer

    console.open("clients")
    page.get_by_role("button", name="Remove everything").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove everything").click()
    page.get_by_text("everything was removed").wait_for()
    assert node.get("/api/v1/configs/client-metrics").json["names"] == []


def test_what_hostile_clients_say_of_themselves_executes_nothing(browser: Browser, node: ServedNode) -> None:
    configs = {"metrics": "*", "interval.ms": 100}
    assert node.call("PATCH", "/api/v1/configs/client-metrics/hostile", {"configs": configs}).status == 200
    instances = []
    for number in range(200):
        with RawClient(f"127.0.0.1:{node.node.listener.port}", client_id=hostile(number)) as client:
            request = get_telemetry_subscriptions.GetTelemetrySubscriptionsRequest()
            told = client.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, request)
            assert told.error_code == 0
            data = payload(gauge(hostile(number + 1), point(1.0, {hostile(number + 2)[:200]: hostile(number + 3)})))
            push = push_telemetry.PushTelemetryRequest(told.client_instance_id, told.subscription_id, False, 0, data)
            assert client.ask(ApiKey.PUSH_TELEMETRY, 0, push).error_code == 0
            instances.append(told.client_instance_id)
    with visit(browser, node) as visited:
        page = visited.open("clients")
        page.get_by_text("hostile", exact=True).wait_for()
        page.evaluate("document.querySelector('.long').scrollTop = 1e9")
        page.wait_for_timeout(500)
        visited.check()
        for instance in instances[:10]:
            text = instance.hex()
            visited.open(f"clients/{text}")
            page.get_by_text("Pushes").wait_for()
        assert page.locator("iframe, main script, main style, base").count() == 0
    node.call("PATCH", "/api/v1/configs/client-metrics/hostile", {"configs": dict.fromkeys(configs)})


def test_a_node_of_the_tree_is_placed_shown_below_its_parent_and_retired(console: Visit, node: ServedNode) -> None:
    page = console.open("edge")
    for name, role, parents in (("top", "ROOT", ""), ("shop", "L2", "top")):
        page.get_by_role("button", name="Place a node").click()
        page.locator("input[name=name], input[name=node]").fill(name)
        page.locator("select[name=role]").select_option(role)
        page.locator("input[name=parents]").fill(parents)
        page.locator("input[name=url]").fill(f"http://{name}:8080")
        page.get_by_role("button", name="Save").click()
        page.get_by_text(f"{name} has its place").wait_for()
    rows = page.locator("tbody tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["top", "└"]
    page.get_by_role("button", name="Retire top").click()
    page.get_by_role("dialog").get_by_role("button", name="Retire top").click()
    page.get_by_role("alert").wait_for()  # It has a child.
    page.keyboard.press("Escape")
    for name in ("shop", "top"):
        page.get_by_role("button", name=f"Retire {name}").click()
        page.get_by_role("dialog").get_by_role("button", name=f"Retire {name}").click()
        page.get_by_text(f"{name} was retired").wait_for()
    assert node.get("/api/v1/edge/nodes").json["nodes"] == []
