"""Every screen in a real browser, against a real broker: what it shows and what it does."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.console.browsing import Visit, visit
from tests.servers.http.serving import ServedNode

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCREENS = {
    "overview": "Brokers",
    "topics": "payments",
    "topics/orders": "broker 0",
    "topics/orders/records": "customer-1",
    "topics/orders/settings": "retention.ms",
    "topics/orders.dlq/dead-letters": "the bank timed out",
    "groups": "billing",
    "groups/billing": "285",
    "queues": "mailers",
    "queues/mailers": "acquired",
    "dead-letters": "orders.dlq",
    "transactions": "There is no transactional id.",
    "clients": "No client is asked for metrics.",
    "edge": "This cluster has no nodes below it.",
    "pipelines": "No pipeline has run in this cluster.",
    "security": "User:ANONYMOUS",
    "health": "healthy",
    "diagnosis": "Where the time of requests goes",
}
"""A screen, and what it shows of the broker."""


@pytest.mark.parametrize(("screen", "text"), SCREENS.items(), ids=list(SCREENS))
def test_a_screen_shows_what_the_broker_has(console: Visit, screen: str, text: str) -> None:
    page = console.open(screen)

    page.get_by_text(text, exact=False).first.wait_for()


def test_records_are_searched_and_shown_as_they_are(console: Visit) -> None:
    page = console.open("topics/orders/records")
    page.get_by_label("Condition").fill("json.amount >= 298")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("2 found among 300 read").wait_for()

    assert "where=json.amount" in page.url
    page.get_by_role("button", name="Record ").first.click()
    page.locator("dialog pre").wait_for()
    assert json.loads(page.locator("dialog pre").inner_text())["amount"] in (298, 299)
    page.get_by_role("button", name="Hex").click()
    assert "7b 22" in page.locator("dialog pre").inner_text()


def test_a_permalink_shows_the_same_again(console: Visit) -> None:
    page = console.open("topics/orders/records?where=json.amount%20%3D%3D%2017&from=earliest")

    page.get_by_text("1 found among 300 read").wait_for()
    assert page.get_by_label("Condition").input_value() == "json.amount == 17"


def test_a_wrong_condition_is_answered_with_the_brokers_sentence(console: Visit) -> None:
    page = console.open("topics/orders/records")
    page.get_by_label("Condition").fill("amount > 3")
    page.get_by_role("button", name="Search", exact=True).click()

    page.get_by_text("amount is not understood").wait_for()


def test_records_appear_while_they_arrive(console: Visit, node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "tailed", "partitions": 1})
    page = console.open("topics/tailed/records")
    with page.expect_response(lambda answer: "/stream" in answer.url):
        page.get_by_role("button", name="Live tail").click()
    node.post("/api/v1/topics/tailed/records", {"value": "it has arrived", "key": "k"})

    page.get_by_text("it has arrived").wait_for()
    page.get_by_role("button", name="Stop live tail").click()
    page.get_by_label("Condition").fill('key == "wanted"')
    with page.expect_response(lambda answer: "/stream" in answer.url):
        page.get_by_role("button", name="Live tail").click()
    rows = [{"value": f"of {key}", "key": key} for key in ("other", "wanted")]
    node.post("/api/v1/topics/tailed/records", rows)
    page.get_by_text("of wanted").wait_for()
    assert page.get_by_text("of other").count() == 0
    page.get_by_role("button", name="Stop live tail").click()


def test_a_record_is_produced_edited_and_written_again(console: Visit, node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "edited", "partitions": 1})
    page = console.open("topics/edited/records")
    page.get_by_role("button", name="Produce").click()
    page.locator("input[name=key]").fill("k")
    page.locator("[name=value]").fill('{"big": 12345678901234567890}')
    page.locator("[name=headers]").fill("trace: abc")
    page.get_by_role("dialog").get_by_role("button", name="Produce").click()
    page.get_by_role("button", name="Record 0").click()
    page.get_by_role("button", name="Edit and republish").click()
    page.locator("[name=value]").fill('{"big": 2}')
    page.get_by_role("dialog").get_by_role("button", name="Produce").click()
    page.get_by_role("button", name="Record 1").wait_for()

    found = node.get("/consume?topic=edited&encoding=text").json["messages"]
    assert [(one["key"], one["value"], one["headers"]) for one in found] == [
        ("k", '{"big": 12345678901234567890}', {"trace": "abc"}),
        ("k", '{"big": 2}', {"trace": "abc"}),
    ]


def test_what_is_not_edited_is_written_again_as_it_was(console: Visit, node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "exact", "partitions": 1})
    pairs = [[base64.b64encode(part).decode() for part in pair] for pair in ((b"h", b"1\r\n2"), (b"h", b"\xff"))]
    record = {"key": "two\r\nlines", "value": "a\r\nb\rc", "value_encoding": "text", "raw_headers": pairs}
    node.post("/api/v1/topics/exact/records", [record])
    page = console.open("topics/exact/records")
    page.get_by_role("button", name="Record 0").click()
    page.get_by_role("button", name="Edit and republish").click()
    page.get_by_role("dialog").get_by_role("button", name="Produce").click()
    page.get_by_role("button", name="Record 1").wait_for()

    first, second = node.get("/consume?topic=exact&encoding=text").json["messages"]
    same = ("key", "value", "headers", "raw_headers")
    assert {name: second[name] for name in same} == {name: first[name] for name in same}


def test_what_is_typed_stays_while_the_screen_behind_it_loads(console: Visit, node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "loading", "partitions": 1})
    held: list[Any] = []
    console.page.route("**/topics/loading/search*", lambda route: held.append(route))
    console.page.goto(f"{console.url}/console/#/topics/loading/records")
    console.page.get_by_role("button", name="Stop").wait_for()
    console.page.get_by_role("button", name="Produce").first.click()
    field = console.page.locator("dialog[open] input[name=key]")
    field.fill("half a key")

    held[0].continue_()
    console.page.locator("form.bar button.main").wait_for(state="attached")

    assert field.input_value() == "half a key"


def test_found_records_are_downloaded_and_no_cell_is_a_formula(
    console: Visit, node: ServedNode, tmp_path: Path
) -> None:
    node.post("/api/v1/topics", {"name": "saved", "partitions": 1})
    node.post("/api/v1/topics/saved/records", {"value": "=HYPERLINK(1)", "value_encoding": "text", "key": "@k"})
    page = console.open("topics/saved/records")
    page.get_by_role("button", name="Record 0").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    download.value.save_as(tmp_path / "records.csv")

    assert (tmp_path / "records.csv").read_text().splitlines()[1].endswith('"\'@k","\'=HYPERLINK(1)"')


def test_offsets_are_reset_after_a_preview(console: Visit, node: ServedNode) -> None:
    offsets = [{"topic": "orders", "partition": partition, "offset": 7} for partition in range(3)]
    node.post("/api/v1/groups/resetting/offsets", {"offsets": offsets})
    page = console.open("groups/resetting")
    page.get_by_role("button", name="Reset offsets").click()
    page.locator("select[name=to]").select_option("earliest")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("7 again").first.wait_for()
    assert {one["offset"] for one in node.get("/api/v1/groups/resetting/offsets").json["offsets"]} == {7}
    page.get_by_role("dialog").get_by_role("button", name="Reset offsets").click()
    page.get_by_text("were reset").wait_for()

    assert {one["offset"] for one in node.get("/api/v1/groups/resetting/offsets").json["offsets"]} == {0}


def test_dead_letters_go_back_after_a_dry_run(console: Visit, node: ServedNode) -> None:
    from tests.app.dead_letters.letters import origins, write_letters

    for name in ("bills", "bills.dlq"):
        node.post("/api/v1/topics", {"name": name, "partitions": 1})
    write_letters(f"127.0.0.1:{node.node.listener.port}", "bills.dlq", origins("bills", 3, "no paper"))
    page = console.open("topics/bills.dlq/dead-letters")
    page.get_by_role("button", name="Redrive …").click()
    page.get_by_role("button", name="Redrive 3").wait_for()
    assert node.get("/consume?topic=bills").json["messages"] == []
    page.get_by_role("button", name="Redrive 3").click()
    page.get_by_text("3 letters were redriven").wait_for()

    assert len(node.get("/consume?topic=bills").json["messages"]) == 3


def test_a_held_record_is_released_and_another_rejected(console: Visit, node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "jobs", "partitions": 1})
    node.post("/api/v1/topics/jobs/records", [{"value": n} for n in range(2)])
    node.call("PATCH", "/api/v1/configs/groups/crew", {"configs": {"share.auto.offset.reset": "earliest"}})
    held = node.post("/api/v1/queues/crew/acquire", {"topics": ["jobs"], "count": 2, "timeout_ms": 10_000}).json
    assert len(held["messages"]) == 2
    page = console.open("queues/crew")
    page.get_by_role("button", name="Release").first.click()
    page.get_by_text("available").first.wait_for()
    held = node.post(
        "/api/v1/queues/crew/acquire",
        {"topics": ["jobs"], "member_id": held["member_id"], "count": 2, "timeout_ms": 10_000},
    ).json
    assert {one["delivery_count"] for one in held["messages"]} == {2}
    page.get_by_role("button", name="Reject").first.wait_for()
    page.get_by_role("button", name="Reject").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Reject").click()
    page.get_by_text("rejected").first.wait_for()

    assert node.get("/api/v1/queues/crew").json["held"] == 0


def test_a_topic_is_created_changed_and_deleted(console: Visit, node: ServedNode) -> None:
    page = console.open("topics")
    page.get_by_role("button", name="New topic").click()
    page.get_by_label("Name").fill("made-here")
    page.get_by_label("Partitions", exact=False).last.fill("2")
    page.get_by_label("Settings").fill("retention.ms=100000")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name="made-here").wait_for()
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Change retention.ms").click()
    page.locator("[name=value]").fill("200000")
    page.get_by_role("dialog").get_by_role("button", name="Change", exact=True).click()
    page.get_by_text("retention.ms was changed").wait_for()
    assert node.get("/api/v1/topics/made-here").json["configs"] == {"retention.ms": "200000"}
    page.get_by_role("link", name="Partitions").click()
    page.get_by_role("button", name="Delete topic").click()
    page.get_by_role("button", name="Delete made-here").click()
    page.get_by_text("made-here was deleted").wait_for()

    assert node.get("/api/v1/topics/made-here").status == 404


def test_the_theme_follows_the_system_and_the_reader(browser: Browser, node: ServedNode) -> None:
    def background(visited: Visit) -> str:
        found: str = visited.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return found

    with visit(browser, node, "dark") as dark, visit(browser, node, "light") as light:
        dark.open(), light.open()
        assert background(dark) != background(light)
        dark.page.get_by_role("button", name="Theme: system").click()
        assert background(dark) == background(light)
        dark.page.reload()
        dark.page.get_by_role("button", name="Theme: light").wait_for()
        assert background(dark) == background(light)


@pytest.mark.long
def test_five_thousand_topics_are_listed_without_five_thousand_rows(browser: Browser) -> None:
    from tests.servers.http.serving import node_settings, served

    with served(node_settings()) as node:
        many_topics(node, 5000)
        with visit(browser, node) as visited:
            began = time.monotonic()
            page = visited.open("topics")
            page.get_by_role("link", name="topic-00000").wait_for()
            took = time.monotonic() - began
            assert page.evaluate("document.querySelectorAll('*').length") <= 2000
            page.get_by_label("Search topics").fill("04999")
            page.get_by_role("link", name="topic-04999").wait_for()
            page.get_by_label("Search topics").fill("")
            page.get_by_text("5,000 in all").wait_for()
            page.evaluate("document.querySelector('.long').scrollTop = 1e9")
            page.get_by_role("link", name="topic-04999").wait_for()
            assert page.evaluate("document.querySelectorAll('*').length") <= 2000
            assert took < 60


def many_topics(node: ServedNode, count: int) -> None:
    """Topics in requests of a hundred: HTTP creates one at a time."""
    from qanat.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
    from qanat.wire.kafka.registry import ApiKey

    gateway = node.node.http.context.gateway  # type: ignore[union-attr]
    for begin in range(0, count, 100):
        rows = [CreatableTopic(f"topic-{number:05}", 1, 1) for number in range(begin, begin + 100)]
        response = node.run(gateway.call(gateway.own_caller, ApiKey.CREATE_TOPICS, CreateTopicsRequest(rows, 60_000)))
        assert {row.error_code for row in response.topics} == {0}
