"""`qanat edge test-registry`: a registry that also feeds messages, to try a broker and its applications with."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

import msgspec

from qanat.app.edge.cloud_feed import CloudFeed, FeedMessage
from qanat.app.edge.feed_delivery import deliver
from qanat.model.errors import AddressInUseError, InvalidSettingError, QanatError
from qanat.model.topic_names import name_problem

TOPIC = "price-topic"
PRICES = {"AAPL": 189.5, "GOOGL": 172.25, "MSFT": 415.0, "TSLA": 248.75, "AMZN": 186.0}
_FEED_BYTES_MAX = 64 * 1024 * 1024


def feed_registry(
    *,
    port: int = 8080,
    host: str = "127.0.0.1",
    topic: str = TOPIC,
    feed: Path | None = None,
    deliver_to: str | None = None,
) -> int:
    """Answer as a registry in the cloud does, and feed five prices: AAPL, GOOGL, MSFT, TSLA, AMZN.

    It gives every node the role LOCAL and itself as parent, and serves the messages as JSON. It is for tests: it keeps
    nothing, and anybody may ask it.

        qanat edge test-registry
        qanat edge test-registry --deliver-to http://localhost:8081
        qanat edge test-registry --topic orders --feed orders.ndjson

    Parameters
    ----------
    port:
        Port of its REST server; 0 takes a free one.
    host:
        Address of its REST server.
    topic:
        Name of the feed, and of the topic.
    feed:
        Messages instead of the prices: a JSON object a line, with `key`, `value` (a text) and, if wanted, `type`,
        `timestamp`, `headers`.
    deliver_to:
        HTTP address of a broker that asks no registry: the messages are written to it, each once, in one partition.
    """
    if (problem := name_problem(topic)) is not None:
        raise InvalidSettingError(f"--topic: {problem}")
    if deliver_to is not None and not deliver_to.startswith(("http://", "https://")):
        raise InvalidSettingError(f"--deliver-to is {deliver_to!r}, but must be as in http://localhost:8081")
    messages = _prices() if feed is None else _read(feed)
    try:
        cloud = CloudFeed({topic: messages}, host, port)
    except OSError as fault:
        raise AddressInUseError(
            f"cannot listen on {host}:{port}: {fault.strerror or fault}; choose another --port"
        ) from None
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=cloud.server.shutdown).start())
    print(f"test registry at {cloud.url}, {len(messages)} messages of {topic}", flush=True)
    if deliver_to is not None:
        arguments = (deliver_to.rstrip("/"), topic, messages)
        threading.Thread(target=_deliver, args=arguments, daemon=True, name="delivery").start()
    with cloud.server:
        cloud.server.serve_forever(0.1)
    return 0


def _deliver(broker: str, topic: str, messages: list[FeedMessage]) -> None:
    try:
        written = deliver(broker, topic, messages)
    except QanatError as fault:
        print(f"qanat: {fault}", file=sys.stderr, flush=True)
        return
    names = ", ".join(one.key or "-" for one in messages[:10])
    print(f"{written} messages delivered to {broker}: {names}", flush=True)


def _prices() -> list[FeedMessage]:
    return [
        FeedMessage(symbol, msgspec.json.encode({"symbol": symbol, "price": price}).decode())
        for symbol, price in PRICES.items()
    ]


def _read(path: Path) -> list[FeedMessage]:
    try:
        if path.stat().st_size > _FEED_BYTES_MAX:
            raise InvalidSettingError(f"--feed {path} is larger than {_FEED_BYTES_MAX} bytes")
        lines = path.read_bytes().splitlines()
    except OSError as fault:
        raise InvalidSettingError(f"--feed {path} cannot be read: {fault.strerror}") from None
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(msgspec.json.decode(line, type=FeedMessage))
        except (msgspec.ValidationError, msgspec.DecodeError) as fault:
            raise InvalidSettingError(f"--feed {path} line {number} is no message: {fault}") from None
    return found
