"""One broker with a little of everything, one browser, for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.app.dead_letters.letters import origins, write_letters
from tests.console.browsing import Visit, chromium, visit
from tests.servers.http.serving import ServedNode, node_settings, served
from tools.toolchains.registries import MissingToolError

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        with chromium() as running:
            yield running
    except MissingToolError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def node() -> Iterator[ServedNode]:
    with served(node_settings()) as running:
        fill(running)
        yield running


@pytest.fixture
def console(browser: Browser, node: ServedNode) -> Iterator[Visit]:
    with visit(browser, node) as visited:
        yield visited


def fill(node: ServedNode) -> None:
    """Topics, groups, a queue in the middle of its work, dead letters."""
    for name, partitions in (("orders", 3), ("payments", 1), ("mails", 1), ("orders.dlq", 2)):
        assert node.post("/api/v1/topics", {"name": name, "partitions": partitions}).status == 201
    rows = [
        {"key": f"customer-{n % 7}", "value": {"amount": n, "id": n}, "headers": {"trace": f"{n:08x}"}}
        for n in range(300)
    ]
    assert node.post("/api/v1/topics/orders/records", rows).status == 200
    assert node.post("/api/v1/topics/mails/records", [{"value": {"to": n}} for n in range(10)]).status == 200
    offsets = [{"topic": "orders", "partition": partition, "offset": 5} for partition in range(3)]
    assert node.post("/api/v1/groups/billing/offsets", {"offsets": offsets}).status == 200
    node.call("PATCH", "/api/v1/configs/groups/mailers", {"configs": {"share.auto.offset.reset": "earliest"}})
    wanted = {"topics": ["mails"], "count": 4, "timeout_ms": 10_000}
    assert len(node.post("/api/v1/queues/mailers/acquire", wanted).json["messages"]) == 4
    write_letters(f"127.0.0.1:{node.node.listener.port}", "orders.dlq", origins("orders", 3, "the bank timed out"))
