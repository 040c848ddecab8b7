"""Java's consumer line by line: reads test-topic until a record has come.

python examples/message_consumer.py [localhost:9092]
"""

from __future__ import annotations

import sys
from datetime import timedelta

from qanat.client import MessageConsumer

SERVERS = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"

props = {
    "bootstrap.servers": SERVERS,
    "group.id": "test-group",
    "auto.offset.reset": "earliest",
    "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
    "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
}
with MessageConsumer(props) as consumer:
    consumer.subscribe(["test-topic"])
    received = 0
    while received == 0:
        for record in consumer.poll(timedelta(milliseconds=100)):
            print(f"Received: {record.value()}")
            received += 1
