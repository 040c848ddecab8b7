"""Messages of the protocol, taken from kio's typed schemas.

kio has a class per version and Python types where the wire has numbers. Here
they become plain again: times are milliseconds (and say so in their names, as
in Kafka's schemas), error codes are numbers, ids are 16 bytes.
"""

from __future__ import annotations

import dataclasses
import datetime
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any, get_args, get_origin

from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from tools.codec.schema import Api, Default, Field, Layout, Message

# Tiers 1 to 3 of what clients need, and what brokers say to each other.
API_KEYS = (
    *(0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31),
    *(32, 33, 35, 36, 37, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 56, 57, 60, 61, 65, 66, 68, 69, 71, 72, 74, 75),
    *(76, 77, 78, 79, 83, 84, 85, 86, 90, 91, 92),
)

# Keys that kio no longer lists: Kafka retired them with ZooKeeper, and they stay reserved.
RETIRED = {4: "leader_and_isr", 5: "stop_replica", 6: "update_metadata", 7: "controlled_shutdown"}

# kio drops `"default": "null"` where the field is an array of structs.
NULL_BY_DEFAULT = {
    ("ConsumerGroupHeartbeatRequest", "topic_partitions"),
    ("ListPartitionReassignmentsRequest", "topics"),
}

PLAIN_TYPES = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}


@cache
def apis() -> tuple[Api, ...]:
    return tuple(
        Api(key, api_key_map[key], _message(key, EntityType.request), _message(key, EntityType.response))
        for key in API_KEYS
    )


def api_keys() -> dict[int, str]:
    """Every key of the protocol with its name, served or not."""
    return dict(sorted({**RETIRED, **api_key_map}.items()))


def data_message(schema: str) -> Message:
    """A message that travels inside others, such as a consumer's subscription."""
    return _over_versions(schema, EntityType.data)


def _message(key: int, direction: EntityType) -> Message:
    return _over_versions(api_key_map[key], direction)


def _over_versions(schema: str, direction: Any) -> Message:
    layouts = {}
    for version, names in schema_name_map[schema].items():
        module, _, name = names[direction].partition(":")
        layouts[version] = _layout(getattr(import_module(module), name), name)
    return Message(name, dict(sorted(layouts.items())))


def _layout(entity: Any, message: str) -> Layout:
    fields = tuple(_field(field, message) for field in dataclasses.fields(entity))
    return Layout(entity.__name__, entity.__flexible__, fields)


def _field(field: dataclasses.Field[Any], message: str) -> Field:
    inner, is_nullable = _without_none(field.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner, _ = _without_none(get_args(inner)[0])
    struct = _layout(inner, message) if dataclasses.is_dataclass(inner) else None
    kind = struct.name if struct else field.metadata["kafka_type"]
    is_time = kind in ("timedelta_i32", "timedelta_i64", "datetime_i64")
    kind = PLAIN_TYPES.get(kind, kind)
    default = _default(field.default, kind, is_array=is_array)
    if (message, field.name) in NULL_BY_DEFAULT:
        default = (None, True)
    return Field(
        name=f"{field.name}_ms" if is_time else field.name,
        type=kind,
        struct=struct,
        is_array=is_array,
        is_nullable=is_nullable and not is_time and kind != "uuid",
        tag=field.metadata.get("tag"),
        default=default[0],
        has_default=default[1],
    )


def _without_none(type_: Any) -> tuple[Any, bool]:
    parts = [part for part in get_args(type_) if part is not type(None)]
    if len(parts) == 1 and type(None) in get_args(type_):
        return parts[0], True
    return type_, False


def _default(value: Any, kind: str, *, is_array: bool) -> tuple[Default, bool]:
    """The default and whether there is one; what is zero, empty or all zeros anyhow is none."""
    match value:
        case dataclasses.MISSING | () | b"":
            return None, False
        case None if kind == "int64":
            return -1, True
        case None if kind == "uuid":
            return None, False
        case datetime.timedelta():
            return round(value.total_seconds() * 1000), True
        case Enum():
            return int(value.value), True
        case None | bool() | int() | float() | str():
            return _plain(value), True
    assert dataclasses.is_dataclass(value)
    assert not is_array
    return None, False


def _plain(value: Default) -> Default:
    """A default without kio's number and string types around it."""
    for plain in (bool, int, float, str):
        if isinstance(value, plain):
            return plain(value)
    return None
