"""Protobuf values, described by a file descriptor set (`protoc --include_imports --descriptor_set_out`)."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.spark.formats.framing import unframed
from qanat.spark.formats.protobuf_types import message_type
from qanat.spark.formats.rows import Decoded, MisfitError, decode_each
from qanat.spark.formats.value_format import SchemaError


def protobuf_type(descriptor: bytes, message: str) -> pa.DataType:
    return message_type(_message_class(descriptor, message).DESCRIPTOR)[0]


class ProtobufDecoder:
    def __init__(self, descriptor: bytes, message: str, is_framed: bool) -> None:
        self._class = _message_class(descriptor, message)
        self._kind, self._extract = message_type(self._class.DESCRIPTOR)
        self._is_framed = is_framed

    def decode(self, values: pa.Array) -> Decoded:
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

        def decode_one(value: bytes) -> object:
            content = bytes(unframed(value, is_protobuf=True)) if self._is_framed else value
            try:
                return self._extract(self._class.FromString(content))
            except (DecodeError, OverflowError) as fault:
                raise MisfitError(f"it is not a {self._class.DESCRIPTOR.full_name}: {fault}") from None

        return decode_each(values, decode_one, self._kind)


def _message_class(descriptor: bytes, name: str) -> Any:
    try:
        from google.protobuf import (  # type: ignore[import-untyped]
            descriptor_pb2,
            descriptor_pool,
            message_factory,
        )
        from google.protobuf.message import DecodeError
    except ModuleNotFoundError:
        raise SchemaError("valueFormat=protobuf needs protobuf: pip install 'qanat[formats]'") from None
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptor)
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except (DecodeError, TypeError) as fault:
        raise SchemaError(
            f"option protobufDescriptorFile cannot be used ({fault}): it is made by "
            "protoc --include_imports --descriptor_set_out=FILE"
        ) from None
    except KeyError:
        raise SchemaError(_no_message(files, name)) from None


def _no_message(files: Any, name: str) -> str:
    names = [f"{file.package}.{one.name}".lstrip(".") for file in files.file for one in file.message_type]
    near = get_close_matches(name, names, n=1, cutoff=0.4)
    return f"option protobufMessage: there is no message {name}; " + (
        f"did you mean {near[0]}?" if near else f"there are {', '.join(names[:20]) or 'none'}"
    )
