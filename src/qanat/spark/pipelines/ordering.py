"""Ordering of a pipeline: tables exist before they are read, and some sinks finish before others start."""

from __future__ import annotations

import re

from qanat.spark.pipelines.definition import Definition, Source
from qanat.spark.pipelines.document import PipelineError, nearest

_WORD = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)


def check_names(pipeline: Definition) -> None:
    """Check that names are unique and defined before their use; raises `PipelineError`."""
    known = list(pipeline.sources)
    for name, step in pipeline.steps.items():
        if name in known:
            raise PipelineError(f"pipeline {pipeline.name}: {name} is the name of two tables")
        for table in step.inputs:
            if table not in known:
                raise PipelineError(
                    f"pipeline {pipeline.name}, step {name}: there is no table {table}{nearest(table, known)}"
                )
        known.append(name)
    for name, sink in pipeline.sinks.items():
        if sink.from_ not in known:
            raise PipelineError(
                f"pipeline {pipeline.name}, sink {name}: there is no table {sink.from_}{nearest(sink.from_, known)}"
            )


def stages(pipeline: Definition) -> list[list[str]]:
    """Sinks in the order of a run that ends: a sink that reads a topic waits for those that write it.

    Sinks of a stage run at the same time. A run that does not end starts all sinks at once.
    """
    writes = {sink.topic: name for name, sink in pipeline.sinks.items() if sink.topic is not None}
    waits = {
        name: {
            writes[topic]
            for source in upstream(pipeline, sink.from_)
            if source in pipeline.sources
            for topic in _topics(pipeline.sources[source])
            if topic in writes and writes[topic] != name
        }
        for name, sink in pipeline.sinks.items()
    }
    done: set[str] = set()
    result: list[list[str]] = []
    while len(done) < len(waits):
        stage = [name for name, before in waits.items() if name not in done and before <= done]
        if not stage:
            circle = ", ".join(name for name in waits if name not in done)
            raise PipelineError(
                f"pipeline {pipeline.name}: sinks {circle} read each other's topics: such a run never ends"
            )
        result.append(stage)
        done.update(stage)
    return result


def _topics(source: Source) -> list[str]:
    return [source.topic] if source.topic is not None else source.topics


def upstream(pipeline: Definition, table: str) -> set[str]:
    """A table and those that it is made from. SQL is not parsed: each word that names a table counts as read."""
    if table in pipeline.sources:
        return {table}
    step = pipeline.steps[table]
    before = list(pipeline.steps)[: list(pipeline.steps).index(table)]
    if step.sql is None:
        read = set(step.inputs)
    else:
        read = set(_WORD.findall(step.sql.lower())) & {*pipeline.sources, *before}
    return {table, *(found for name in read for found in upstream(pipeline, name))}
