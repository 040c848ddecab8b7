"""kio as the judge: random messages in our classes, and the same message read by kio, compared field by field.

kio's reader aborts the process on some malformed input, so it is only given
bytes that its own writer or ours made from a valid message.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
from importlib import import_module
from random import Random
from types import ModuleType
from typing import Any, get_args, get_origin

from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
RANGES = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
ERROR_CODES = [code.value for code in ErrorCode]
DIRECTIONS = {"request": EntityType.request, "response": EntityType.response}


def is_known(key: int) -> bool:
    """Whether kio has a schema of an API: of some between brokers it has none."""
    return key in api_key_map


def kio_class(key: int, version: int, direction: str) -> Any:
    names = schema_name_map[api_key_map[key]][version]
    module, _, name = names[DIRECTIONS[direction]].partition(":")  # type: ignore[index]
    return getattr(import_module(module), name)


def reads(entity: Any, data: bytes) -> Any:
    """kio's value for the data, which it must use to the last byte."""
    value, size = entity_reader(entity)(data, 0)
    assert size == len(data)
    return value


def writes(entity: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(entity)(buffer, value)
    return buffer.getvalue()


def shape(field: dataclasses.Field[Any]) -> tuple[Any, bool, bool]:
    """A field's innermost type, whether it is an array, whether it may be None."""
    inner, is_nullable = without_none(field.type)
    if get_origin(inner) is tuple:
        return without_none(get_args(inner)[0])[0], True, is_nullable
    return inner, False, is_nullable


def without_none(type_: Any) -> tuple[Any, bool]:
    arguments = get_args(type_)
    if type(None) not in arguments:
        return type_, False
    return next(part for part in arguments if part is not type(None)), True


def our_name(field: dataclasses.Field[Any]) -> str:
    kind = field.metadata.get("kafka_type", "")
    return f"{field.name}_ms" if kind.startswith(("timedelta", "datetime")) else field.name


def our_class(codec: ModuleType, entity: Any, direction: str) -> Any:
    """The class of ours; a name that both directions use carries the direction in front."""
    own = getattr(codec, entity.__name__, None)
    return own or getattr(codec, direction.title() + entity.__name__)


def random_message(random: Random, codec: ModuleType, entity: Any, direction: str, depth: int = 0) -> Any:
    values = {
        our_name(field): random_field(random, codec, field, direction, depth) for field in dataclasses.fields(entity)
    }
    return our_class(codec, entity, direction)(**values)


def random_field(random: Random, codec: ModuleType, field: dataclasses.Field[Any], direction: str, depth: int) -> Any:
    inner, is_array, is_nullable = shape(field)
    kind = field.metadata.get("kafka_type")
    if "tag" in field.metadata and random.random() < 0.4:
        return default_of(codec, field, direction)
    if is_nullable and kind not in ("uuid", "datetime_i64") and "tag" not in field.metadata and random.random() < 0.3:
        return None

    if kind == "datetime_i64" and not is_nullable:
        return random.randint(0, 4 * 10**9) * 1000  # kio knows no time before 1970 here

    def one() -> Any:
        if dataclasses.is_dataclass(inner):
            return random_message(random, codec, inner, direction, depth + 1)
        return random_value(random, kind)

    return [one() for _ in range(random.choice((0, 1, 2, 20) if depth < 1 else (0, 1, 3)))] if is_array else one()


def default_of(codec: ModuleType, field: dataclasses.Field[Any], direction: str) -> Any:
    """What the wire leaves out: an absent tagged field."""
    inner, is_array, is_nullable = shape(field)
    if is_array:
        return []
    if dataclasses.is_dataclass(inner) or (is_nullable and field.metadata["kafka_type"] != "uuid"):
        return None
    if field.metadata["kafka_type"] == "uuid":
        return bytes(16)
    return 0 if field.default is dataclasses.MISSING else plain(field.default, field)


def random_value(random: Random, kind: str | None) -> Any:
    match kind:
        case "bool":
            return random.random() < 0.5
        case "error_code":
            return random.choice(ERROR_CODES)
        case "timedelta_i32":
            return random.randint(-(2**31), 2**31 - 1)
        case "timedelta_i64":
            return random.randint(-(10**12), 10**12)
        case "datetime_i64":
            return random.choice((-1, random.randint(0, 4 * 10**9) * 1000))
        case "float64":
            return random.uniform(-1e9, 1e9)
        case "uuid":
            return random.choice((bytes(16), random.randbytes(16)))
        case "string":
            return random.choice(("", "a", "topic-ü-é", "x" * random.randint(100, 300)))
        case "bytes":
            return random.randbytes(random.choice((0, 3, 200)))
        case "records":
            return memoryview(random.randbytes(random.choice((0, 3, 200, 20_000))))
    bits = RANGES[str(kind)]
    return random.choice((0, -1, 1, -(2**bits), 2**bits - 1))


def plain(value: Any, field: dataclasses.Field[Any]) -> Any:
    """kio's value as our classes have it, nested structs left alone."""
    kind = field.metadata.get("kafka_type")
    match kind:
        case "uuid":
            return bytes(16) if value is None else value.bytes
        case "datetime_i64":
            return -1 if value is None else round((value - EPOCH) / datetime.timedelta(milliseconds=1))
        case "timedelta_i32" | "timedelta_i64":
            return round(value / datetime.timedelta(milliseconds=1))
        case "error_code":
            return value.value
    return value


def agree(ours: Any, theirs: Any) -> None:
    """Assert that kio read what we meant, in every field that the version has."""
    for field in dataclasses.fields(theirs):
        mine, other = getattr(ours, our_name(field)), getattr(theirs, field.name)
        inner, is_array, _ = shape(field)
        if dataclasses.is_dataclass(inner):
            if mine is None and "tag" in field.metadata:
                assert other == field.default
            elif mine is None or other is None:
                assert mine is other is None, field.name
            elif is_array:
                assert len(mine) == len(other)
                for left, right in zip(mine, other, strict=True):
                    agree(left, right)
            else:
                agree(mine, other)
        elif is_array and other is not None:
            assert mine == list(other), field.name
        else:
            assert mine == plain(other, field), field.name
