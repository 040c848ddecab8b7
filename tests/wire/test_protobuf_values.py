"""Protobuf values as JSON: what the library writes is read, and hostile bytes and descriptors cost little."""

from __future__ import annotations

import base64
import random
import time
from typing import Any

import pytest
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    json_format,
    message_factory,
    timestamp_pb2,
)
from tests.wire.otlp_writing import number_field, tagged, varint

from qanat.model.errors import MalformedMessageError
from qanat.wire.protobuf_values import VALUES_MAX, ProtobufSchemaError, ProtobufValues

SCALARS = {
    "a_double": 1,
    "a_float": 2,
    "an_int64": 3,
    "a_uint64": 4,
    "an_int32": 5,
    "a_fixed64": 6,
    "a_fixed32": 7,
    "a_bool": 8,
    "a_string": 9,
    "some_bytes": 12,
    "a_uint32": 13,
    "an_sfixed32": 15,
    "an_sfixed64": 16,
    "an_sint32": 17,
    "an_sint64": 18,
}


def descriptor() -> Any:
    """shop.Order: a field of every type, alone and repeated; a map, an enum, itself, a timestamp."""
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    order = file.message_type.add(name="Order")
    for at, (name, kind) in enumerate(SCALARS.items()):
        order.field.add(name=name, number=at + 1, label=1, type=kind)
        order.field.add(name=f"{name}_list", number=at + 101, label=3, type=kind)
    state = order.enum_type.add(name="State")
    for at, name in enumerate(("NEW", "DONE")):
        state.value.add(name=name, number=at)
    order.field.add(name="state", number=50, label=1, type=14, type_name=".shop.Order.State")
    order.field.add(name="child", number=51, label=1, type=11, type_name=".shop.Order")
    order.field.add(name="children", number=52, label=3, type=11, type_name=".shop.Order")
    order.field.add(name="at", number=53, label=1, type=11, type_name=".google.protobuf.Timestamp")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=9)
    entry.field.add(name="value", number=2, label=1, type=3)
    order.field.add(name="counts", number=54, label=3, type=11, type_name=".shop.Order.CountsEntry")
    return files


FILES = descriptor()


def message_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in FILES.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


ORDER = message_class()


def fill(message: Any, draw: random.Random, depth: int) -> Any:
    for name, kind in SCALARS.items():
        for _ in range(draw.randint(0, 3)):
            value: Any = draw.randint(0, 2**31 - 1)
            if kind in (3, 5, 15, 16, 17, 18):
                value = draw.randint(-(2**31), 2**31 - 1) * (2**31 if kind in (3, 16, 18) else 1)
            elif kind in (4, 6):
                value = draw.randint(0, 2**64 - 1)
            elif kind in (1, 2):
                value = draw.randint(-9, 9) / 4
            elif kind == 8:
                value = True
            elif kind in (9, 12):
                value = "ä<script>" if kind == 9 else b"\x00\xff"
            if name != "a_bool" or value:
                setattr(message, name, value)
            getattr(message, f"{name}_list").append(value)
    message.state = draw.randint(0, 1)
    message.counts[f"k{draw.randint(0, 9)}"] = draw.randint(1, 9)
    if depth:
        fill(message.child, draw, depth - 1)
        fill(message.children.add(), draw, depth - 1)
    return message


def plain(value: Any) -> Any:
    """The library's JSON, where numbers of 64 bits are texts, as ours, where they are numbers."""
    if isinstance(value, dict):
        return {name: plain_of(name, one) for name, one in value.items()}
    return value


def plain_of(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [plain_of(name.removesuffix("_list"), one) for one in value]
    if name == "counts":
        return {key: int(one) for key, one in value.items()}
    if "64" in name and isinstance(value, str):
        return int(value)
    return plain(value)


def test_what_the_library_writes_is_read_as_it_reads_it() -> None:
    values = ProtobufValues(FILES.SerializeToString(), "shop.Order")
    for seed in range(100):
        message = fill(ORDER(), random.Random(seed), seed % 3)
        wanted = plain(json_format.MessageToDict(message, preserving_proto_field_name=True))
        found = values.decode(message.SerializeToString())
        assert {name: one for name, one in found.items() if one != {}} == wanted


def test_a_time_is_a_text_and_a_lone_message_needs_no_name() -> None:
    message = ORDER()
    message.at.FromJsonString("2026-01-31T12:00:00.500Z")
    values = ProtobufValues.of_base64(base64.b64encode(FILES.SerializeToString()).decode(), "shop.Order")
    assert values.decode(message.SerializeToString()) == {"at": "2026-01-31T12:00:00.500000Z"}
    lone = descriptor_pb2.FileDescriptorSet()
    lone.file.add(name="x.proto").message_type.add(name="Lone").field.add(name="n", number=1, label=1, type=5)
    assert ProtobufValues(lone.SerializeToString(), "").decode(number_field(1, 2**64 - 5)) == {"n": -5}


@pytest.mark.parametrize(
    ("data", "message", "reason"),
    [
        (b"\xff\xff", "shop.Order", "made by protoc"),
        (b"", "shop.Order", "there are none"),
        (FILES.SerializeToString(), "shop.Ordr", "did you mean shop.Order"),
        (FILES.SerializeToString(), "", "has no message"),
        (bytes(600_000), "x", "more than 524288 bytes"),
    ],
)
def test_a_wrong_descriptor_is_refused_with_a_sentence(data: bytes, message: str, reason: str) -> None:
    with pytest.raises(ProtobufSchemaError, match=reason):
        ProtobufValues(data, message)


def test_a_schema_that_is_no_base64_is_refused() -> None:
    with pytest.raises(ProtobufSchemaError, match="is the base64 of a file descriptor set"):
        ProtobufValues.of_base64("syntax = 'proto3';", "x")


def nested(levels: int) -> bytes:
    data = b""
    for _ in range(levels):
        data = tagged(51, data)
    return data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (tagged(52, b"") * (VALUES_MAX + 1), f"more than the {VALUES_MAX} fields"),
        (tagged(103, b"\x01" * 100_000), f"more than the {VALUES_MAX} fields"),
        (nested(80), "nested deeper than 64 levels"),
        (tagged(9, b"\xff"), "not UTF-8"),
        (number_field(9, 1), "which its type has not"),
        (tagged(106, b"abc"), "a list of numbers is cut off"),
        (varint(9 << 3 | 2) + b"\x7f", "cut off"),
    ],
)
def test_hostile_bytes_are_refused_at_little_cost(data: bytes, reason: str) -> None:
    values = ProtobufValues(FILES.SerializeToString(), "shop.Order")
    began = time.thread_time()
    with pytest.raises(MalformedMessageError, match=reason):
        values.decode(data)
    assert time.thread_time() - began < 2


def test_random_bytes_raise_nothing_else() -> None:
    values, draw = ProtobufValues(FILES.SerializeToString(), "shop.Order"), random.Random(5)
    good = fill(ORDER(), draw, 2).SerializeToString()
    for _ in range(1500):
        data = bytearray(good)
        for _ in range(draw.randint(1, 5)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            values.decode(bytes(data[: draw.randint(0, len(data))]))
        except MalformedMessageError:
            continue
