"""Decoding of a pipeline's YAML into a `Definition`: settings filled in, every key known, every value of its type.

`${name}` in any value stands for a setting that the pipeline declares in `settings` with its default. A value that is
only a setting counts as absent if the setting is empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

import msgspec

from qanat.spark.pipelines.combinations import check_combinations
from qanat.spark.pipelines.definition import Definition, Sink, Source, Step
from qanat.spark.pipelines.document import Document, Path, PipelineError, nearest, read_document

Entry = TypeVar("Entry", Source, Step, Sink)

_SECTIONS = ("name", "meaning", "settings", "checkpoint", "sources", "steps", "sinks")
_SETTING = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_TABLE = re.compile(r"[a-z][a-z0-9_]*")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`")
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_CHOICE = re.compile(r"Invalid enum value '(?P<value>[^']*)'")
_AT = re.compile(r" - at `\$(?P<path>[^`]*)`")


def decode(text: str, origin: str, given: Mapping[str, str] | None = None) -> Definition:
    """The pipeline of a text, with settings of the caller; raises `PipelineError`."""
    document = read_document(text, origin)
    content = document.content
    for name in content:
        if name not in _SECTIONS:
            raise document.wrong((name,), f"unknown key{nearest(name, _SECTIONS)}")
    settings = _settings(document, given or {})
    filled = {key: _filled(value, (key,), document, settings) for key, value in content.items() if key != "settings"}
    title = filled.get("name")
    if not isinstance(title, str) or not _NAME.fullmatch(title):
        raise document.wrong(("name",), "a pipeline needs a name of lower-case letters, digits, - and _")
    result = Definition(
        name=title,
        meaning=_text(document, filled, "meaning") or "",
        checkpoint=_text(document, filled, "checkpoint"),
        settings=settings,
        sources=_entries(document, filled, "sources", Source, is_needed=True),
        steps=_entries(document, filled, "steps", Step, is_needed=False),
        sinks=_entries(document, filled, "sinks", Sink, is_needed=True),
    )
    check_combinations(document, result)
    return result


def _settings(document: Document, given: Mapping[str, str]) -> dict[str, str]:
    declared = document.content.get("settings") or {}
    if not isinstance(declared, dict):
        raise document.wrong(("settings",), "names and defaults were expected")
    for name, value in declared.items():
        if isinstance(value, dict | list):
            raise document.wrong(("settings", name), "a text or a number was expected")
    for name in given:
        if name not in declared:
            hint = nearest(name, declared) if declared else "; it has none"
            raise PipelineError(f"{document.origin} has no setting {name}{hint}")
    defaults = {name: _plain(value) for name, value in declared.items()}
    return {**defaults, **given}


def _plain(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _filled(value: Any, path: Path, document: Document, settings: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        filled = {name: _filled(item, (*path, name), document, settings) for name, item in value.items()}
        return {name: item for name, item in filled.items() if item is not _ABSENT}
    if isinstance(value, list):
        items = [_filled(item, (*path, number), document, settings) for number, item in enumerate(value)]
        return [item for item in items if item is not _ABSENT]
    if not isinstance(value, str):
        return value

    def replacement(found: re.Match[str]) -> str:
        if found[1] not in settings:
            raise document.wrong(path, f"there is no setting {found[1]}{nearest(found[1], settings)}")
        return settings[found[1]]

    filled_in = _SETTING.sub(replacement, value)
    return _ABSENT if not filled_in and _SETTING.fullmatch(value) else filled_in


_ABSENT = object()


def _text(document: Document, content: Mapping[str, Any], key: str) -> str | None:
    value = content.get(key)
    if value is not None and not isinstance(value, str):
        raise document.wrong((key,), "a text was expected")
    return value


def _entries(
    document: Document, content: Mapping[str, Any], section: str, kind: type[Entry], *, is_needed: bool
) -> dict[str, Entry]:
    found = content.get(section) or {}
    if not isinstance(found, dict):
        raise document.wrong((section,), "expected names, each with its description")
    if is_needed and not found:
        raise document.wrong((section,), f"a pipeline needs {section}")
    for name in found:
        if not _TABLE.fullmatch(name):
            raise document.wrong((section, name), "names have lower-case letters, digits and _ and begin with a letter")
    return {name: _entry(document, (section, name), value, kind) for name, value in found.items()}


def _entry(document: Document, path: Path, value: Any, kind: type[Entry]) -> Entry:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as fault:
        raise _explained(document, path, str(fault), kind) from None


def _explained(document: Document, path: Path, message: str, kind: type[Any]) -> PipelineError:
    at = _AT.search(message)
    inside = _steps(at["path"]) if at is not None else ()
    what = _AT.sub("", message)
    if (unknown := _UNKNOWN.search(what)) is not None:
        name = unknown["name"]
        return document.wrong((*path, *inside, name), f"unknown key{nearest(name, _keys(kind, inside))}")
    if (missing := _MISSING.search(what)) is not None:
        return document.wrong((*path, *inside), f"{missing['name']} is missing")
    if (unheard := _CHOICE.search(what)) is not None:
        hint = nearest(unheard["value"], _choices(_field(kind, inside).type))
        return document.wrong((*path, *inside), f"{unheard['value']!r} is not possible here{hint}")
    return document.wrong((*path, *inside), what.replace("`", "").replace("Expected", "expected", 1))


def _choices(kind: Any) -> list[str]:
    """The values of a choice, or of an optional one."""
    return [one for part in get_args(kind) for one in (get_args(part) or (part,)) if isinstance(one, str)]


def _steps(path: str) -> Path:
    """
    >>> _steps(".windows.by[0]"), _steps(".compute[...]")
    (('windows', 'by', 0), ('compute',))
    """
    parts: list[str | int] = []
    for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        parts.append(name or int(number))
    return tuple(parts)


def _keys(kind: type[Any], inside: Path) -> tuple[str, ...]:
    """The keys of a struct, or of a nested one."""
    if inside:
        field = _field(kind, inside)
        kind = next(one for one in (*get_args(field.type), field.type) if hasattr(one, "__struct_fields__"))
    return tuple(one.encode_name for one in msgspec.structs.fields(kind))


def _field(kind: type[Any], inside: Path) -> msgspec.structs.FieldInfo:
    step, *further = inside
    field = next(one for one in msgspec.structs.fields(kind) if one.encode_name == step)
    if not further:
        return field
    inner = next(one for one in (*get_args(field.type), field.type) if hasattr(one, "__struct_fields__"))
    return _field(inner, tuple(further))
