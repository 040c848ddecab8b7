"""The class behind a struct: every field of every version, each with a default.

Fields stand in the order of the newest version; what older versions had is
put where they had it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.codec.schema import FIXED, Field, Layout, Message, struct_names

ZERO_UUID = "ZERO_UUID"


@dataclass(frozen=True, slots=True)
class Member:
    """One attribute of the class, and the versions that carry it."""

    field: Field
    is_optional: bool
    versions: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.field.name

    def default(self) -> str:
        """The default as source text, for a call that has to name it."""
        field = self.field
        if field.is_array:
            return "None" if field.has_default and field.default is None else "[]"
        if field.struct is not None:
            return "None" if self.is_optional else f"{field.struct.name}()"
        if field.has_default:
            return repr(field.default)
        return {"string": '""', "bytes": 'b""', "records": "None", "uuid": ZERO_UUID, "bool": "False"}.get(
            field.type, "0.0" if field.type == "float64" else "0"
        )

    def annotation(self, records: str) -> str:
        element = _element_type(self.field, records)
        whole = f"list[{element}]" if self.field.is_array else element
        return f"{whole} | None" if self.is_optional else whole


def _element_type(field: Field, records: str) -> str:
    if field.struct is not None:
        return field.struct.name
    if field.type in FIXED:
        return {"bool": "bool", "float64": "float", "uuid": "bytes"}.get(field.type, "int")
    return {"string": "str", "bytes": "bytes", "records": records}[field.type]


@dataclass(frozen=True, slots=True)
class Union:
    """One struct over all versions of its message."""

    name: str
    members: tuple[Member, ...]
    versions: tuple[int, ...]
    layouts: dict[Layout, int]

    def member(self, name: str) -> Member:
        return next(member for member in self.members if member.name == name)


def unions(message: Message) -> list[Union]:
    """Every struct of the message, innermost first."""
    return [_union(message, name) for name in struct_names(message)]


def _union(message: Message, name: str) -> Union:
    layouts: dict[Layout, int] = {}
    seen: dict[int, list[Layout]] = {}
    for version in sorted(message.layouts):
        for layout in message.layouts[version].nested():
            if layout.name == name:
                layouts.setdefault(layout, version)
                seen.setdefault(version, []).append(layout)
    assert len(set(layouts.values())) == len(layouts), f"{name} has two shapes in one version"
    order = _merged_order(
        [[field.name for field in found[0].fields] for _, found in sorted(seen.items(), reverse=True)]
    )
    members = tuple(_member(field, seen) for field in order)
    return Union(name, members, tuple(sorted(seen)), layouts)


def _merged_order(orders: list[list[str]]) -> list[str]:
    merged: list[str] = []
    for order in orders:
        place = 0
        for name in order:
            if name in merged:
                place = merged.index(name) + 1
            else:
                merged.insert(place, name)
                place += 1
    return merged


def _member(name: str, seen: dict[int, list[Layout]]) -> Member:
    found = {
        version: field
        for version, layouts in seen.items()
        for layout in layouts
        for field in layout.fields
        if field.name == name
    }
    newest = found[max(found)]
    assert {(field.type, field.is_array) for field in found.values()} == {(newest.type, newest.is_array)}, name
    is_absent_struct = newest.struct is not None and not newest.is_array and newest.tag is not None
    is_optional = newest.type == "records" or is_absent_struct or any(field.is_nullable for field in found.values())
    return Member(newest, is_optional, tuple(sorted(found)))
