"""Pipelines of installed packages, by name: entry points of the group `qanat.pipelines`.

An entry point names the text of a pipeline in YAML, the path of its file, or a `Pipeline`. Its functions are in
installed modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.pipeline import Pipeline
from qanat.spark.pipelines.user_functions.references import described
from qanat.spark.pipelines.yaml_pipelines import yaml_pipeline

GROUP = "qanat.pipelines"


@dataclass(frozen=True, slots=True)
class Installed:
    """A pipeline of a package; or why it cannot be used."""

    name: str
    package: str
    pipeline: Pipeline | None
    fault: str = ""


def installed_pipelines(taken: Sequence[str]) -> list[Installed]:
    """All of them by name; names that are `taken`, or that several packages give, cannot be used."""
    entries = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, _package(entry)))
    return [_installed(entry, entries, taken) for entry in entries]


def installed_pipeline(name: str) -> Pipeline | None:
    """The pipeline of a name; None where no package has one. Raises `PipelineError` where it cannot be used."""
    entries = list(entry_points(group=GROUP, name=name))
    if not entries:
        return None
    found = _installed(entries[0], entries, ())
    if found.pipeline is None:
        raise PipelineError(f"pipeline {name} of {found.package}: {found.fault}")
    return found.pipeline


def _installed(entry: EntryPoint, entries: Sequence[EntryPoint], taken: Sequence[str]) -> Installed:
    package = _package(entry)
    if entry.name in taken:
        return Installed(entry.name, package, None, "Qanat has a pipeline of that name")
    others = [_package(one) for one in entries if one.name == entry.name and one is not entry]
    if others:
        return Installed(entry.name, package, None, f"{others[0]} has a pipeline of that name as well")
    try:
        return Installed(entry.name, package, _loaded(entry))
    except PipelineError as fault:
        return Installed(entry.name, package, None, str(fault))


def _loaded(entry: EntryPoint) -> Pipeline:
    try:
        found: Any = entry.load()
        if isinstance(found, Path):
            found = yaml_pipeline(found.read_text(encoding="utf-8"), str(found))
        elif isinstance(found, str):
            found = yaml_pipeline(found, entry.value)
    except PipelineError:
        raise
    except Exception as fault:  # noqa: BLE001 - a package may raise anything when it is imported
        raise PipelineError(f"{entry.value} cannot be loaded: {described(fault, entry.value)}") from None
    if not isinstance(found, Pipeline):
        raise PipelineError(
            f"{entry.value} is {type(found).__name__}, but must be YAML, the path of a YAML file, or a Pipeline"
        )
    if found.name != entry.name:
        raise PipelineError(f"{entry.value} has the name {found.name}: entry point and pipeline need the same one")
    return found


def _package(entry: EntryPoint) -> str:
    return "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
