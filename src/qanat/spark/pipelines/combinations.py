"""Keys that go together, and values that types alone do not check: durations, schemas, names of functions. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from qanat.model.errors import QanatError
from qanat.model.topic_names import name_problem
from qanat.spark.ddl import check_columns
from qanat.spark.formats.value_format import SchemaError
from qanat.spark.pipelines.batch_limits import BatchLimits
from qanat.spark.pipelines.definition import Definition, Sink, Source, Step, Windows
from qanat.spark.pipelines.document import Document, Path, PipelineError
from qanat.spark.pipelines.durations import seconds_of
from qanat.spark.pipelines.format_options import check_reading, check_writing

MOST_OVERLAPS = 1440
"""How many sliding windows a row may be in: those of a day that slide by the minute."""
_OF_TOPICS = ("start", "limit", "limit_bytes", "batch_time", "group", "headers", "bootstrap")
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def check_combinations(document: Document, pipeline: Definition) -> None:
    """Raise `PipelineError` with the line of what does not go together."""
    for name, source in pipeline.sources.items():
        _check_source(document, ("sources", name), source)
    for name, step in pipeline.steps.items():
        _check_step(document, ("steps", name), step)
    for name, sink in pipeline.sinks.items():
        _check_sink(document, ("sinks", name), sink)


def _check_source(document: Document, path: Path, source: Source) -> None:
    if len(source.kinds) != 1:
        raise document.wrong(
            path, "exactly one of topic, topics and pattern is needed, or of parquet, table, format and lake"
        )
    try:
        BatchLimits(source.limit, source.limit_bytes, source.batch_time).options()
    except PipelineError as fault:
        raise document.wrong(path, str(fault)) from None
    if source.schema is not None:
        _columns(document, (*path, "schema"), source.schema)
    if source.is_stream:
        for topic in [source.topic] if source.topic is not None else source.topics:
            _topic(document, (*path, source.kinds[0]), topic)
        _options(document, path, lambda: check_reading(source))
        return
    for key in _OF_TOPICS:
        if getattr(source, key) not in (None, False, "earliest"):
            raise document.wrong((*path, key), "it is for topics")
    for key in ("table", "lake"):
        if getattr(source, key) is not None and source.options:
            raise document.wrong((*path, "options"), f"{key} has none")


def _check_step(document: Document, path: Path, step: Step) -> None:
    if step.sql is not None:
        if not step.sql.strip():
            raise document.wrong((*path, "sql"), "a query was expected")
        if step.inputs or step.function or _has_parts(step):
            raise document.wrong(path, "sql stands alone: put from, watermark, distinct, windows into another step")
        return
    if not step.inputs:
        raise document.wrong(
            path, "a step needs either sql, or from with python, rows, or watermark, distinct or windows"
        )
    if step.function is not None:
        _check_python(document, path, step)
        return
    if len(step.inputs) > 1:
        raise document.wrong((*path, "from"), "several tables are for python; use sql to join them")
    if not _has_parts(step):
        raise document.wrong(
            path, f"the step does nothing with {step.inputs[0]}: add watermark, distinct, windows, python or rows"
        )
    if step.returns is not None or step.options:
        raise document.wrong(path, "returns and options are for python and rows")
    if step.watermark is not None:
        _duration(document, (*path, "watermark", "delay"), step.watermark.delay)
    if step.windows is not None:
        _check_windows(document, (*path, "windows"), step.windows)


def _check_windows(document: Document, path: Path, windows: Windows) -> None:
    if not windows.compute:
        raise document.wrong((*path, "compute"), "at least one is needed")
    if bool(windows.sizes) == (windows.gap is not None):
        raise document.wrong(path, "either sizes or gap is needed: windows of a length, or sessions")
    for label, size in windows.sizes.items():
        _duration(document, (*path, "sizes", label), size)
    if windows.gap is not None:
        _duration(document, (*path, "gap"), windows.gap)
        if windows.slide is not None:
            raise document.wrong((*path, "slide"), "sessions do not slide")
        if not windows.by:
            raise document.wrong((*path, "gap"), "sessions need by: the columns of which each has sessions of its own")
    if windows.slide is not None:
        _duration(document, (*path, "slide"), windows.slide)
        for label, size in windows.sizes.items():
            if not 1 <= seconds_of(size) / seconds_of(windows.slide) <= MOST_OVERLAPS:
                raise document.wrong(
                    (*path, "slide"), f"size {label} should be at least as long, and at most {MOST_OVERLAPS} times"
                )


def _has_parts(step: Step) -> bool:
    return step.watermark is not None or step.windows is not None or bool(step.distinct)


def _check_python(document: Document, path: Path, step: Step) -> None:
    if _has_parts(step) or (step.python is not None and step.rows is not None):
        raise document.wrong(path, "python and rows stand alone with from: put anything else into another step")
    _function(document, (*path, "python" if step.python is not None else "rows"), step.function or "")
    if step.rows is None:
        if step.returns is not None:
            raise document.wrong((*path, "returns"), "it is for rows: a function of data frames returns one")
        return
    if len(step.inputs) > 1:
        raise document.wrong((*path, "from"), "rows reads one table; several are for python")
    if step.returns is None:
        raise document.wrong(path, 'rows needs returns: the columns of its result, such as "id string, score double"')
    _columns(document, (*path, "returns"), step.returns)


def _function(document: Document, path: Path, text: str) -> None:
    if not _REFERENCE.fullmatch(text):
        raise document.wrong(path, f"{text!r} is not module:function")


def _columns(document: Document, path: Path, text: str) -> None:
    try:
        check_columns(text)
    except SchemaError as fault:
        raise document.wrong(path, str(fault)) from None


def _check_sink(document: Document, path: Path, sink: Sink) -> None:
    if len(sink.kinds) != 1:
        raise document.wrong(path, "exactly one of topic, parquet, format, python and console is needed")
    if sink.every is not None:
        _duration(document, (*path, "every"), sink.every)
    for key in ("files", "partitions"):
        value = getattr(sink, key)
        if value is not None and value < 1:
            raise document.wrong((*path, key), "a number above 0 was expected")
    if sink.kind not in ("parquet", "format") and (sink.partition_by or sink.files):
        raise document.wrong(path, "partition_by and files are for parquet and format")
    if sink.kind != "format" and sink.write == "batch":
        raise document.wrong((*path, "write"), "it is for format")
    if sink.kind == "parquet" and sink.mode != "append":
        raise document.wrong((*path, "mode"), "files are only appended to")
    if sink.python is not None:
        _function(document, (*path, "python"), sink.python)
    if sink.topic is not None:
        _topic(document, (*path, "topic"), sink.topic)
        _options(document, path, lambda: check_writing(sink))
    _check_values(document, path, sink)


def _check_values(document: Document, path: Path, sink: Sink) -> None:
    if sink.value_format is not None and sink.kind != "topic":
        raise document.wrong((*path, "valueFormat"), "it is for topics")
    if sink.value_format != "avro":
        if sink.value_schema is not None:
            raise document.wrong((*path, "valueSchema"), "it is for avro; other formats write the columns as they are")
        return
    if sink.value_schema is None:
        raise document.wrong(path, "valueFormat avro needs valueSchema: the schema in Avro's JSON")
    from qanat.spark.formats.avro_values import avro_type

    try:
        avro_type(sink.value_schema)
    except SchemaError as fault:
        raise document.wrong((*path, "valueSchema"), str(fault)) from None


def _topic(document: Document, path: Path, name: str) -> None:
    if (problem := name_problem(name)) is not None:
        raise document.wrong(path, problem)


def _options(document: Document, path: Path, check: Callable[[], None]) -> None:
    """Options as `format("qanat")` checks them, before Spark starts."""
    try:
        check()
    except QanatError as fault:
        raise document.wrong(path, str(fault)) from None


def _duration(document: Document, path: Path, text: str) -> None:
    try:
        seconds_of(text)
    except ValueError as fault:
        raise document.wrong(path, str(fault)) from None
