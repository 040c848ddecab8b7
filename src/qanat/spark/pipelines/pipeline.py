"""A pipeline as a value: its settings, how it is checked and launched; and the options of one run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from qanat.spark.options.options import Access, access_of
from qanat.spark.pipelines.definition import Definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from qanat.spark.pipelines.query_watch import Running


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run besides the pipeline's own settings."""

    bootstrap: str
    checkpoint: str | None = None
    """A folder instead of the pipeline's own."""
    is_available_now: bool = False
    """Whether the run ends after the records that exist at its start."""
    print_line: Callable[[str], None] = lambda _: None
    """Prints the lines of a result at the end."""
    client: Mapping[str, str] = field(default_factory=dict)
    """Client settings of the cluster in the names of Kafka's clients: security.protocol, sasl.mechanism and others."""
    from_checkpoint: str | None = None
    """A folder at whose offsets a new checkpoint begins."""

    @property
    def cluster(self) -> dict[str, str]:
        """The cluster as options of sources and sinks."""
        return cluster_options(self.bootstrap, self.client)

    @property
    def access(self) -> Access:
        return access_of(self.cluster)


def cluster_options(bootstrap: str, client: Mapping[str, str]) -> dict[str, str]:
    """A cluster as options of `format("qanat")`."""
    return {"kafka.bootstrap.servers": bootstrap, **{f"kafka.{name}": value for name, value in client.items()}}


Stages: TypeAlias = "Generator[Sequence[Running], None, None]"
Launch: TypeAlias = "Callable[[SparkSession, Mapping[str, str], RunOptions], Stages]"
"""Starts a pipeline: yields queries that run at the same time, and the next ones when those have ended. The generator
is closed after they were stopped, and cleans up in a `finally`."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline that can be listed, shown and launched."""

    name: str
    meaning: str
    settings: Mapping[str, str]
    """The settings that `--set` may change, with their defaults."""
    text: str
    """The output of `qanat pipeline show`."""
    check: Callable[[Mapping[str, str]], None]
    """Checks settings before Spark starts; raises `PipelineError`."""
    launch: Launch
    meanings: Mapping[str, str] = field(default_factory=dict)
    """The meaning of settings, where it is documented."""
    about: str = ""
    """More text for `--help`."""
    define: Callable[[Mapping[str, str]], Definition] | None = None
    """The definition with these settings, of a pipeline that YAML declares; raises `PipelineError`."""
