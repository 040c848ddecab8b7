"""Record batches of real producers, captured on the wire for `tests/captures/`.

    python -m tools.capture_batches [FOLDER]

Starts the fake broker and lets librdkafka (confluent-kafka), kafka-python and aiokafka send the same messages in every
compression. The raw batches go to `<client>-<codec>.bin`, the sent messages to `captures.json`, with binary fields in
base64. The files are small: they are checked in. kafka-python needs the packages python-snappy and zstandard for those
two codecs; `make setup` installs them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from tools.fake_broker import TOPIC, running_broker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_TIMESTAMP_MS = 1_700_000_000_000
FOLDER = Path(__file__).resolve().parent.parent / "tests" / "captures"


class Message(NamedTuple):
    """A message for a producer."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]


def messages(*, nulls: bool = False) -> list[Message]:
    """Keys, values and headers of every kind: absent, empty, short, long, not ASCII.

    The last two have nulls in places where not every client accepts them.
    """
    sent = [
        Message(FIRST_TIMESTAMP_MS, b"key", b"value", []),
        Message(FIRST_TIMESTAMP_MS + 100_000, None, b"no key", []),
        Message(FIRST_TIMESTAMP_MS - 500, b"tombstone", None, []),
        Message(FIRST_TIMESTAMP_MS, b"", b"", [("", b"")]),
        Message(FIRST_TIMESTAMP_MS, b"\x00\xff", "čeština 🙂".encode(), [("größe", b"1"), ("größe", b"2")]),
        Message(FIRST_TIMESTAMP_MS, b"long", b"0123456789" * 500, [("long", b"h" * 300)]),
    ]
    sent += [Message(FIRST_TIMESTAMP_MS + i, b"k%d" % (i % 7), b'{"n": %d}' % i, []) for i in range(40)]
    if nulls:
        sent.append(Message(FIRST_TIMESTAMP_MS, b"header without value", b"x", [("null", None)]))
        sent.append(Message(FIRST_TIMESTAMP_MS, None, None, []))
    return sent


def send_by_librdkafka(address: str, codec: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 200})
    for message in messages(nulls=True):
        producer.produce(
            TOPIC,
            key=message.key,
            value=message.value,
            timestamp=message.timestamp,
            headers=list(message.headers),
            partition=0,
        )
    assert producer.flush(20) == 0, "librdkafka could not deliver"


def send_by_kafka_python(address: str, codec: str) -> None:
    from kafka import KafkaProducer  # type: ignore[import-untyped]

    compression = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=address, compression_type=compression, linger_ms=200)
    sent = [
        producer.send(TOPIC, m.value, m.key, headers=m.headers, partition=0, timestamp_ms=m.timestamp)
        for m in messages()
    ]
    for future in sent:
        future.get(timeout=20)
    producer.close()


def send_by_aiokafka(address: str, codec: str) -> None:
    async def send() -> None:
        from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]

        compression = None if codec == "none" else codec
        producer = AIOKafkaProducer(bootstrap_servers=address, compression_type=compression, linger_ms=200)
        async with producer:
            futures = [
                await producer.send(TOPIC, m.value, m.key, 0, m.timestamp, headers=m.headers) for m in messages()
            ]
            await asyncio.gather(*futures)

    asyncio.run(send())


class Client(NamedTuple):
    """A producer whose batches are captured."""

    package: str
    send: Callable[[str, str], None]
    takes_nulls: bool


CLIENTS = {
    "librdkafka": Client("confluent-kafka", send_by_librdkafka, takes_nulls=True),
    "kafka-python": Client("kafka-python", send_by_kafka_python, takes_nulls=False),
    "aiokafka": Client("aiokafka", send_by_aiokafka, takes_nulls=False),
}


def capture(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    captures = []
    for name in CLIENTS:
        for codec in CODECS:
            try:
                captures.append(capture_one(folder, name, codec))
            except RuntimeError as refusal:
                print(f"{name}-{codec}: not captured, {refusal}")
    sent = [
        {
            "timestamp": message.timestamp,
            "key": encoded(message.key),
            "value": encoded(message.value),
            "headers": [[key, encoded(value)] for key, value in message.headers],
        }
        for message in messages(nulls=True)
    ]
    listing = json.dumps({"captures": captures, "sent": sent}, indent=1, ensure_ascii=False)
    (folder / "captures.json").write_text(listing + "\n")


def capture_one(folder: Path, name: str, codec: str) -> dict[str, str | int]:
    """One client in one compression; `records` counts how many of `sent` are in the file."""
    client = CLIENTS[name]
    with running_broker() as broker:
        client.send(broker.address, codec)
    file = f"{name}-{codec}.bin"
    (folder / file).write_bytes(b"".join(broker.batches))
    print(f"{file}: {len(broker.batches)} batches")
    return {
        "file": file,
        "client": f"{client.package} {version(client.package)}",
        "codec": codec,
        "records": len(messages(nulls=client.takes_nulls)),
    }


def encoded(field: str | bytes | None) -> str | None:
    return None if field is None else base64.b64encode(field if isinstance(field, bytes) else field.encode()).decode()


if __name__ == "__main__":
    capture(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
