"""Takes the pictures of docs/console: both themes, of a broker that has been busy for a minute.

    python -m tests.console.screenshots [SECONDS [NAME ...]]

Look at them before they are committed.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Producer
from tests.app.dead_letters.letters import origins, write_letters
from tests.console.browsing import chromium, visit
from tests.servers.http.serving import ServedNode, node_settings, served
from tests.wire.test_avro_values import written

if TYPE_CHECKING:
    from tests.console.browsing import Visit

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "console"
SECONDS = 75
PAYMENT = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "items", "type": {"type": "array", "items": "string"}},
    ],
}
SCREENS = {
    "overview": "overview",
    "topics": "topics",
    "records": "topics/payments/records",
    "group": "groups/billing",
    "queue": "queues/mailers",
    "clients": "clients",
    "edge": "edge",
    "health": "health",
}


def fill(node: ServedNode) -> None:
    """Topics with and without a schema, a queue, dead letters, a tree, subscriptions to metrics of clients."""
    avro = {"value.format": "avro", "value.schema": json.dumps(PAYMENT)}
    topics: dict[str, tuple[int, dict[str, str]]] = {
        "orders": (6, {}),
        "payments": (3, avro),
        "mails": (1, {}),
        "clicks": (12, {"retention.ms": "3600000"}),
        "orders.dlq": (1, {}),
        "sensors.north": (3, {}),
    }
    for name, (partitions, configs) in topics.items():
        body = {"name": name, "partitions": partitions, "configs": configs}
        assert node.post("/api/v1/topics", body).status == 201
    metrics = {"metrics": "*", "interval.ms": 2000}
    node.call("PATCH", "/api/v1/configs/client-metrics/everything", {"configs": metrics})
    node.call("PATCH", "/api/v1/configs/groups/mailers", {"configs": {"share.auto.offset.reset": "earliest"}})
    node.post("/api/v1/topics/mails/records", [{"value": {"to": f"customer-{n}@example.com"}} for n in range(40)])
    write_letters(
        f"127.0.0.1:{node.node.listener.port}", "orders.dlq", origins("orders", 4, "the bank timed out after 30 s")
    )
    tree: dict[str, tuple[str, list[str]]] = {
        "root": ("ROOT", []),
        "region-north": ("L2", ["root"]),
        "region-south": ("L2", ["root"]),
        "store-17": ("L3", ["region-north", "region-south"]),
        "till-17-1": ("POS", ["store-17"]),
    }
    for name, (role, parents) in tree.items():
        body = {"role": role, "parents": parents, "topics": ["prices", "stock.*"], "url": f"http://{name}:8080"}
        answer = node.call("PUT", f"/api/v1/edge/nodes/{name}", body)
        assert answer.status == 200, answer.body
    for name in ("region-north", "store-17"):
        node.post("/api/v1/edge/nodes", {"node": name, "instance": f"cluster-of-{name}"})
        node.get(f"/api/v1/edge/topology/{name}")


def hold(node: ServedNode) -> None:
    """Somebody works on mails while the picture is taken."""
    for count in (4, 1, 2):
        wanted = {"topics": ["mails"], "count": count, "timeout_ms": 10_000}
        assert node.post("/api/v1/queues/mailers/acquire", wanted).json["messages"]


def work(node: ServedNode, until: float, stop: threading.Event) -> None:
    """Producers and consumers as in a shop; the billing is a little slow."""
    settings = {"bootstrap.servers": f"127.0.0.1:{node.node.listener.port}"}
    orders = Producer({**settings, "client.id": "shop-frontend"})
    payments = Producer({**settings, "client.id": "payment-gateway"})
    billing = Consumer({**settings, "client.id": "billing-1", "group.id": "billing", "auto.offset.reset": "earliest"})
    billing.subscribe(["orders"])
    draw = random.Random(1)
    at = 0
    while time.monotonic() < until and not stop.is_set():
        rate = 60 + round(40 * math.sin(at / 40))
        for _ in range(rate):
            customer = f"customer-{draw.randint(1, 40)}"
            order = {"order": at, "customer": customer, "amount": round(draw.uniform(3, 250), 2), "state": "paid"}
            orders.produce("orders", json.dumps(order), customer, headers={"trace": f"{draw.getrandbits(64):016x}"})
            orders.produce("clicks", json.dumps({"page": f"/shop/{draw.randint(1, 99)}"}), customer)
            at += 1
        payments.produce("payments", written(PAYMENT, payment(at, draw)), f"customer-{draw.randint(1, 40)}")
        orders.poll(0)
        payments.poll(0)
        billing.consume(45, 0.05)
        time.sleep(0.15)
    with contextlib.suppress(KafkaException):
        billing.commit(asynchronous=False)
    stop.wait()
    billing.close()


def payment(at: int, draw: random.Random) -> dict[str, Any]:
    from datetime import UTC, datetime
    from decimal import Decimal

    return {
        "id": at,
        "customer": f"customer-{draw.randint(1, 40)}",
        "amount": Decimal(draw.randint(300, 25000)) / 100,
        "at": datetime.now(UTC),
        "items": draw.sample(["tea", "bread", "olives", "cheese", "figs"], 2),
    }


def take(visited: Visit, name: str, screen: str, theme: str) -> None:
    page = visited.open(screen)
    page.wait_for_timeout(1500)
    page.screenshot(path=FOLDER / f"{name}-{theme}.png")
    sys.stdout.write(f"{name}-{theme}.png\n")


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    names = sys.argv[2:] or [*SCREENS, "record"]
    with served(node_settings()) as node, chromium() as browser:
        fill(node)
        stop = threading.Event()
        begun = time.monotonic()
        worker = threading.Thread(target=work, args=(node, begun + seconds + 60, stop), daemon=True)
        worker.start()
        while time.monotonic() - begun < seconds:  # Somebody looks: rates and lag are collected then.
            node.get("/api/v1/cluster/traffic")
            node.get("/api/v1/groups?lag=true")
            node.get("/metrics")
            time.sleep(2)
        for theme in ("light", "dark"):
            hold(node)
            with visit(browser, node, theme) as visited:
                for name, screen in SCREENS.items():
                    if name in names:
                        take(visited, name, screen, theme)
                if "record" in names:
                    record(visited, theme)
        stop.set()
        worker.join(10)
    return 0


def record(visited: Visit, theme: str) -> None:
    """One record, decoded."""
    page = visited.open(SCREENS["records"])
    page.get_by_role("button", name="Record ").first.click()
    page.locator("dialog pre").wait_for()
    page.wait_for_timeout(300)
    page.screenshot(path=FOLDER / f"record-{theme}.png")
    sys.stdout.write(f"record-{theme}.png\n")


if __name__ == "__main__":
    sys.exit(main())
