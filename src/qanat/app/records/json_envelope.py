"""JSON envelope: a record as one line, which `consume --json-envelope` writes and `produce --json-envelope` reads.

    {"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1767225600000,
     "key": "k", "value": "v", "headers": [["trace", "1"]]}

Bytes that are not UTF-8 become {"base64": "..."}; a null stays null. Headers are pairs in
order, since a name may come twice.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping

from qanat.app.client.arguments import WrongArgumentError
from qanat.wire.records import NO_TIMESTAMP, Record

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
    """The record of a line, and its partition where it names one; `number` is the line's, for errors."""
    try:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError("an object is needed")
        if "value" not in found:
            raise ValueError('it has no "value"; null, for a tombstone, must be written')
        timestamp = _number(found, "timestamp", -1, 2**63 - 1)
        record = Record(
            0,
            NO_TIMESTAMP if timestamp is None else timestamp,
            _decoded(found.get("key")),
            _decoded(found["value"]),
            _headers(found.get("headers")),
        )
        return record, _number(found, "partition", 0, 2**31 - 1)
    except UnicodeDecodeError:
        raise WrongArgumentError(f"line {number} is not an envelope: it is not UTF-8") from None
    except (ValueError, binascii.Error) as fault:
        raise WrongArgumentError(f"line {number} is not an envelope: {fault}") from None
    except RecursionError:
        raise WrongArgumentError(f"line {number} is not an envelope: it is nested too deeply") from None


def _number(found: Mapping[str, object], name: str, lowest: int, highest: int) -> int | None:
    value = found.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        shown = json.dumps(value)
        raise ValueError(f'"{name}" is {shown[:40]}, not a whole number from {lowest} to {highest}')
    return value


def _headers(found: object) -> tuple[tuple[str, bytes | None], ...]:
    """Pairs in order; an object with a value per name is accepted, too."""
    pairs = list(found.items()) if isinstance(found, dict) else found or []
    headers = []
    for pair in pairs if isinstance(pairs, list) else [None]:
        match pair:
            case [str(name), value] | (str(name), value):
                headers.append((name, _decoded(value)))
            case _:
                raise ValueError('"headers" should be pairs, [["name", "value"]]')
    return tuple(headers)


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
            raise ValueError(f"{json.dumps(value)[:100]} is neither text nor null nor base64")
