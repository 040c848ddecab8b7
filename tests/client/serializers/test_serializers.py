"""Serializers: what they write is read again, and a fault names the topic and the field's path."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, PositiveInt

from qanat.client.errors import SerializationError
from qanat.client.serializers import Avro, Json, MemoryRegistry, Protobuf, Pydantic, deserializer, serializer
from qanat.client.serializers.lookup import payload_deserializer
from qanat.model.errors import InvalidSettingError


class Item(msgspec.Struct):
    name: str
    price: int


class Order(msgspec.Struct):
    id: int
    items: list[Item]


@dataclass
class Customer:
    name: str
    note: object = None


class Point(TypedDict):
    x: int


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "customer", "type": "string"}],
}
NEWER = {**AVRO, "fields": [*AVRO["fields"], {"name": "note", "type": "string", "default": "none"}]}
JAVA = "org.apache.kafka.common.serialization."


@pytest.mark.parametrize(
    ("spec", "value", "data"),
    [
        ("bytes", b"\x00\xff", b"\x00\xff"),
        ("str", "häß", "häß".encode()),
        (JAVA + "StringSerializer", "key1", b"key1"),
        (JAVA + "LongDeserializer", -2, b"\xff" * 7 + b"\xfe"),
        (JAVA + "IntegerSerializer", 1, b"\x00\x00\x00\x01"),
        (JAVA + "DoubleSerializer", 0.5, b"\x3f\xe0" + bytes(6)),
        ("uuid", UUID(int=1), b"00000000-0000-0000-0000-000000000001"),
        ("json", {"a": [1, None]}, b'{"a":[1,null]}'),
        (Order, Order(1, [Item("x", 2)]), b'{"id":1,"items":[{"name":"x","price":2}]}'),
        (Customer, Customer("x"), b'{"name":"x","note":null}'),
        (Point, {"x": 1}, b'{"x":1}'),
        (list[int], [1, 2], b"[1,2]"),
    ],
)
def test_a_name_or_a_type_stands_for_a_serializer(spec: object, value: object, data: bytes) -> None:
    assert serializer(spec).encode("t", value) == data
    assert deserializer(spec).decode("t", data) == value


@pytest.mark.parametrize("spec", ["bytes", "str", "int64", "uuid", "none", "json", Order, Avro(AVRO)])
def test_null_stays_null(spec: object) -> None:
    assert serializer(spec).encode("t", None) is None
    assert deserializer(spec).decode("t", None) is None


def test_without_a_serializer_bytes_and_texts_stay_and_others_become_json() -> None:
    auto = serializer()
    assert [auto.encode("t", one) for one in (b"a", "a", bytearray(b"a"), {"a": 1}, Item("x", 1), None)] == [
        b"a",
        b"a",
        b"a",
        b'{"a":1}',
        b'{"name":"x","price":1}',
        None,
    ]


def test_a_function_is_a_serializer() -> None:
    assert serializer(lambda value: str(value).encode()).encode("t", 5) == b"5"
    with pytest.raises(SerializationError, match="returned int instead of bytes"):
        serializer(lambda value: 5).encode("t", 5)
    with pytest.raises(SerializationError, match="orders: loads cannot read the bytes"):
        deserializer(json.loads).decode("orders", b"{")


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b'{"id":1,"items":[{"name":"x","price":"free"}]}', r"Expected `int`, got `str` - at `\$.items\[0\].price`"),
        (b'{"id":1}', "missing required field `items`"),
        (b"{", "no Order: Input data was truncated"),
    ],
)
def test_bytes_that_do_not_fit_the_type_are_refused_with_the_fields_path(data: bytes, path: str) -> None:
    with pytest.raises(SerializationError, match="orders: .*" + path):
        deserializer(Order).decode("orders", data)


def test_a_value_that_cannot_be_written_is_refused_with_the_fields_path() -> None:
    wrong = {"lines": [{"ok": 1}, {"who": Customer("x", note=object())}]}
    with pytest.raises(SerializationError, match=r"orders: \$.lines\[1\].who.note cannot be written as JSON: object"):
        Json().encode("orders", wrong)


@pytest.mark.parametrize(("spec", "value"), [("bytes", 1), ("str", b"x"), ("int32", 2**31), ("uuid", "x"), ("none", 1)])
def test_a_value_of_another_type_is_refused_with_the_expected_one(spec: str, value: object) -> None:
    with pytest.raises(SerializationError, match="t: expected"):
        serializer(spec).encode("t", value)


@pytest.mark.parametrize(("spec", "data"), [("str", b"\xff"), ("int32", b"123"), ("uuid", b"x")])
def test_bytes_of_another_type_are_refused(spec: str, data: bytes) -> None:
    with pytest.raises(SerializationError, match=r"^t: "):
        deserializer(spec).decode("t", data)


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SerializationError, match="'jsn'; did you mean json"):
        serializer("jsn")
    with pytest.raises(SerializationError, match="'quux'; there are bytes, str, json"):
        serializer("quux")
    with pytest.raises(InvalidSettingError, match="no counterpart"):
        serializer("com.shop.serializers.OrderSerializer")
    with pytest.raises(SerializationError, match=r"needs a schema: give qanat.client.serializers.Avro\(schema\)"):
        serializer("io.confluent.kafka.serializers.KafkaAvroSerializer")


def test_null_is_refused_where_a_handlers_type_does_not_allow_it() -> None:
    with pytest.raises(SerializationError, match=r"orders: the value is null.*Order \| None"):
        payload_deserializer(Order).decode("orders", None)
    assert payload_deserializer(Order | None).decode("orders", None) is None
    assert payload_deserializer(Any).decode("orders", None) is None


def test_an_annotation_may_carry_its_own_deserializer() -> None:
    data = Avro(AVRO).encode("t", {"id": 1, "customer": "x"})
    assert payload_deserializer(Annotated[dict[str, Any], Avro(AVRO)]).decode("t", data) == {"id": 1, "customer": "x"}


# Pydantic


class Line(BaseModel):
    name: str
    price: PositiveInt


class Bill(BaseModel):
    id: int
    lines: list[Line]
    note: Any = None


def test_pydantic_models_are_written_and_read() -> None:
    bill = Bill(id=1, lines=[Line(name="kettle", price=2)])
    data = b'{"id":1,"lines":[{"name":"kettle","price":2}],"note":null}'
    assert serializer(Bill).encode("t", bill) == serializer().encode("t", bill) == data
    assert deserializer(Bill).decode("t", data) == bill
    assert serializer(Bill).encode("t", None) is None
    assert deserializer(Bill).decode("t", None) is None
    with pytest.raises(SerializationError, match="t: expected Bill, got Line"):
        serializer(Bill).encode("t", Line(name="kettle", price=2))
    with pytest.raises(SerializationError, match="no pydantic model"):
        Pydantic(Order)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            b'{"id":1,"lines":[{"name":"x","price":1},{"name":"x","price":0}]}',
            r"greater than 0 - at `\$.lines\[1\].price`",
        ),
        (b'{"id":1,"lines":[{"name":"x"}]}', r"Field required - at `\$.lines\[0\].price`"),
        (b"{", r"Invalid JSON: .* - at `\$`"),
    ],
)
def test_bytes_that_do_not_fit_the_model_are_refused_with_the_fields_path(data: bytes, reason: str) -> None:
    with pytest.raises(SerializationError, match=f"^orders: {len(data)} bytes are no Bill: .*{reason}"):
        deserializer(Bill).decode("orders", data)


def test_a_model_that_cannot_be_written_is_refused_with_the_fields_path() -> None:
    # Pydantic writes a path of files, which msgspec does not: it is not what is wrong here.
    bill = Bill(id=1, lines=[], note={"file": Path("x"), "who": [1, object()]})
    with pytest.raises(SerializationError, match=r"orders: Bill cannot be written as JSON: .* - at `\$.note.who\[1\]`"):
        serializer(Bill).encode("orders", bill)


# Avro


def test_avro_is_read_as_it_was_written_and_names_the_field_that_does_not_fit() -> None:
    avro = Avro(AVRO)
    data = avro.encode("orders", {"id": 7, "customer": "x"})
    assert data == b"\x0e\x02x"
    assert avro.decode("orders", data) == {"id": 7, "customer": "x"}
    with pytest.raises(SerializationError, match=r"orders: .*Order.id"):
        avro.encode("orders", {"id": "seven", "customer": "x"})
    with pytest.raises(SerializationError, match="orders: 1 bytes are no Avro"):
        avro.decode("orders", b"\x0e")
    with pytest.raises(SerializationError, match="1 are left over"):
        avro.decode("orders", b"\x0e\x02xy")


def test_avro_of_a_registry_is_framed_and_resolved_to_the_readers_schema() -> None:
    registry = MemoryRegistry()
    data = Avro(AVRO, registry).encode("orders", {"id": 7, "customer": "x"})
    assert data is not None
    assert data[:5] == b"\x00\x00\x00\x00\x01"
    assert registry.subjects == {"orders-value": [1]}
    assert Avro(NEWER, registry).decode("orders", data) == {"id": 7, "customer": "x", "note": "none"}
    with pytest.raises(SerializationError, match="the registry has no schema 9"):
        Avro(AVRO, registry).decode("orders", b"\x00\x00\x00\x00\x09")
    with pytest.raises(SerializationError, match="without a registry"):
        Avro(AVRO, registry).decode("orders", b"\x0e\x02x")


def test_a_wrong_avro_schema_is_refused_when_it_is_given() -> None:
    with pytest.raises(SerializationError, match="Avro schema is wrong"):
        Avro({"type": "recrod"})


# Protobuf: messages of the package itself, so that nothing need be generated


def test_protobuf_messages_are_written_and_read() -> None:
    from google.protobuf.wrappers_pb2 import Int64Value, StringValue  # type: ignore[import-untyped]

    kind = Protobuf(StringValue)
    data = kind.encode("t", StringValue(value="x"))
    assert data == b"\x0a\x01x"
    assert kind.decode("t", data) == StringValue(value="x")
    assert serializer().encode("t", StringValue(value="x")) == data
    with pytest.raises(SerializationError, match="expected StringValue, got Int64Value"):
        kind.encode("t", Int64Value(value=1))
    with pytest.raises(SerializationError, match="t: 1 bytes are no StringValue"):
        kind.decode("t", b"\x0a")


def test_protobuf_of_a_registry_has_the_path_of_its_type() -> None:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet  # type: ignore[import-untyped]
    from google.protobuf.wrappers_pb2 import FloatValue

    registry = MemoryRegistry()
    first = Protobuf(FileDescriptorSet, registry)
    data = first.encode("t", FileDescriptorSet())
    assert data is not None
    assert data[5:] == b"\x00", "the first message of a file is a single zero"
    nested = Protobuf(DescriptorProto.ExtensionRange, registry)
    message = DescriptorProto.ExtensionRange(start=3)
    data = nested.encode("t", message)
    assert data is not None
    assert data[5] == 4, "two numbers, zigzag"
    assert nested.decode("t", data) == message
    with pytest.raises(SerializationError, match="cut off"):
        nested.decode("t", data[:6])
    assert Protobuf(FloatValue).encode("t", FloatValue(value=0)) == b""


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(SerializationError, match="no Protobuf message"):
        Protobuf(int)


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused_with_one_kind_of_error(data: bytes) -> None:
    from google.protobuf.wrappers_pb2 import StringValue

    registry = MemoryRegistry()
    Protobuf(StringValue, registry).encode("t", StringValue())
    specs = ["str", "int64", "uuid", "json", Order, Customer, Avro(AVRO), Avro(AVRO, registry)]
    for spec in [*specs, Protobuf(StringValue), Protobuf(StringValue, registry)]:
        try:
            deserializer(spec).decode("t", data)
        except SerializationError as fault:
            assert str(fault).startswith("t: ")  # noqa: PT017 - either is right
