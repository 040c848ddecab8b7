"""Source text that reads one layout.

Runs of fixed-size fields become one `unpack_from`; the count of tagged fields,
which is nearly always zero, is unpacked with the run before it.
"""

from __future__ import annotations

from tools.codec.schema import FIXED, Field, Layout, snake
from tools.codec.union import Union

LETTERS = str.maketrans({"?": "t", "H": "w", "I": "u", "B": "_tags", "x": "_tags"})
RESERVED = {"data", "position", "budget", "tags", "tag", "at", "end"}


def local(name: str) -> str:
    return f"{name}_" if name in RESERVED else name


def function(kind: str, union: Union, layout: Layout) -> str:
    return f"_{kind}_{snake(union.name)}_v{union.layouts[layout]}"


def format_name(kind: str, letters: str) -> str:
    """A name for a packer: `struct`'s letters in small, `_tags` for the byte that counts tagged fields."""
    spelled = letters.translate(LETTERS)
    return f"_{kind}_{spelled}"


class ReaderText:
    """Collects the names that the text needs while it is written."""

    def __init__(self, unions: dict[str, Union], imports: set[str], formats: set[tuple[str, str]]) -> None:
        self.unions = unions
        self.imports = imports
        self.formats = formats

    def read(self, layout: Layout, records: str) -> list[str]:
        union = self.unions[layout.name]
        name = function("read", union, layout)
        return [
            f"def {name}(data: memoryview, position: int, budget: Budget) -> tuple[{union.name}, int]:",
            *("    " + line for line in self._body(union, layout, records)),
        ]

    def _body(self, union: Union, layout: Layout, records: str) -> list[str]:
        plain, tagged = layout.plain, layout.tagged
        names = [field.name for field in plain]
        is_prefix = names == [member.name for member in union.members[: len(names)]]
        if names and is_prefix and not layout.is_flexible and all(field.is_fixed for field in plain):
            unpack, size = self._unpack("".join(FIXED[field.type][0] for field in plain))
            return [f"return {union.name}(*{unpack}(data, position)), position + {size}"]
        lines: list[str] = []
        run: list[Field] = []
        for field in plain:
            if field.is_fixed:
                run.append(field)
                continue
            lines += self._run(run, "position")
            run = []
            lines += self._variable(field, layout, "position")
        lines += self._ending(run, union, layout, records) if layout.is_flexible else self._run(run, "position")
        return [*lines, f"return {union.name}({self._arguments(union, [*plain, *tagged])}), position"]

    def _arguments(self, union: Union, fields: list[Field]) -> str:
        present = {field.name for field in fields}
        last = max((i for i, member in enumerate(union.members) if member.name in present), default=-1)
        given = [
            local(member.name) if member.name in present else self._default(member.default())
            for member in union.members[: last + 1]
        ]
        return ", ".join(given)

    def _default(self, text: str) -> str:
        if text == "ZERO_UUID":
            self.imports.add(text)
        return text

    def _unpack(self, letters: str) -> tuple[str, int]:
        self.formats.add(("unpack", letters))
        sizes = dict(FIXED.values()) | {"B": 1}
        pieces = letters.replace("16s", "u")
        return format_name("unpack", letters), sum(16 if piece == "u" else sizes[piece] for piece in pieces)

    def _run(self, run: list[Field], position: str) -> list[str]:
        if not run:
            return []
        unpack, size = self._unpack("".join(FIXED[field.type][0] for field in run))
        targets = ", ".join(local(field.name) for field in run)
        targets = f"({targets},)" if len(run) == 1 else targets
        return [f"{targets} = {unpack}(data, {position})", f"{position} += {size}"]

    def _variable(self, field: Field, layout: Layout, position: str) -> list[str]:
        prefix = "read_" + ("nullable_" if field.is_nullable else "") + ("compact_" if layout.is_flexible else "")
        name = local(field.name)
        if field.struct is not None:
            inner = function("read", self.unions[field.struct.name], field.struct)
            if field.is_array:
                self.imports.add(prefix + "array")
                bounds = f"{field.struct.least_bytes()}, {field.struct.weight()}"
                return [f"{name}, {position} = {prefix}array(data, {position}, budget, {bounds}, {inner})"]
            if field.is_nullable:
                read = "read_nullable_struct" if field.tag is None else "read_nullable_tagged_struct"
                self.imports.add(read)
                return [f"{name}, {position} = {read}(data, {position}, budget, {inner})"]
            return [f"{name}, {position} = {inner}(data, {position}, budget)"]
        if field.is_array and field.type == "string":
            self.imports.add(prefix + "strings")
            return [f"{name}, {position} = {prefix}strings(data, {position}, budget)"]
        if field.is_array:
            self.imports.add(prefix + "numbers")
            letter = FIXED[field.type][0]
            return [f'{name}, {position} = {prefix}numbers(data, {position}, budget, "{letter}")']
        self.imports.add(prefix + field.type)
        return [f"{name}, {position} = {prefix}{field.type}(data, {position})"]

    def _ending(self, run: list[Field], union: Union, layout: Layout, records: str) -> list[str]:
        if layout.tagged:
            return [*self._run(run, "position"), *self._tagged(union, layout, records)]
        self.imports.add("skip_tags")
        if not run:
            return [
                "if data[position]:",
                "    position = skip_tags(data, position, budget)",
                "else:",
                "    position += 1",
            ]
        unpack, size = self._unpack("".join(FIXED[field.type][0] for field in run) + "B")
        targets = ", ".join(local(field.name) for field in run)
        return [
            f"{targets}, tags = {unpack}(data, position)",
            f"position += {size}",
            "if tags:",
            "    position = skip_tags(data, position - 1, budget)",
        ]

    def _tagged(self, union: Union, layout: Layout, records: str) -> list[str]:
        self.imports |= {"read_tags", "refuse_tag"}
        lines = []
        for field in layout.tagged:
            member = union.member(field.name)
            default = self._default(member.default())
            lines.append(f"{local(field.name)}: {member.annotation(records)} = {default}")
        lines += ["if data[position]:", "    tags, position = read_tags(data, position, budget)"]
        lines += ["    for tag, at, end in tags:"]
        for number, field in enumerate(layout.tagged):
            lines.append(f"        {'elif' if number else 'if'} tag == {field.tag}:")
            reading = self._run([field], "at") if field.is_fixed else self._variable(field, layout, "at")
            lines += ["            " + line for line in reading]
        lines += ["        else:", "            continue", "        if at != end:", "            refuse_tag(tag)"]
        return [*lines, "else:", "    position += 1"]
