"""Options of `format("qanat")` for the topics of a pipeline: how sources are read and sinks written. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from qanat.spark.options.options import sink_options, source_options
from qanat.spark.pipelines.batch_limits import BatchLimits
from qanat.spark.pipelines.definition import Option, Sink, Source, option_text

_SOME_CLUSTER = {"kafka.bootstrap.servers": "localhost:9092"}
"""Options are checked without a cluster."""


def reading(source: Source, cluster: Mapping[str, str]) -> dict[str, str]:
    """The options of a stream from a source's topics; `cluster` has those of the cluster, unless it names another."""
    options: dict[str, Option | None] = {
        **(cluster if source.bootstrap is None else {"kafka.bootstrap.servers": source.bootstrap}),
        "subscribe": source.topic or ",".join(source.topics) or None,
        "subscribePattern": source.pattern,
        "startingOffsets": source.start,
        **BatchLimits(source.limit, source.limit_bytes, source.batch_time).options(),
        "kafka.group.id": source.group,
        "includeHeaders": source.headers,
        **source.options,
    }
    return {name: option_text(value) for name, value in options.items() if value is not None}


def writing(sink: Sink, cluster: Mapping[str, str]) -> dict[str, str]:
    """The options of a sink that writes a topic."""
    return {
        **(cluster if sink.bootstrap is None else {"kafka.bootstrap.servers": sink.bootstrap}),
        **({"topic": sink.topic} if sink.topic else {}),
        "delivery": sink.delivery,
        "includeHeaders": option_text(sink.headers),
        "kafka.compression.type": sink.compression,
        **{name: option_text(value) for name, value in sink.options.items()},
    }


def check_reading(source: Source) -> None:
    """Raise `QanatError` for options with which the source would be refused."""
    source_options(reading(source, _SOME_CLUSTER), is_stream=True)


def check_writing(sink: Sink) -> None:
    """Raise `QanatError` for options with which the sink would be refused."""
    sink_options(writing(sink, _SOME_CLUSTER))
