"""Values of each format as typed columns, and the reason for each that does not fit."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.formats.messages import MESSAGE, descriptor_set, message_class

from qanat.spark.formats.decoding import decoder
from qanat.spark.formats.json_values import JsonDecoder
from qanat.spark.formats.rows import Decoded, decode_each
from qanat.spark.formats.value_format import SchemaError, ValueFormat

MOMENT = pa.timestamp("us", tz="UTC")
ORDER = pa.struct(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("amount", pa.float64()),
        ("at", MOMENT),
        ("day", pa.date32()),
        ("ok", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("to", pa.struct([("zip", pa.int32())])),
    ]
)


def decode(form: ValueFormat, values: list[bytes | None], kind: pa.DataType) -> Decoded:
    found = decoder(form, kind).decode(pa.array(values, pa.binary()))
    found.column.validate(full=True)
    return found


def decode_json(values: list[bytes | None], kind: pa.DataType = ORDER) -> Decoded:
    return decode(ValueFormat("json"), values, kind)


def test_json_becomes_columns_of_every_type() -> None:
    text = (
        b'{"id":1,"name":"\xc3\xa4","amount":2.5,"at":"2026-01-31T12:00:00.5Z","day":"2026-01-31","ok":true,'
        b'"tags":["a",null],"to":{"zip":7},"unknown":{}}'
    )
    found = decode_json([text, b"{}"])

    assert not found.misfits
    assert found.column.to_pylist() == [
        {
            "id": 1,
            "name": "ä",
            "amount": 2.5,
            "at": datetime(2026, 1, 31, 12, 0, 0, 500000, UTC),
            "day": date(2026, 1, 31),
            "ok": True,
            "tags": ["a", None],
            "to": {"zip": 7},
        },
        dict.fromkeys(["id", "name", "amount", "at", "day", "ok", "tags", "to"]),
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "it is not JSON"),
        (b"  ", "it is not JSON"),
        (b"{", "it is not JSON"),
        (b'{"id":1}{"id":2}', "it is not JSON"),
        (b'{"id":1} {"id":2}', "it is not JSON"),
        (b"[1]", "[1] is not of type object"),
        (b'"text"', '"text" is not of type object'),
        (b'{"id":"1"}', 'field id: "1" is not of type bigint'),
        (b'{"id":1.5}', "field id: 1.5 is not of type bigint"),
        (b'{"id":true}', "field id: true is not of type bigint"),
        (b'{"id":9223372036854775808}', "too large for int64"),
        (b'{"to":{"zip":2147483648}}', "field to.zip: 2147483648 is too large"),
        (b'{"to":[]}', "field to: [] is not of type object"),
        (b'{"tags":"a"}', 'field tags: "a" is not of type array'),
        (b'{"ok":1}', "field ok: 1 is not of type boolean"),
        (b'{"at":"yesterday"}', 'field at: "yesterday" is not of type timestamp'),
        (b'{"day":"2026-02-30"}', "is not of type date"),
        (b'{"amount":"x"}', 'field amount: "x" is not of type double'),
        (b'{"name":"\xff"}', "it is not UTF-8"),
        (b'{"unknown":"\xff"}', "it is not UTF-8"),
        (b"\x00\x00\x00\x00\x07{}", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b'{"at":1750003200000}', "field at: 1750003200000 is not of type timestamp"),
        (b'{"at":-99999999999999999999}', "is not of type timestamp"),
    ],
)
def test_one_misfit_among_many_is_found_and_the_others_are_read(value: bytes, reason: str) -> None:
    good = b'{"id":5,"name":"n"}'
    found = decode_json([good, value, good])

    assert list(found.misfits) == [1]
    assert reason in found.misfits[1]
    assert [row and row["id"] for row in found.column.to_pylist()] == [5, None, 5]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"name":5}', {"name": "5"}),
        (b'{"name":{"a":[1]}}', {"name": '{"a": [1]}'}),
        (b'{"amount":1}', {"amount": 1.0}),
        (b'{"at":"2026-01-31 12:00:00"}', {"at": datetime(2026, 1, 31, 12, tzinfo=UTC)}),
        (b'{"at":"2026-01-31T13:00:00+01:00"}', {"at": datetime(2026, 1, 31, 12, tzinfo=UTC)}),
        (b'{"at":0}', {"at": datetime(1970, 1, 1, tzinfo=UTC)}),
        (b'\n {"id":\n1}\n', {"id": 1}),
        (b"null", None),
    ],
)
def test_json_is_read_as_sparks_own_reader_does(value: bytes, expected: dict[str, object] | None) -> None:
    found = decode_json([value])
    (row,) = found.column.to_pylist()

    assert not found.misfits
    assert row is None if expected is None else {name: row[name] for name in expected} == expected


LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=5)
DOCUMENTS = st.dictionaries(
    st.sampled_from(["id", "name", "amount", "at", "ok", "tags", "to", "other"]),
    LEAVES | st.lists(LEAVES, max_size=2) | st.dictionaries(st.sampled_from(["zip", "x"]), LEAVES, max_size=2),
    max_size=4,
)


@given(st.lists(DOCUMENTS.map(json.dumps).map(str.encode) | st.binary(max_size=6), min_size=1, max_size=3))
def test_the_fast_way_and_the_slow_way_agree(values: list[bytes]) -> None:
    column = pa.array(values, pa.binary())
    both = JsonDecoder(ORDER)
    whole = both.decode(column)
    slow = decode_each(column, both._decode_one, ORDER)

    assert repr(whole.column.to_pylist()) == repr(slow.column.to_pylist())
    assert whole.misfits == slow.misfits


def test_maps_decimals_and_bytes_come_out_of_json_too() -> None:
    kind = pa.struct([("m", pa.map_(pa.string(), pa.int32())), ("d", pa.decimal128(5, 2)), ("b", pa.binary())])
    found = decode_json([b'{"m":{"a":1},"d":"12.345","b":"aGk="}', b'{"d":12345}', b'{"b":"?"}', None], kind)

    assert found.column[0].as_py() == {"m": [("a", 1)], "d": Decimal("12.34"), "b": b"hi"}
    assert sorted(found.misfits) == [1, 2]
    assert found.column[3].as_py() is None


CSV = pa.struct([("id", pa.int32()), ("name", pa.string()), ("x", pa.float64()), ("ok", pa.bool_())])


def test_lines_of_csv_become_columns() -> None:
    plain: list[bytes | None] = [b"1,a b,2.5,true", b"2,,,", b"-3,c,1e3,false"]
    quoted: list[bytes | None] = [b'4,"a,""b""",1,true\r\n', None]
    found = decode(ValueFormat("csv"), plain, CSV).column.to_pylist()
    more = decode(ValueFormat("csv"), plain + quoted, CSV).column.to_pylist()

    assert found[0] == {"id": 1, "name": "a b", "x": 2.5, "ok": True}
    assert found[1] == {"id": 2, "name": None, "x": None, "ok": None}
    assert more[:3] == found
    assert more[3] == {"id": 4, "name": 'a,"b"', "x": 1.0, "ok": True}
    assert more[4] is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1,a", "it has 2 fields where the schema has 4"),
        (b"1,a,2,true,9", "it has 5 fields"),
        (b"", "it has 0 fields"),
        (b"x,a,2,true", 'field id: "x" is not of type int'),
        (b"0x10,a,2,true", "is not of type int"),
        (b"99999999999,a,2,true", "too large"),
        (b'1,"a,2,true', "it is not a line of CSV"),
        (b"1,a,2,true\n2,b,2,true", "it is not a line of CSV"),
        (b"1,a,2,yes", 'field ok: "yes" is not of type boolean'),
    ],
)
def test_a_line_that_does_not_fit_is_found(line: bytes, reason: str) -> None:
    found = decode(ValueFormat("csv"), [b"7,a,2,true", line, b"8,a,2,true"], CSV)

    assert reason in found.misfits[1]
    assert [row and row["id"] for row in found.column.to_pylist()] == [7, None, 8]


def test_text_is_utf8() -> None:
    assert decode(ValueFormat("text"), ["ä".encode(), None], pa.string()).column.to_pylist() == ["ä", None]
    assert decode(ValueFormat("text"), [b"a", b"\xff"], pa.string()).misfits.keys() == {1}


AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "again", "type": ["null", "Kind"]},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}
ROW = {
    "id": 1,
    "name": "n",
    "at": datetime(2026, 1, 31, tzinfo=UTC),
    "price": Decimal("12.50"),
    "kind": "B",
    "counts": {"a": 1},
    "again": "A",
    "uid": "12345678-1234-5678-1234-567812345678",
}


def avro(row: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(AVRO), row)
    return sink.getvalue()


def test_avro_becomes_columns_with_a_registrys_prefix_and_without() -> None:
    from qanat.spark.formats.avro_values import avro_type

    kind = avro_type(json.dumps(AVRO)).kind
    plain = ValueFormat("avro", schema=json.dumps(AVRO))
    framed = ValueFormat("avro", schema=json.dumps(AVRO), is_framed=True)
    value = avro(ROW)
    found = decode(plain, [value, None, value[:-1], value + b"x", b""], kind)

    assert found.column[0].as_py() == {**ROW, "counts": [("a", 1)]}
    assert sorted(found.misfits) == [2, 3, 4]
    assert "1 bytes are left over" in found.misfits[3]
    other = decode(framed, [b"\0\0\0\0\7" + value, value], kind)
    assert other.column[0].as_py() == found.column[0].as_py()
    assert "no prefix of a schema registry" in other.misfits[1] or "it is not Avro" in other.misfits[1]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("not json", "is not JSON"),
        ('{"type":"recrd"}', "is not an Avro schema"),
        ('["int","string"]', "union of 2 types"),
        ('{"type":"record","name":"A","fields":[{"name":"a","type":["null","A"]}]}', "contains itself"),
        ('{"type":"int","logicalType":"time-millis"}', "time-millis"),
    ],
)
def test_a_schema_of_avro_without_columns_is_refused(schema: str, expected: str) -> None:
    from qanat.spark.formats.avro_values import avro_type

    with pytest.raises(SchemaError, match=expected):
        avro_type(schema)


def test_protobuf_becomes_columns_with_a_registrys_prefix_and_without() -> None:
    from qanat.spark.formats.protobuf_values import protobuf_type

    made = message_class()(id=7, name="n", kind=1, tags=["a", "b"], counts={"x": 2}, big=2**64 - 1)
    made.at.FromDatetime(datetime(2026, 1, 31))
    made.to.zip = 9
    content = made.SerializeToString()
    kind = protobuf_type(descriptor_set(), MESSAGE)
    plain = ValueFormat("protobuf", descriptor=descriptor_set(), message=MESSAGE)
    framed = ValueFormat("protobuf", descriptor=descriptor_set(), message=MESSAGE, is_framed=True)
    found = decode(plain, [content, b"", None, b"\xff\xff"], kind)

    assert found.column[0].as_py() == {
        "id": 7,
        "name": "n",
        "kind": "B",
        "tags": ["a", "b"],
        "counts": [("x", 2)],
        "at": datetime(2026, 1, 31, tzinfo=UTC),
        "to": {"zip": 9},
        "big": Decimal(2**64 - 1),
        "maybe": None,
        "raw": b"",
    }
    assert found.column[1].as_py()["id"] == 0
    assert (found.column[1].as_py()["to"], found.column[2].as_py()) == (None, None)
    assert f"it is not a {MESSAGE}" in found.misfits[3]
    prefixes = [b"\0\0\0\0\7\0", b"\0\0\0\0\7\2\0", b"\0\0\0\0\7\4\2\0"]
    assert [row["id"] for row in decode(framed, [one + content for one in prefixes], kind).column.to_pylist()] == [
        7
    ] * 3


@pytest.mark.parametrize(
    ("descriptor", "message", "expected"),
    [
        (b"\xff", MESSAGE, "protobufDescriptorFile cannot be used"),
        (descriptor_set(), "shop.Ordr", "did you mean shop.Order"),
        (b"", MESSAGE, "there is no message shop.Order; there are none"),
        (descriptor_set(), "shop.Tree", "contains itself"),
    ],
)
def test_a_descriptor_that_does_not_help_is_refused(descriptor: bytes, message: str, expected: str) -> None:
    from qanat.spark.formats.protobuf_values import protobuf_type

    with pytest.raises(SchemaError, match=expected):
        protobuf_type(descriptor, message)
