"""A record as one line of JSON, which `consume --json-envelope` writes and `produce --json-envelope` reads unchanged.

    {"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1767225600000,
     "key": "k", "value": "v", "headers": [["trace", "1"]]}

Bytes that are no UTF-8 become {"base64": "..."}; a null stays null. Headers are pairs in
order, since a name may come twice.
"""

from __future__ import annotations

import base64
import binascii
import json

from qanat.app.session import WrongArgumentError
from qanat.wire.records import Record

Encoded = str | dict[str, str] | None


def encode_envelope(topic: str, partition: int, record: Record) -> str:
    """The line, without its end."""
    return json.dumps(
        {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _encoded(record.key),
            "value": _encoded(record.value),
            "headers": [[name, _encoded(value)] for name, value in record.headers],
        },
        ensure_ascii=False,
    )


def decode_envelope(line: bytes, number: int) -> tuple[Record, int | None]:
    """The record of a line, and its partition where it names one; `number` is the line's, for complaints."""
    try:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError("an object is needed")
        if "value" not in found:
            raise ValueError('it has no "value"; null, for a tombstone, must be written')
        headers = tuple((str(name), _decoded(value)) for name, value in found.get("headers", ()))
        timestamp = int(found.get("timestamp", -1))
        record = Record(0, timestamp, _decoded(found.get("key")), _decoded(found.get("value")), headers)
        partition = found.get("partition")
        return record, None if partition is None else int(partition)
    except (ValueError, TypeError, binascii.Error) as fault:
        raise WrongArgumentError(f"line {number} is no envelope: {fault}") from None


def _encoded(content: bytes | None) -> Encoded:
    if content is None:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode("ascii")}


def _decoded(value: object) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            return value.encode()
        case {"base64": str(text)}:
            return base64.b64decode(text, validate=True)
        case _:
            raise ValueError(f"{json.dumps(value)} is neither text nor null nor base64")
