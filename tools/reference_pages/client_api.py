"""`docs/reference/client-api.md`: public names of `qanat.client` and its serializers, by signature and docstring."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from types import ModuleType

import qanat.client
import qanat.client.serializers
from qanat.client.serializers import Deserializer, SchemaRegistry, Serializer

_HEAD = """\
# The Python client: every name

Everything that `from qanat.client import …` gives, from signatures and docstrings. [The client](../client/index.md)
explains it with examples. This page is generated (`python -m tools.reference_pages`).
"""
_GROUPS = {
    "Producing": ("Producer", "AsyncProducer", "Transaction", "Receipt", "Metadata"),
    "Consuming": ("Consumer", "AsyncConsumer", "Record", "TopicPartition", "ConsumerGroupMetadata", "ConsumerHealth",
                  "OffsetStore", "SqliteOffsets", "CalledOffsets"),
    "Queues": ("QueueConsumer", "AsyncQueueConsumer", "Verdict", "FencingToken"),
    "Apps": ("App", "Context", "Send", "Retry", "Health"),
    "Java's names": ("MessageProducer", "MessageConsumer", "ProducerRecord", "ConsumerRecord", "ConsumerRecords"),
    "Errors": (),
}  # fmt: skip
"""Names by errand; errors, and names that stand in no group, come last."""


_FROM = "qanat.client.serializers"
_SERIALIZERS = """\
## Serializers

From `qanat.client.serializers`; [serializers](../client/serializers.md) has an example for each.
"""


def page() -> str:
    """The whole page."""
    named = {name for names in _GROUPS.values() for name in names}
    rest = [name for name in qanat.client.__all__ if name not in named]
    parts = [_HEAD]
    for title, names in _GROUPS.items():
        parts.append(f"## {title}\n")
        parts += ["\n".join(_entry(name)) + "\n" for name in (names or [one for one in rest if one.endswith("Error")])]
    parts.append("## Others\n")
    parts += ["\n".join(_entry(name)) + "\n" for name in rest if not name.endswith("Error")]
    parts.append(_SERIALIZERS)
    serializers = qanat.client.serializers
    parts += ["\n".join(_entry(name, serializers)) + "\n" for name in serializers.__all__]
    return "\n".join(parts)


def _entry(name: str, module: ModuleType = qanat.client) -> Iterator[str]:
    found = getattr(module, name)
    is_plain = issubclass(found, (Exception, enum.Enum)) if inspect.isclass(found) else True
    yield f"### {name}\n"
    if not is_plain and "__init__" in vars(found) and not getattr(found, "_is_protocol", False):
        yield f"`{name}{_signature(found.__init__)}`\n"
    elif inspect.isfunction(found):
        yield f"`{name}{_signature(found)}`\n"
    yield _text(found)
    if not inspect.isclass(found) or issubclass(found, Exception):
        return
    if issubclass(found, enum.Enum):
        yield f"\nValues: {', '.join(f'`{one.name}`' for one in found)}."
        return
    members = list(_members(found))
    if members:
        yield "\n| member | meaning |\n| --- | --- |"
        yield from members


def _members(found: type) -> Iterator[str]:
    for name, member in sorted(inspect.getmembers(found), key=lambda pair: pair[0]):
        if name.startswith("_") or (not inspect.isfunction(member) and not isinstance(member, property)):
            continue
        shown = name if isinstance(member, property) else f"{name}{_signature(member)}"
        ports = [vars(one)[name] for one in (Serializer, Deserializer, SchemaRegistry) if name in vars(one)]
        said = _text(member) or (_text(ports[0]) if found.__module__.startswith(_FROM) and ports else "")
        yield f"| `{_cell(shown)}` | {_cell(said)} |"


def _signature(function: object) -> str:
    try:
        text = str(inspect.signature(function))  # type: ignore[arg-type]
    except ValueError:
        return "(…)"
    text = re.sub(r"\(self(?:, )?", "(", text, count=1)
    text = re.sub(r"<[^>]*object at 0x[0-9a-f]+>|<function [^>]*>|<[\w.]+ object>", "…", text)
    return text.replace("'", "").removesuffix(" -> None")


def _text(found: object) -> str:
    return " ".join((inspect.getdoc(found) or "").split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
