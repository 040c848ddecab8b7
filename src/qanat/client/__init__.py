"""Qanat's Python client, for any broker that speaks Kafka's protocol.

- `errors`    what goes wrong, each with what to do
- `settings`  settings by Python's names or Kafka's, of every client
- `io_loop`   where the client's network traffic runs: a thread, or the caller's event loop
- `records`   records, receipts, and where a record was written
- `producer`  `Producer` and `AsyncProducer`

It stands on `connection` and imports nothing of a broker. Names are imported on first use, so that
`import qanat.client` costs almost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.client.errors import (
        ClientError,
        ClosedError,
        FencedError,
        ForkedError,
        LockLostError,
        SerializationError,
        SignatureError,
        UnknownSettingError,
    )
    from qanat.client.io_loop import IoLoop
    from qanat.client.records import Metadata, Receipt, Record
    from qanat.model.ids import TopicPartition

__all__ = [
    "ClientError",
    "ClosedError",
    "FencedError",
    "ForkedError",
    "IoLoop",
    "LockLostError",
    "Metadata",
    "Receipt",
    "Record",
    "SerializationError",
    "SignatureError",
    "TopicPartition",
    "UnknownSettingError",
]

_HOMES = {
    "ClientError": "qanat.client.errors",
    "ClosedError": "qanat.client.errors",
    "FencedError": "qanat.client.errors",
    "ForkedError": "qanat.client.errors",
    "IoLoop": "qanat.client.io_loop",
    "LockLostError": "qanat.client.errors",
    "Metadata": "qanat.client.records",
    "Receipt": "qanat.client.records",
    "Record": "qanat.client.records",
    "SerializationError": "qanat.client.errors",
    "SignatureError": "qanat.client.errors",
    "TopicPartition": "qanat.model.ids",
    "UnknownSettingError": "qanat.client.errors",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
