"""Source text that writes one layout; the mirror image of `readers`.

An empty section of tagged fields is one zero byte, which a run of fixed-size
fields in front of it packs as padding.
"""

from __future__ import annotations

from tools.codec.readers import format_name, function
from tools.codec.schema import FIXED, Field, Layout
from tools.codec.union import Union

_ALWAYS = "True"
"""The condition of a tagged field that is written whatever it holds."""


class WriterText:
    """Collects the names that the text needs while it is written."""

    def __init__(self, unions: dict[str, Union], imports: set[str], formats: set[tuple[str, str]]) -> None:
        self.unions = unions
        self.imports = imports
        self.formats = formats
        self.defaults: dict[str, str] = {}

    def write(self, layout: Layout) -> list[str]:
        union = self.unions[layout.name]
        name = function("write", union, layout)
        return [
            f"def {name}(append: Append, message: {union.name}) -> None:",
            *("    " + line for line in self._body(union, layout) or ["pass"]),
        ]

    def _body(self, union: Union, layout: Layout) -> list[str]:
        lines: list[str] = []
        run: list[Field] = []
        for field in layout.plain:
            if field.is_fixed:
                run.append(field)
                continue
            lines += self._run(run, "append")
            run = []
            lines += self._variable(field, union, layout, "append")
        if not layout.is_flexible:
            return [*lines, *self._run(run, "append")]
        if layout.tagged:
            return [*lines, *self._run(run, "append"), *self._tagged(union, layout)]
        return [*lines, *(self._run(run, "append", "x") or ['append(b"\\0")'])]

    def _run(self, run: list[Field], append: str, padding: str = "") -> list[str]:
        if not run:
            return []
        letters = "".join(FIXED[field.type][0] for field in run) + padding
        self.formats.add(("pack", letters))
        checks = [f"assert len(message.{field.name}) == 16" for field in run if field.type == "uuid"]
        values = ", ".join(f"message.{field.name}" for field in run)
        return [*checks, f"{append}({format_name('pack', letters)}({values}))"]

    def _variable(self, field: Field, union: Union, layout: Layout, append: str) -> list[str]:
        value = f"message.{field.name}"
        is_missing_null = union.member(field.name).is_optional and not field.is_nullable and field.tag is None
        if is_missing_null and field.type != "records":
            self.imports.add("present")
            value = f"present({value})"
        form = ("nullable_" if field.is_nullable else "") + ("compact_" if layout.is_flexible else "")
        if field.struct is not None:
            return self._struct(field, form, value, append)
        if field.type == "records":
            self.imports.add(f"write_{form}records")
            return [f"write_{form}records({append}, {value})"]
        if field.is_array and field.type != "string":
            self.imports.add(f"encode_{form}numbers")
            return [f'{append}(encode_{form}numbers({value}, "{FIXED[field.type][0]}"))']
        kind = "strings" if field.is_array else field.type
        self.imports.add(f"encode_{form}{kind}")
        return [f"{append}(encode_{form}{kind}({value}))"]

    def _struct(self, field: Field, form: str, value: str, append: str) -> list[str]:
        assert field.struct is not None
        inner = function("write", self.unions[field.struct.name], field.struct)
        if field.is_array:
            self.imports.add(f"write_{form}array")
            return [f"write_{form}array({append}, {value}, {inner})"]
        if field.is_nullable:
            write = "write_nullable_struct" if field.tag is None else "write_nullable_tagged_struct"
            self.imports.add(write)
            return [f"{write}({append}, {value}, {inner})"]
        return [f"{inner}({append}, {value})"]

    def _tagged(self, union: Union, layout: Layout) -> list[str]:
        self.imports |= {"Chunk", "add_tag", "write_tags"}
        conditions = [self._differs(field, union) for field in layout.tagged]
        lines = ["tags: list[tuple[int, list[Chunk]]] = []"]
        for field, condition in zip(layout.tagged, conditions, strict=True):
            writing = self._run([field], "put") if field.is_fixed else self._variable(field, union, layout, "put")
            put = [f"put = add_tag(tags, {field.tag})", *writing]
            is_plain = len(conditions) == 1 or condition == _ALWAYS
            lines += put if is_plain else [f"if {condition}:", *("    " + line for line in put)]
        lines += ["write_tags(append, tags)"]
        if _ALWAYS in conditions:
            return lines
        anything = " or ".join(f"({condition})" for condition in conditions) if len(conditions) > 1 else conditions[0]
        return [f"if {anything}:", *("    " + line for line in lines), "else:", '    append(b"\\0")']

    def _differs(self, field: Field, union: Union) -> str:
        value = f"message.{field.name}"
        default = union.member(field.name).default()
        if field.struct is not None and not field.is_array and field.is_nullable:
            # Kafka takes a missing one for an empty struct, and not for null.
            return _ALWAYS
        if field.struct is not None and not field.is_array and not field.is_nullable:
            constant = f"_DEFAULT_{field.struct.name.upper()}"
            self.defaults[constant] = f"{field.struct.name}()"
            return f"{value} is not None and {value} != {constant}"
        if default in ("[]", '""', "0", "False"):
            return value
        if default == "None":
            return f"{value} is not None"
        if default == "ZERO_UUID":
            self.imports.add(default)
        return f"{value} != {default}"
