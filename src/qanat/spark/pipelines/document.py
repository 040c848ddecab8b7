"""YAML documents as plain values, with the line of each, and the errors of what they hold.

A duplicate key is an error: YAML's own readers silently take the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import yaml

from qanat.model.errors import QanatError

Path = tuple[str | int, ...]
_DEEPEST = 20


class PipelineError(QanatError):
    """A pipeline that cannot be run as it is written."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file, and the line of each value."""

    origin: str
    content: dict[str, Any]
    lines: dict[Path, int] = field(repr=False)

    def wrong(self, path: Path, what: str) -> PipelineError:
        """The error of a value, with the nearest known line."""
        known = path
        while known and known not in self.lines:
            known = known[:-1]
        place = ".".join(map(str, path))
        return PipelineError(f"{self.origin} line {self.lines.get(known, 1)}: {place + ': ' if place else ''}{what}")


def read_document(text: str, origin: str, what: str = "a pipeline: `name`, `sources`, `sinks`") -> Document:
    """The document of a text, which should hold `what`; raises `PipelineError` where it is not YAML, or no mapping."""
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as fault:
        line = text.count("\n", 0, fault.position) + 1
        raise PipelineError(
            f"{origin} line {line} is not YAML: it has the character {text[fault.position]!r}"
        ) from None
    try:
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise PipelineError(f"{origin} should hold {what}")
        lines: dict[Path, int] = {}
        content = _value(root, (), loader, origin, lines)
    except yaml.MarkedYAMLError as fault:
        line = fault.problem_mark.line + 1 if fault.problem_mark else 1
        raise PipelineError(f"{origin} line {line} is not YAML: {fault.problem}") from None
    except yaml.YAMLError as fault:
        raise PipelineError(f"{origin} is not YAML: {fault}") from None
    finally:
        loader.dispose()
    return Document(origin, content, lines)


def nearest(name: str, known: Mapping[str, object] | tuple[str, ...] | list[str]) -> str:
    """The nearest known name, as the end of a sentence.

    >>> nearest("sink", ("sources", "sinks")), nearest("x", ("a", "b"))
    ('; did you mean sinks?', '; there are a, b')
    """
    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; there are {', '.join(known)}" if known else ""


def _value(node: yaml.Node, path: Path, loader: yaml.SafeLoader, origin: str, lines: dict[Path, int]) -> Any:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    if len(path) > _DEEPEST:
        raise PipelineError(f"{origin} line {line}: nested too deeply")
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*path, number), loader, origin, lines) for number, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node, deep=True)  # type: ignore[no-untyped-call, unused-ignore]
    found: dict[str, Any] = {}
    for key, value in node.value:
        name = str(key.value)
        where = key.start_mark.line + 1
        if name in found:
            raise PipelineError(f"{origin} line {where}: {'.'.join(map(str, (*path, name)))} is given twice")
        lines[*path, name] = where
        found[name] = _value(value, (*path, name), loader, origin, lines)
    return found
