"""Pipelines that come with the package, and what each of them has to be.

To add one, write a module beside this one that has a `PIPELINE`, and name the module in `MODULES`. Where YAML says it
all, `declared` makes the pipeline from it; others say how they are launched.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from qanat.spark.options.options import Access, access_of
from qanat.spark.pipelines.decoding import decode, nearest
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.ordering import check_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from qanat.spark.pipelines.query_watch import Running

MODULES = {
    "metrics": "qanat.spark.pipelines.bundled.metrics",
    "archive": "qanat.spark.pipelines.bundled.archive",
    "replay": "qanat.spark.pipelines.bundled.replay",
    "mirror": "qanat.spark.pipelines.bundled.mirror",
}


@dataclass(frozen=True, slots=True)
class How:
    """What a run is told besides the pipeline's own settings."""

    bootstrap: str
    checkpoint: str | None = None
    """A folder instead of the one that the pipeline names."""
    is_available_now: bool = False
    """Whether the run ends when everything that was there at its start is done."""
    tell: Callable[[str], None] = lambda _: None
    """Takes the lines of a result that is to be printed at the end."""
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings for the cluster in the names of Kafka's clients: security.protocol, sasl.mechanism and their like."""

    @property
    def options(self) -> dict[str, str]:
        """The cluster, as sources and sinks take it."""
        return cluster_options(self.bootstrap, self.client)

    @property
    def access(self) -> Access:
        return access_of(self.options)


def cluster_options(bootstrap: str, client: Mapping[str, str]) -> dict[str, str]:
    """A cluster as options of `format("qanat")`."""
    return {"kafka.bootstrap.servers": bootstrap, **{f"kafka.{name}": value for name, value in client.items()}}


Stages: TypeAlias = "Generator[Sequence[Running], None, None]"
Launch: TypeAlias = "Callable[[SparkSession, Mapping[str, str], How], Stages]"
"""Starts a pipeline: gives queries that run side by side, and is asked for the next ones when those have ended. It is
closed when they have been stopped: what must be put in order then is done in a `finally`."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline that can be listed, shown and launched."""

    name: str
    meaning: str
    settings: Mapping[str, str]
    """What `--set` may change, with the defaults."""
    text: str
    """What `qanat pipeline show` prints."""
    check: Callable[[Mapping[str, str]], None]
    """Says what is wrong with given settings before Spark is started: raises `PipelineError`."""
    launch: Launch
    meanings: Mapping[str, str] = field(default_factory=dict)
    """What settings are for, where somebody wrote it down."""
    about: str = ""
    """What `--help` says besides."""


def declared(text: str, origin: str = "the pipeline") -> Pipeline:
    """A pipeline that YAML says all of."""
    found = decode(text, origin)
    origin = f"pipeline {found.name}" if origin == "the pipeline" else origin

    def check(settings: Mapping[str, str]) -> None:
        check_names(decode(text, origin, settings))

    def launch(spark: SparkSession, settings: Mapping[str, str], how: How) -> Stages:
        from qanat.spark.pipelines.launch import launch as started

        return started(spark, decode(text, origin, settings), how)

    return Pipeline(found.name, found.meaning, found.settings, text, check, launch)


def named(name: str) -> Pipeline:
    """A pipeline by its name, or one in a YAML file."""
    if name in MODULES:
        found: Pipeline = import_module(MODULES[name]).PIPELINE
        return found
    path = Path(name)
    if path.suffix not in (".yaml", ".yml") and not path.exists():
        raise PipelineError(f"there is no such file, and there is no pipeline {name}{nearest(name, MODULES)}")
    try:
        return declared(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise PipelineError(f"cannot read the pipeline in {path}: {reason}") from None


def every() -> list[Pipeline]:
    """All that come with the package."""
    return [named(name) for name in MODULES]
