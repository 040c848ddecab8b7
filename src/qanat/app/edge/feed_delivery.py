"""Delivery of a feed to a broker over its HTTP API: for brokers that do not pull from a registry.

Rule: a message's place in the feed is its offset in the topic, which has one partition and no other writer. So what is
      missing is known after every lost answer and every restart, and nothing is written twice.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import msgspec

from qanat.app.edge.cloud_feed import FeedMessage
from qanat.model.errors import QanatError

_PAUSE_S = 0.2
_REQUEST_S = 10.0
_BATCH = 100


class DeliveryFailedError(QanatError):
    """The broker refuses the feed."""


def deliver(broker: str, topic: str, messages: Sequence[FeedMessage]) -> int:
    """Write what the topic lacks of the feed, once the broker answers; returns how many messages that was."""
    _make_topic(broker, topic)
    written = 0
    while True:
        end = _end_offset(broker, topic)
        missing = messages[end : end + _BATCH]
        if not missing:
            return written
        body = {"records": [_record(one) for one in missing]}
        _request(broker, "POST", f"/api/v1/topics/{topic}/records", body)
        written += len(missing)


def _record(message: FeedMessage) -> dict[str, object]:
    """A message as the HTTP API takes it."""
    record: dict[str, object] = {"key": message.key, "value": message.value, "headers": message.headers}
    if message.type == "D":
        record["value"] = None
    elif message.value is not None:
        record["value_encoding"] = "text"
    if message.timestamp is not None:
        record["timestamp"] = message.timestamp
    return record


def _make_topic(broker: str, topic: str) -> None:
    _request(broker, "POST", "/api/v1/topics", {"name": topic, "partitions": 1}, accepted=(409,))
    found = _request(broker, "GET", f"/api/v1/topics/{topic}")
    if found["partitions"] != 1:
        raise DeliveryFailedError(f"{topic} has {found['partitions']} partitions, but a feed needs one")


def _end_offset(broker: str, topic: str) -> int:
    path = f"/consume?topic={topic}&partition=0&offset=latest&count=1"
    return int(_request(broker, "GET", path)["next_offset"])


def _request(broker: str, method: str, path: str, body: object = None, accepted: Sequence[int] = ()) -> Any:
    """The broker's answer; asked again for as long as nobody answers, or the broker cannot."""
    data = None if body is None else msgspec.json.encode(body)
    request = urllib.request.Request(broker + path, data, {"Content-Type": "application/json"}, method=method)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=_REQUEST_S) as answer:
                return msgspec.json.decode(answer.read() or b"null")
        except urllib.error.HTTPError as fault:
            if fault.code in accepted:
                return None
            if fault.code < 500:
                detail = fault.read(1000).decode("utf-8", "replace")
                raise DeliveryFailedError(f"{broker} refuses {method} {path}: {detail}") from None
        except (OSError, msgspec.DecodeError):
            """It is not there yet, or goes away and comes back."""
        if method == "POST" and path.endswith("/records"):
            return None  # Perhaps it is written: the caller looks.
        time.sleep(_PAUSE_S)
