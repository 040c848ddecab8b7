"""The definition of a pipeline: sources, steps and sinks, as frozen values.

The fields' names are the keys of the YAML; `docs/spark/pipelines.md` explains each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct, field

Start = str
"""`earliest`, `latest`, `group`, or JSON of offsets, as in `startingOffsets`."""
Option = str | int | float | bool


def option_text(value: Option) -> str:
    """An option as text for Spark.

    >>> option_text(True), option_text(5)
    ('true', '5')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def located(folder: str) -> str:
    """An address unchanged, a path made absolute: Spark's processes may have another working directory."""
    return folder if "://" in folder or folder.startswith("file:") else str(Path(folder).absolute())


class Source(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Topics as a stream of records, or a table to enrich from; `schema` adds a column `record` decoded from JSON."""

    topic: str | None = None
    topics: list[str] = []
    pattern: str | None = None
    schema: str | None = None
    options: dict[str, Option] = {}
    # Topics
    start: Start = "earliest"
    limit: int | str | None = None
    limit_bytes: str | None = None
    batch_time: str | None = None
    group: str | None = None
    headers: bool = False
    bootstrap: str | None = None
    # Tables to enrich from
    parquet: str | None = None
    table: str | None = None
    format: str | None = None
    lake: str | None = None

    @property
    def kinds(self) -> list[str]:
        """What is read; there should be one."""
        given = {"topic": self.topic, "topics": self.topics or None, "pattern": self.pattern, "parquet": self.parquet}
        given |= {"table": self.table, "format": self.format, "lake": self.lake}
        return [name for name, value in given.items() if value is not None]

    @property
    def is_stream(self) -> bool:
        return self.kinds[0] in ("topic", "topics", "pattern")

    @property
    def has_records(self) -> bool:
        """Whether its rows are records, of topics or of a lake that has archived them."""
        return self.is_stream or self.lake is not None


class Watermark(Struct, frozen=True, forbid_unknown_fields=True):
    """How far a record may be behind the latest event time."""

    column: str
    delay: str


class Windows(Struct, frozen=True, forbid_unknown_fields=True):
    """Windows over event time and the aggregates of each: tumbling, sliding, or sessions that end after a gap."""

    column: str
    compute: dict[str, str]
    sizes: dict[str, str] = {}
    by: list[str] = []
    slide: str | None = None
    gap: str | None = None


class Step(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table derived from others: by SQL, by Python, or from one table with a watermark, distinct rows, windows."""

    sql: str | None = None
    from_: str | list[str] | None = field(name="from", default=None)
    watermark: Watermark | None = None
    distinct: list[str] = []
    windows: Windows | None = None
    # Python
    python: str | None = None
    rows: str | None = None
    returns: str | None = None
    options: dict[str, Option] = {}

    @property
    def inputs(self) -> list[str]:
        """The tables in `from`."""
        return self.from_ if isinstance(self.from_, list) else [] if self.from_ is None else [self.from_]

    @property
    def function(self) -> str | None:
        return self.python or self.rows


class Sink(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the rows of a table go: a topic, a Parquet lake, any format of Spark, a function, or the terminal."""

    from_: str = field(name="from")
    topic: str | None = None
    parquet: str | None = None
    format: str | None = None
    python: str | None = None
    console: bool = False
    every: str | None = None
    mode: Literal["append", "update", "complete"] = "append"
    options: dict[str, Option] = {}
    # Topics
    delivery: Literal["exactly-once", "at-least-once"] = "exactly-once"
    partitions: int | None = None
    headers: bool = False
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    bootstrap: str | None = None
    value_format: Literal["json", "csv", "text", "avro"] | None = field(name="valueFormat", default=None)
    value_schema: str | None = field(name="valueSchema", default=None)
    # Files
    partition_by: list[str] = []
    files: int | None = None
    write: Literal["stream", "batch"] = "stream"

    @property
    def kinds(self) -> list[str]:
        """The destinations that are given, of which there should be one."""
        given = {"topic": self.topic, "parquet": self.parquet, "format": self.format, "python": self.python}
        return [*(name for name, value in given.items() if value is not None), *(["console"] if self.console else [])]

    @property
    def kind(self) -> str:
        return self.kinds[0]

    @property
    def is_by_batch(self) -> bool:
        """Whether micro-batches are batch writes."""
        return self.write == "batch" or (self.kind == "topic" and self.mode != "append")


class Definition(Struct, frozen=True, kw_only=True):
    """A pipeline with its settings filled in."""

    name: str
    meaning: str = ""
    checkpoint: str | None = None
    settings: dict[str, str] = {}
    sources: dict[str, Source]
    steps: dict[str, Step] = {}
    sinks: dict[str, Sink]
    folder: str | None = None
    """The folder of the pipeline's file, where modules of its functions may be."""
