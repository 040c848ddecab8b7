"""The cases of a file: for each, the given rows of sources and the expected rows of tables and sinks.

The file lies beside the pipeline: `orders.yaml` is tested by `orders.test.yaml`, `.yml` or `.json`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qanat.spark.pipelines.document import Document, PipelineError, nearest, read_document

Rows = list[dict[str, Any]]

_SUFFIXES = (".test.yaml", ".test.yml", ".test.json")
_SECTIONS = ("pipeline", "settings", "cases")
_KEYS = ("settings", "given", "expect")


@dataclass(frozen=True, slots=True)
class Case:
    """Rows for sources, and what tables and sinks should have then."""

    name: str
    given: Mapping[str, Rows]
    expect: Mapping[str, Rows]
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CaseFile:
    """The cases of one pipeline."""

    origin: str
    pipeline: str
    """A file, or the name of an installed pipeline."""
    cases: tuple[Case, ...]


def find_case_file(name: str) -> Path:
    """The file of cases: the given one, or the one beside a pipeline's file; raises `PipelineError`."""
    path = Path(name)
    if path.name.endswith(_SUFFIXES):
        return path
    for suffix in _SUFFIXES:
        beside = path.with_name(path.stem + suffix)
        if beside.exists():
            return beside
    raise PipelineError(
        f"there are no cases for {name}: write them into {path.with_name(path.stem + _SUFFIXES[0])}, "
        "with `given` and `expect` of each"
    )


def read_cases(path: Path) -> CaseFile:
    """The cases in a file; raises `PipelineError` with the line of what is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise PipelineError(f"cannot read the cases in {path}: {reason}") from None
    return decode_cases(read_document(text, str(path), "cases: `cases` with `given` and `expect` of each"), path)


def chosen(file: CaseFile, names: Sequence[str]) -> tuple[Case, ...]:
    """The cases of these names, or all of them; raises `PipelineError` for a name that no case has."""
    known = [case.name for case in file.cases]
    for name in names:
        if name not in known:
            raise PipelineError(f"{file.origin} has no case {name}{nearest(name, known)}")
    return tuple(case for case in file.cases if not names or case.name in names)


def decode_cases(document: Document, path: Path) -> CaseFile:
    """The cases of a document; raises `PipelineError`."""
    content = document.content
    _check_keys(document, (), content, _SECTIONS)
    pipeline = content.get("pipeline") or _beside(path)
    if not isinstance(pipeline, str):
        raise document.wrong(("pipeline",), "a text was expected")
    if Path(pipeline).suffix in (".yaml", ".yml"):
        pipeline = str(path.parent / pipeline)
    settings = _settings(document, ("settings",), content.get("settings"))
    cases = content.get("cases")
    if not isinstance(cases, dict) or not cases:
        raise document.wrong(("cases",), "names of cases were expected, each with given and expect")
    return CaseFile(document.origin, pipeline, tuple(_case(document, name, cases[name], settings) for name in cases))


def _beside(path: Path) -> str:
    """
    >>> _beside(Path("jobs/orders.test.json"))
    'orders.yaml'
    """
    stem = path.name.rpartition(".test.")[0]
    return next((name for name in (f"{stem}.yaml", f"{stem}.yml") if (path.parent / name).exists()), f"{stem}.yaml")


def _case(document: Document, name: str, content: Any, settings: Mapping[str, str]) -> Case:
    path = ("cases", name)
    if not isinstance(content, dict):
        raise document.wrong(path, "given and expect were expected")
    _check_keys(document, path, content, _KEYS)
    if not content.get("expect"):
        raise document.wrong(path, "expect is missing: rows of a table or sink, by its name")
    return Case(
        name,
        _tables(document, (*path, "given"), content.get("given")),
        _tables(document, (*path, "expect"), content["expect"]),
        {**settings, **_settings(document, (*path, "settings"), content.get("settings"))},
    )


def _tables(document: Document, path: tuple[str, ...], content: Any) -> dict[str, Rows]:
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise document.wrong(path, "names of tables were expected, each with a list of rows")
    for name, rows in content.items():
        if not isinstance(rows, list | None):
            raise document.wrong((*path, name), "a list of rows was expected")
        for number, row in enumerate(rows or ()):
            if not isinstance(row, dict):
                raise document.wrong((*path, name, str(number)), "a row was expected: columns and their values")
    return {name: rows or [] for name, rows in content.items()}


def _settings(document: Document, path: tuple[str, ...], content: Any) -> dict[str, str]:
    if content is None:
        return {}
    if not isinstance(content, dict) or any(isinstance(value, dict | list) for value in content.values()):
        raise document.wrong(path, "names and values were expected")
    return {
        name: "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in content.items()
    }


def _check_keys(document: Document, path: tuple[str, ...], content: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in content:
        if name not in known:
            raise document.wrong((*path, name), f"unknown key{nearest(name, known)}")
