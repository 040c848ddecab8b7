"""What a message looks like: one layout per version, and one class over all of them.

Values are compared by content. Two versions with equal layouts are therefore
one layout, which is what keeps the generated modules short.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

# Kafka's fixed-size types: the letter for `struct`, and the size in bytes.
FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
VARIABLE = {"string", "bytes", "records"}

Default = int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class Field:
    """One field in one version. `struct` is set where the type is a nested struct."""

    name: str
    type: str
    struct: Layout | None = None
    is_array: bool = False
    is_nullable: bool = False
    tag: int | None = None
    default: Default = None
    has_default: bool = False

    @property
    def is_fixed(self) -> bool:
        return not self.is_array and self.type in FIXED


@dataclass(frozen=True, slots=True)
class Layout:
    """A struct as one version lays it out; fields in the order of the wire."""

    name: str
    is_flexible: bool
    fields: tuple[Field, ...]

    @property
    def plain(self) -> list[Field]:
        return [field for field in self.fields if field.tag is None]

    @property
    def tagged(self) -> list[Field]:
        return sorted((field for field in self.fields if field.tag is not None), key=lambda field: field.tag or 0)

    def nested(self) -> Iterator[Layout]:
        """Every struct inside, innermost first, then this one."""
        for field in self.fields:
            if field.struct is not None:
                yield from field.struct.nested()
        yield self

    def least_bytes(self) -> int:
        """The fewest bytes that this struct can take: what bounds an array's declared length."""
        return sum(self._least(field) for field in self.plain) + self.is_flexible

    def weight(self) -> int:
        """What it costs to read one, in the units of `qanat.wire.kafka.reading`, arrays taken as empty."""
        return 2 + sum(self._weight(field) for field in self.plain)

    def _weight(self, field: Field) -> int:
        if field.is_array:
            return 2
        if field.struct is not None:
            return field.struct.weight()
        return 0 if field.type in FIXED else 1

    def _least(self, field: Field) -> int:
        if field.is_array:
            return 1 if self.is_flexible else 4
        if field.struct is not None:
            return 1 if field.is_nullable else field.struct.least_bytes()
        if field.type in FIXED:
            return FIXED[field.type][1]
        if self.is_flexible:
            return 1
        return 2 if field.type == "string" else 4


@dataclass(frozen=True, slots=True)
class Message:
    """A request, a response or a record: the layout of each version."""

    name: str
    layouts: dict[int, Layout]

    @property
    def first(self) -> int:
        return min(self.layouts)

    @property
    def last(self) -> int:
        return max(self.layouts)

    @property
    def flexible_from(self) -> int | None:
        return min((version for version, layout in self.layouts.items() if layout.is_flexible), default=None)

    def has_records(self) -> bool:
        layouts = [inner for layout in self.layouts.values() for inner in layout.nested()]
        return any(field.type == "records" for layout in layouts for field in layout.fields)

    def rename(self, names: dict[str, str]) -> Message:
        layouts = {version: _renamed(layout, names) for version, layout in self.layouts.items()}
        return Message(names.get(self.name, self.name), layouts)


@dataclass(frozen=True, slots=True)
class Api:
    """One API of the protocol: its key and both directions."""

    key: int
    module: str
    request: Message
    response: Message

    @property
    def name(self) -> str:
        return self.request.name.removesuffix("Request")


def _renamed(layout: Layout, names: dict[str, str]) -> Layout:
    fields = tuple(
        field if field.struct is None else replace(field, struct=_renamed(field.struct, names))
        for field in layout.fields
    )
    return Layout(names.get(layout.name, layout.name), layout.is_flexible, fields)


def struct_names(message: Message) -> list[str]:
    """The names of all structs in a message, innermost first."""
    found: dict[str, None] = {}
    for version in sorted(message.layouts, reverse=True):
        for layout in message.layouts[version].nested():
            found.setdefault(layout.name)
    return list(found)


def snake(name: str) -> str:
    """Kafka's camel case as Python writes it; `SCRAMCredentials` is one word less than it seems."""
    parted = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", parted).lower()
