"""Serializers and deserializers: values to bytes, and bytes to values.

- `port`      the two protocols, and `Codec`, which is both
- `plain`     bytes, str, numbers, UUIDs, as Java's serializers write them
- `json`      JSON by msgspec: structs, dataclasses, TypedDicts, anything typed
- `pydantic`  JSON by pydantic models, where pydantic is installed
- `avro`      Avro by fastavro, where it is installed
- `protobuf`  Protobuf messages, where protobuf is installed
- `registry`  the port of a schema registry, and its framing of messages
- `lookup`    which serializer a name, a type or an object stands for

A fault is a `SerializationError` that names the topic and the field's path. Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.client.serializers.avro import Avro
    from qanat.client.serializers.json import Json
    from qanat.client.serializers.lookup import deserializer, serializer
    from qanat.client.serializers.plain import Bytes, Text
    from qanat.client.serializers.port import Codec, Deserializer, Serializer
    from qanat.client.serializers.protobuf import Protobuf
    from qanat.client.serializers.pydantic import Pydantic
    from qanat.client.serializers.registry import MemoryRegistry, SchemaRegistry

__all__ = [
    "Avro",
    "Bytes",
    "Codec",
    "Deserializer",
    "Json",
    "MemoryRegistry",
    "Protobuf",
    "Pydantic",
    "SchemaRegistry",
    "Serializer",
    "Text",
    "deserializer",
    "serializer",
]

_HOMES = {
    "Avro": "avro",
    "Bytes": "plain",
    "Codec": "port",
    "Deserializer": "port",
    "Json": "json",
    "MemoryRegistry": "registry",
    "Protobuf": "protobuf",
    "Pydantic": "pydantic",
    "SchemaRegistry": "registry",
    "Serializer": "port",
    "Text": "plain",
    "deserializer": "lookup",
    "serializer": "lookup",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
