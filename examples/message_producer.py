"""Java's producer line by line: one record to test-topic.

python examples/message_producer.py [localhost:9092]
"""

from __future__ import annotations

import sys

from qanat.client import MessageProducer, ProducerRecord

SERVERS = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"

props = {
    "bootstrap.servers": SERVERS,
    "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
    "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
}
with MessageProducer(props) as producer:
    producer.send(ProducerRecord("test-topic", "key1", "Hello World!"))
print("sent")
