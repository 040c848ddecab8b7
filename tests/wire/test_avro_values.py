"""Avro values as JSON: what fastavro writes is read, and hostile bytes and schemas cost little."""

from __future__ import annotations

import json
import random
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest

from qanat.model.errors import MalformedMessageError
from qanat.wire.avro_values import VALUES_MAX, AvroSchemaError, AvroValues

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "paid", "type": "boolean"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "amount", "type": "double"},
        {"name": "share", "type": "float"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 3}},
        {"name": "raw", "type": "bytes"},
        {"name": "child", "type": ["null", "shop.Order"]},
    ],
}


def written(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def order(draw: random.Random, depth: int) -> dict[str, Any]:
    return {
        "id": draw.randint(-(2**63), 2**63 - 1),
        "paid": draw.random() < 0.5,
        "note": draw.choice([None, "", "ä\u202e<script>"]),
        "amount": draw.uniform(-1e9, 1e9),
        "share": 0.5,
        "tags": ["t"] * draw.randint(0, 5),
        "counts": {f"k{n}": n - 2 for n in range(draw.randint(0, 4))},
        "state": draw.choice(["NEW", "DONE"]),
        "before": draw.choice([None, "NEW"]),
        "digest": b"abc",
        "raw": b"\x00\xff",
        "child": order(draw, depth - 1) if depth else None,
    }


def in_json(value: dict[str, Any]) -> dict[str, Any]:
    child = value["child"]
    return {**value, "digest": "YWJj", "raw": "AP8=", "child": None if child is None else in_json(child)}


def test_what_fastavro_writes_is_read() -> None:
    values = AvroValues(json.dumps(ORDER))
    for seed in range(200):
        one = order(random.Random(seed), seed % 4)
        assert values.decode(written(ORDER, one)) == in_json(one)


def test_logical_types_are_what_a_person_reads() -> None:
    fields: dict[str, tuple[dict[str, Any], Any, str]] = {
        "price": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("-12.30"), "-12.30"),
        "fixed": (
            {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 1},
            Decimal("7.5"),
            "7.5",
        ),
        "day": ({"type": "int", "logicalType": "date"}, date(2026, 1, 31), "2026-01-31"),
        "at": (
            {"type": "long", "logicalType": "timestamp-millis"},
            datetime(2026, 1, 31, 12, tzinfo=UTC),
            "2026-01-31T12:00:00.000Z",
        ),
    }
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": n, "type": kind} for n, (kind, _, _) in fields.items()],
    }
    data = written(schema, {name: value for name, (_, value, _) in fields.items()})

    assert AvroValues(json.dumps(schema)).decode(data) == {name: text for name, (_, _, text) in fields.items()}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "is not JSON"),
        ("7", "7 in the Avro schema is no type"),
        ('"colour"', "'colour' of the Avro schema is not defined"),
        ('{"type": "array"}', "has no items"),
        ('{"type": "record", "name": "R"}', "has no fields"),
        ('{"type": "record", "fields": []}', "has no name"),
        ('{"type": "record", "name": "R", "fields": [{"type": "int"}]}', "a field of the Avro schema has no name"),
        ('{"type": "fixed", "name": "F", "size": -1}', "the size -1"),
        ('[{"type":"fixed","name":"F","size":1},{"type":"fixed","name":"F","size":1}]', "defines 'F' twice"),
        ('{"type":"array","items":' * 70 + '"int"' + "}" * 70, "nested deeper than 64"),
        ("[" * 100_000, "is not JSON"),
        ('"' + "x" * 300_000 + '"', "more than 262144 characters"),
    ],
)
def test_a_wrong_schema_is_refused_with_a_sentence(schema: str, reason: str) -> None:
    with pytest.raises(AvroSchemaError, match=reason):
        AvroValues(schema)


def zigzag(number: int) -> bytes:
    value, out = (number << 1) ^ (number >> 63), bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize(
    ("schema", "data", "reason"),
    [
        ('{"type":"array","items":"null"}', zigzag(10**12) + b"\x00", f"more than {VALUES_MAX} values"),
        ('{"type":"array","items":"null"}', zigzag(-(10**12)) + zigzag(1) + b"\x00", f"more than {VALUES_MAX} values"),
        (
            '{"type":"record","name":"R","fields":[{"name":"next","type":["null","R"]}]}',
            b"\x02" * 100_000,
            "nested deeper than 64 levels",
        ),
        ('"string"', zigzag(10**15), "ends too early"),
        ('"bytes"', zigzag(-5), "ends too early"),
        ('"long"', b"\xff" * 11, "more than ten bytes"),
        ('["null", "int"]', zigzag(7), "no branch 7"),
        ('{"type":"enum","name":"E","symbols":["A"]}', zigzag(-1), "no symbol -1"),
        ('"int"', b"\x02\x02", "1 bytes are left over"),
        ('"string"', zigzag(2) + b"\xff\xfe", "not UTF-8"),
    ],
)
def test_hostile_bytes_are_refused_at_little_cost(schema: str, data: bytes, reason: str) -> None:
    values = AvroValues(schema)
    began = time.thread_time()
    with pytest.raises(MalformedMessageError, match=reason):
        values.decode(data)
    assert time.thread_time() - began < 2


def test_random_bytes_raise_nothing_else() -> None:
    values, draw = AvroValues(json.dumps(ORDER)), random.Random(3)
    good = written(ORDER, order(draw, 2))
    for _ in range(2000):
        data = bytearray(good)
        for _ in range(draw.randint(1, 5)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            values.decode(bytes(data[: draw.randint(0, len(data))]))
        except MalformedMessageError:
            continue
