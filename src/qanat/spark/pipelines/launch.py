"""A definition as running queries: topics made, tables built, sinks started in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.spark.options.options import Access
from qanat.spark.pipelines.bundled.catalogue import How, Stages
from qanat.spark.pipelines.definition import Definition
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.frames import tables
from qanat.spark.pipelines.ordering import check_names, stages
from qanat.spark.pipelines.query import Query
from qanat.spark.pipelines.sinks import located, start
from qanat.spark.pipelines.topics import make_missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def launch(spark: SparkSession, pipeline: Definition, how: How) -> Stages:
    """All sinks at once; or, in a run that ends, stage by stage."""
    check_names(pipeline)
    folder = how.checkpoint or pipeline.checkpoint
    if folder is None:
        raise PipelineError(
            f"pipeline {pipeline.name} has no place for its progress: write `checkpoint:` into it, or give one"
        )
    # First what may be wrong in the text: a mistake should leave no topics behind.
    found = tables(spark, pipeline, how.options)
    by_cluster: dict[str | None, dict[str, int | None]] = {}
    for sink in pipeline.sinks.values():
        if sink.topic is not None:
            by_cluster.setdefault(sink.bootstrap, {})[sink.topic] = sink.partitions
    for bootstrap, topics in by_cluster.items():
        make_missing(how.access if bootstrap is None else Access(bootstrap), topics)
    order = stages(pipeline) if how.is_available_now else [list(pipeline.sinks)]
    for stage in order:
        queries: list[Query] = []
        try:
            queries.extend(_started(found, pipeline, name, located(folder), how) for name in stage)
        except PipelineError:
            for query in queries:
                query.stop()
            raise
        yield queries


def _started(found: dict[str, DataFrame], pipeline: Definition, name: str, folder: str, how: How) -> Query:
    sink = pipeline.sinks[name]
    return Query(
        f"pipeline {pipeline.name}, sink {name}",
        lambda: start(
            found[sink.from_],
            sink,
            f"{pipeline.name}-{name}",
            f"{folder}/{name}",
            how.options,
            is_available_now=how.is_available_now,
        ),
    )
