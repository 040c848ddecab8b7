"""The launch of a definition: topics are created, tables built, sinks started in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from qanat.spark.options.options import Access
from qanat.spark.pipelines.definition import Definition, located
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.frames import read_source, tables
from qanat.spark.pipelines.ordering import check_names, stages
from qanat.spark.pipelines.pipeline import RunOptions, Stages
from qanat.spark.pipelines.query import Query
from qanat.spark.pipelines.runs.checkpoints import check_fit, old_offsets, start_at
from qanat.spark.pipelines.sinks import start
from qanat.spark.pipelines.state_store import prepare_state
from qanat.spark.pipelines.topics import make_missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def launch(spark: SparkSession, pipeline: Definition, run_options: RunOptions) -> Stages:
    """Start all sinks at once; or, in a run that ends, stage by stage."""
    check_names(pipeline)
    folder = run_options.checkpoint or pipeline.checkpoint
    if folder is None:
        raise PipelineError(
            f"pipeline {pipeline.name} has no checkpoint: write `checkpoint:` into it, or use --checkpoint"
        )
    prepare_state(spark)
    # Tables first: a mistake in the text should leave no topics behind.
    found = _tables(spark, pipeline, run_options)
    for name, sink in pipeline.sinks.items():
        check_fit(pipeline, folder, name, [(one.name, one.dataType.simpleString()) for one in found[sink.from_].schema])
    frames = {name: found[sink.from_] for name, sink in pipeline.sinks.items()}
    if run_options.from_checkpoint is not None:
        frames |= _continued(spark, pipeline, folder, run_options.from_checkpoint, run_options)
    _make_topics(pipeline, run_options)
    order = stages(pipeline) if run_options.is_available_now else [list(pipeline.sinks)]
    for stage in order:
        queries: list[Query] = []
        try:
            queries.extend(_started(frames[name], pipeline, name, located(folder), run_options) for name in stage)
        except PipelineError:
            for query in queries:
                query.stop()
            raise
        yield queries


def _tables(spark: SparkSession, pipeline: Definition, run_options: RunOptions) -> dict[str, DataFrame]:
    return tables(spark, pipeline, lambda _, source: read_source(spark, source, run_options.cluster))


def _continued(
    spark: SparkSession, pipeline: Definition, folder: str, old_folder: str, run_options: RunOptions
) -> dict[str, DataFrame]:
    """The tables of sinks, read from where they ended in an old checkpoint."""
    if located(old_folder) == located(folder):
        raise PipelineError(
            f"--from-checkpoint {old_folder} is the checkpoint itself: give --checkpoint another folder"
        )
    continued: dict[str, DataFrame] = {}
    for name, sink in pipeline.sinks.items():
        offsets = old_offsets(pipeline, old_folder, name, run_options.access)
        if offsets is None:
            continue
        sources = {
            key: replace(source, start=start_at(source, offsets, run_options.access) or source.start)
            for key, source in pipeline.sources.items()
            if source.is_stream and source.bootstrap is None
        }
        changed = replace(pipeline, sources={**pipeline.sources, **sources})
        continued[name] = _tables(spark, changed, run_options)[sink.from_]
    if not continued:
        raise PipelineError(f"--from-checkpoint {old_folder}: there is no progress of a sink of this pipeline")
    return continued


def _make_topics(pipeline: Definition, run_options: RunOptions) -> None:
    by_cluster: dict[str | None, dict[str, int | None]] = {}
    for sink in pipeline.sinks.values():
        if sink.topic is not None:
            by_cluster.setdefault(sink.bootstrap, {})[sink.topic] = sink.partitions
    updated = {sink.topic for sink in pipeline.sinks.values() if sink.topic is not None and sink.mode == "update"}
    for bootstrap, topics in by_cluster.items():
        make_missing(run_options.access if bootstrap is None else Access(bootstrap), topics, updated)


def _started(frame: DataFrame, pipeline: Definition, name: str, folder: str, run_options: RunOptions) -> Query:
    sink = pipeline.sinks[name]
    where = f"pipeline {pipeline.name}, sink {name}"
    return Query(
        where,
        lambda: start(
            frame,
            sink,
            f"{pipeline.name}-{name}",
            f"{folder}/{name}",
            run_options.cluster,
            is_available_now=run_options.is_available_now,
            where=where,
            folder=pipeline.folder,
        ),
    )
