"""Metrics between ingestion and storage: devices write by key, workers of a group store, each partition by one of them.

python examples/metrics_pipeline.py [localhost:9092]
"""

from __future__ import annotations

import sys
from collections import Counter

from qanat.client import Consumer, Producer

SERVERS = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
DEVICES, EACH = 4, 5

with Producer(SERVERS, key="str", value="json") as ingestion:
    for number in range(EACH):
        for device in range(DEVICES):
            ingestion.send("metrics.inbound", {"device": device, "number": number}, key=f"client_{device}")

stored: Counter[int] = Counter()
order: dict[int, list[int]] = {}
with Consumer(SERVERS, "metrics.inbound", group="storage", auto_offset_reset="earliest", value="json") as worker:
    for record in worker:
        stored[record.value["device"]] += 1
        order.setdefault(record.value["device"], []).append(record.value["number"])
        if stored.total() == DEVICES * EACH:
            break

assert all(numbers == list(range(EACH)) for numbers in order.values()), "records of one key are in order"
print(f"stored {stored.total()} measurements of {len(stored)} devices, each device's in order")
