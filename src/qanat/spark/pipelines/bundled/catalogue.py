"""Pipelines by name: those that come with Qanat, those of installed packages, and YAML files.

To add a bundled one, write a module beside this one that has a `PIPELINE`, and name the module in `MODULES`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from qanat.spark.pipelines.document import PipelineError, nearest
from qanat.spark.pipelines.installed import Installed, installed_pipeline, installed_pipelines
from qanat.spark.pipelines.pipeline import Pipeline
from qanat.spark.pipelines.yaml_pipelines import yaml_pipeline

MODULES = {
    "metrics": "qanat.spark.pipelines.bundled.metrics",
    "archive": "qanat.spark.pipelines.bundled.archive",
    "replay": "qanat.spark.pipelines.bundled.replay",
    "mirror": "qanat.spark.pipelines.bundled.mirror",
}


def named(name: str) -> Pipeline:
    """A pipeline by its name, bundled or installed, or from a YAML file; raises `PipelineError`."""
    if name in MODULES:
        found: Pipeline = import_module(MODULES[name]).PIPELINE
        return found
    path = Path(name)
    if (installed := installed_pipeline(name)) is not None:
        return installed
    if path.suffix not in (".yaml", ".yml") and not path.exists():
        known = [*MODULES, *(one.name for one in installed_pipelines(()))]
        raise PipelineError(f"there is no such file, and there is no pipeline {name}{nearest(name, known)}")
    try:
        return yaml_pipeline(path.read_text(encoding="utf-8"), str(path), str(path.absolute().parent))
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise PipelineError(f"cannot read the pipeline in {path}: {reason}") from None


def every() -> list[Pipeline]:
    """All bundled pipelines."""
    return [named(name) for name in MODULES]


def installed() -> list[Installed]:
    """All pipelines of installed packages, and why some cannot be used."""
    return installed_pipelines(list(MODULES))
