"""`/produce`, `/consume` and `/subscribe` with nothing but Python's standard library.

python examples/http_contract.py [http://localhost:8080]
"""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Any

NODE = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080"


def call(path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{NODE}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


written = call("/produce", {"topic": "metrics.inbound", "key": "client_123", "value": {"cpu": 0.5}})
print(f"written to partition {written['partition']} at offset {written['offset']}")

place = f"topic=metrics.inbound&partition={written['partition']}&offset={written['offset']}&count=100"
found = call(f"/consume?{place}")
print(f"read {found['messages'][0]['value']}, next offset {found['next_offset']}")

member = call("/subscribe", {"group": "storage-workers", "topics": ["metrics.inbound"]})
print(f"assigned partitions: {member['assigned_partitions']}")
