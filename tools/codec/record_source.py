"""Records of the internal topics, from `records.json`.

kio has only what travels between clients and brokers. What Kafka 4.1 keeps in
`__consumer_offsets`, `__transaction_state` and `__share_group_state` is
written down in that file, a line per field:

    "name: type[, versions 1+][, nullable][, tag 0][, default -1]"

A type in brackets is an array; a capital letter begins a struct of the same
message. Record keys are of one version only: the number in front of a key is
the kind of record (`kind`), the number in front of a value is its version.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.codec.schema import Default, Field, Layout, Message

SCHEMAS = Path(__file__).with_name("records.json")


def record_modules() -> dict[str, dict[str, Any]]:
    """Module name to its title and its messages, as the file has them."""
    modules: dict[str, dict[str, Any]] = json.loads(SCHEMAS.read_text())
    return modules


def messages(module: dict[str, Any]) -> list[Message]:
    return [message(record) for record in module["records"]]


def message(record: dict[str, Any]) -> Message:
    first, last = _range(record.get("versions", "0"), 0)
    flexible, _ = _range(record["flexible"], last) if "flexible" in record else (last + 1, 0)
    return Message(
        record["name"],
        {version: _layout(record["name"], record, version, version >= flexible) for version in range(first, last + 1)},
    )


def _range(text: str, last: int) -> tuple[int, int]:
    if text.endswith("+"):
        return int(text[:-1]), last
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def _layout(name: str, record: dict[str, Any], version: int, is_flexible: bool) -> Layout:
    lines = record["fields"] if name == record["name"] else record["structs"][name]
    fields = (_field(line, record, version, is_flexible) for line in lines)
    return Layout(name, is_flexible, tuple(field for field in fields if field is not None))


def _field(line: str, record: dict[str, Any], version: int, is_flexible: bool) -> Field | None:
    name, _, rest = line.partition(": ")
    kind, *marks = rest.split(", ")
    words = {mark.partition(" ")[0]: mark.partition(" ")[2] for mark in marks}
    first, last = _range(words.get("versions", "0+"), 99)
    if not first <= version <= last or ("tag" in words and not is_flexible):
        return None
    element = kind.strip("[]")
    struct = _layout(element, record, version, is_flexible) if element[0].isupper() else None
    return Field(
        name=name,
        type=element,
        struct=struct,
        is_array=kind.startswith("["),
        is_nullable="nullable" in words,
        tag=int(words["tag"]) if "tag" in words else None,
        default=_default(words.get("default")),
        has_default="default" in words,
    )


def _default(text: str | None) -> Default:
    return None if text in (None, "null") else int(text)
