"""Five prices through a broker to a consumer: the group's offset goes from 0 to 5.

python examples/price_feed.py [localhost:9092]
"""

from __future__ import annotations

import sys

from qanat.client import Consumer, Producer, Record

SERVERS = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
PRICES = {"AAPL": 190.5, "GOOGL": 141.2, "MSFT": 378.9, "TSLA": 242.8, "AMZN": 153.4}

with Producer(SERVERS, key="str", value="json") as producer:
    for symbol, price in PRICES.items():
        producer.send("price-topic", {"symbol": symbol, "price": price}, key=symbol, partition=0)

with Consumer(SERVERS, "price-topic", group="price-group", auto_offset_reset="earliest", value="json") as consumer:
    received: list[Record[object, object]] = []
    for record in consumer:
        received.append(record)
        print(f"offset {record.offset}: {record.value}")
        if len(received) == len(PRICES):
            break
print(f"the next offset is {received[-1].offset + 1}")
