"""A protobuf message, described as by `protoc`."""

from __future__ import annotations

from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    timestamp_pb2,
)

MESSAGE = "shop.Order"
_FIELD = descriptor_pb2.FieldDescriptorProto


def descriptor_set() -> bytes:
    """A file descriptor set with `shop.Order` and a message that contains itself."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="A", number=0)
    kind.value.add(name="B", number=1)
    place = file.message_type.add(name="Place")
    place.field.add(name="zip", number=1, type=_FIELD.TYPE_INT32, label=_FIELD.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=_FIELD.TYPE_INT32, label=_FIELD.LABEL_OPTIONAL)
    one, many = _FIELD.LABEL_OPTIONAL, _FIELD.LABEL_REPEATED
    order.field.add(name="id", number=1, type=_FIELD.TYPE_INT64, label=one)
    order.field.add(name="name", number=2, type=_FIELD.TYPE_STRING, label=one)
    order.field.add(name="kind", number=3, type=_FIELD.TYPE_ENUM, type_name=".shop.Kind", label=one)
    order.field.add(name="tags", number=4, type=_FIELD.TYPE_STRING, label=many)
    order.field.add(name="counts", number=5, type=_FIELD.TYPE_MESSAGE, type_name=".shop.Order.CountsEntry", label=many)
    order.field.add(name="at", number=6, type=_FIELD.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=one)
    order.field.add(name="to", number=7, type=_FIELD.TYPE_MESSAGE, type_name=".shop.Place", label=one)
    order.field.add(name="big", number=8, type=_FIELD.TYPE_UINT64, label=one)
    order.oneof_decl.add(name="_maybe")
    order.field.add(name="maybe", number=9, type=_FIELD.TYPE_INT32, label=one, proto3_optional=True, oneof_index=0)
    order.field.add(name="raw", number=10, type=_FIELD.TYPE_BYTES, label=one)
    tree = file.message_type.add(name="Tree")
    tree.field.add(name="left", number=1, type=_FIELD.TYPE_MESSAGE, type_name=".shop.Tree", label=one)
    timestamps = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamps)
    made: bytes = descriptor_pb2.FileDescriptorSet(file=[timestamps, file]).SerializeToString()
    return made


def message_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(MESSAGE))
