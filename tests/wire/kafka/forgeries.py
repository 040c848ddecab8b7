"""Valid messages made from the schema by hand, with every length field marked, and ways to make each lie.

This encoder shares nothing with the codec but the schema. It is slow, plain, and knows where
everything is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.codec.schema import FIXED, Field, Layout

UNKNOWN_TAG = 99


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a length stands, how many bytes spell it, and in which form."""

    start: int
    size: int
    form: str
    is_nullable: bool
    what: str


@dataclass(slots=True)
class Forge:
    """A message under construction; `fullness` is how many elements each array gets."""

    fullness: int = 1
    data: bytearray = field(default_factory=bytearray)
    marks: list[Mark] = field(default_factory=list)
    texts: list[int] = field(default_factory=list)

    def length(self, value: int, form: str, what: str, *, is_nullable: bool = False) -> None:
        spelled = {
            "compact": lambda: bytes([value + 1]),
            "count": lambda: bytes([value]),
            "int16": lambda: value.to_bytes(2, "big", signed=True),
            "int32": lambda: value.to_bytes(4, "big", signed=True),
        }[form]()
        self.marks.append(Mark(len(self.data), len(spelled), form, is_nullable, what))
        self.data += spelled

    def struct(self, layout: Layout) -> None:
        for item in layout.plain:
            self.field(item, layout.is_flexible)
        if layout.is_flexible:
            self.tags(layout)

    def field(self, item: Field, is_flexible: bool) -> None:
        form = "compact" if is_flexible else "int32"
        if item.is_array:
            self.length(self.fullness, form, item.name, is_nullable=item.is_nullable)
            for _ in range(self.fullness):
                self.element(item, is_flexible)
            return
        if item.struct is not None and item.is_nullable:
            self.data += b"\x01"
        self.element(item, is_flexible, is_nullable=item.is_nullable)

    def element(self, item: Field, is_flexible: bool, *, is_nullable: bool = False) -> None:
        if item.struct is not None:
            self.struct(item.struct)
        elif item.type in FIXED:
            self.data += bytes(FIXED[item.type][1])
        else:
            wide = "int16" if item.type == "string" else "int32"
            self.length(1, "compact" if is_flexible else wide, item.name, is_nullable=is_nullable)
            if item.type == "string":
                self.texts.append(len(self.data))
            self.data += b"a"

    def tags(self, layout: Layout) -> None:
        self.length(len(layout.tagged) + 1, "count", "number of tagged fields")
        for item in layout.tagged:
            inner = Forge(self.fullness)
            inner.field(item, is_flexible=True)
            self.tag(item.tag or 0, inner, item.name)
        self.tag(UNKNOWN_TAG, Forge(data=bytearray(b"later")), "unknown")

    def tag(self, number: int, inner: Forge, name: str) -> None:
        self.data.append(number)
        assert len(inner.data) < 128, "the forge spells lengths in one byte"
        self.length(len(inner.data), "count", f"size of tagged field {name}")
        start = len(self.data)
        self.marks += [
            Mark(mark.start + start, mark.size, mark.form, mark.is_nullable, mark.what) for mark in inner.marks
        ]
        self.texts += [text + start for text in inner.texts]
        self.data += inner.data


LIES = {
    "compact": {
        "too large": b"\xff\xff\xff\xff\x0f",
        "just too large": b"\xff\xff\x7f",
        "endless": b"\xff\xff\xff\xff\xff\x01",
        "null": b"\x00",
    },
    "count": {
        "too large": b"\xff\xff\xff\xff\x0f",
        "just too large": b"\xff\xff\x7f",
        "endless": b"\xff\xff\xff\xff\xff\x01",
    },
    "int16": {"too large": b"\x7f\xff", "negative": b"\xff\xfe", "most negative": b"\x80\x00", "null": b"\xff\xff"},
    "int32": {
        "too large": b"\x7f\xff\xff\xff",
        "just too large": b"\x00\x1f\xff\xff",
        "negative": b"\xff\xff\xff\xfe",
        "most negative": b"\x80\x00\x00\x00",
        "null": b"\xff\xff\xff\xff",
    },
}


def lies(forged: Forge) -> Iterator[tuple[str, bytes]]:
    """The message with one length field lying, for each field and each way; nulls only where null is refused."""
    whole = bytes(forged.data)
    for mark in forged.marks:
        for how, spelled in LIES[mark.form].items():
            if how == "null" and mark.is_nullable:
                continue
            yield f"{mark.what}: {how}", whole[: mark.start] + spelled + whole[mark.start + mark.size :]
