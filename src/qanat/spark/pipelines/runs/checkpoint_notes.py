"""Notes of what a checkpoint belongs to, and how a changed pipeline does not fit it. Pure.

Spark's own checkpoint names neither tables nor topics: it would refuse a changed query in its own words, or lose what
the old one has computed without a word.
"""

from __future__ import annotations

import json
import re

import msgspec
from msgspec import Struct

from qanat.spark.pipelines.definition import Definition, Sink, Source, Step, located
from qanat.spark.pipelines.ordering import upstream
from qanat.spark.pipelines.runs.narrowing import Columns, columns_of, narrowed

_KEEPS_STATE = re.compile(r"\b(group\s+by|join|distinct)\b", re.IGNORECASE)

_KEPT = ("topic", "parquet", "format")
"""Sinks whose rows others read."""


class CheckpointNote(Struct, frozen=True, kw_only=True):
    """What the query of one sink consists of, as far as its checkpoint depends on it."""

    sources: dict[str, list[str]]
    """Streams by name: their topics, or a pattern."""
    state: dict[str, str] = {}
    """Steps that keep state, in words that compare."""
    sql: dict[str, str] = {}
    """SQL that keeps state; whether a change fits, Spark knows."""
    kind: str
    target: str | None = None
    mode: str
    schemas: dict[str, list[tuple[str, str]]] = {}
    """Columns that sources decode."""
    columns: list[tuple[str, str]] = []
    """Columns of the sink; none where Spark has not said."""


def note_of(pipeline: Definition, name: str, columns: Columns = ()) -> CheckpointNote:
    """The note of a sink."""
    sink = pipeline.sinks[name]
    tables = upstream(pipeline, sink.from_)
    streams = {one: source for one, source in pipeline.sources.items() if one in tables and source.is_stream}
    steps = {one: step for one, step in pipeline.steps.items() if one in tables}
    return CheckpointNote(
        sources={one: _topics(source) for one, source in streams.items()},
        state={one: text for one, step in steps.items() if (text := _state(step))},
        sql={one: _plain(step.sql) for one, step in steps.items() if step.sql and _KEEPS_STATE.search(step.sql)},
        kind=sink.kind,
        target=_target(sink),
        mode=sink.mode,
        schemas={one: columns_of(source.schema) for one, source in streams.items() if source.schema is not None},
        columns=[(one, _on_the_wire(kind, sink)) for one, kind in columns] if sink.kind in _KEPT else [],
    )


def _on_the_wire(kind: str, sink: Sink) -> str:
    """Text and bytes are the same in a record."""
    return "string" if sink.kind == "topic" and kind == "binary" else kind


def _topics(source: Source) -> list[str]:
    if source.pattern is not None:
        return [f"pattern {source.pattern}"]
    return [source.topic] if source.topic is not None else sorted(source.topics)


def _state(step: Step) -> str:
    parts = []
    if step.distinct:
        parts.append(f"distinct {', '.join(sorted(step.distinct))}")
    if step.windows is not None:
        parts.append(f"windows {json.dumps(msgspec.to_builtins(step.windows), sort_keys=True)}")
    return "; ".join(parts)


def _target(sink: Sink) -> str | None:
    """A folder that only this checkpoint may write: Spark numbers its micro-batches there as well."""
    return located(sink.parquet) if sink.parquet is not None and not sink.is_by_batch else None


def _plain(sql: str) -> str:
    return " ".join(sql.lower().split())


def misfits(before: CheckpointNote, after: CheckpointNote) -> list[str]:
    """Why a changed pipeline does not continue from the checkpoint, a clause each; none where it does."""
    found: list[str] = []
    if len(before.sources) != len(after.sources):
        found.append(f"it read {_listed(before.sources)} and now reads {_listed(after.sources)}")
    else:
        pairs = zip(before.sources.items(), after.sources.items(), strict=True)
        found += [
            f"source {name} read {', '.join(old)} and now reads {', '.join(new)}"
            for (_, old), (name, new) in pairs
            if not set(old) <= set(new)
        ]
    old_state, new_state = list(before.state.items()), list(after.state.items())
    if [text for _, text in old_state] != [text for _, text in new_state]:
        changed = [one for one in {**before.state, **after.state} if before.state.get(one) != after.state.get(one)]
        found.append(
            f"step {changed[0] if changed else old_state[0][0]} keeps other state: distinct or windows changed"
        )
    if (before.kind, before.mode) != (after.kind, after.mode):
        found.append(f"it wrote {before.kind} in mode {before.mode} and now writes {after.kind} in mode {after.mode}")
    elif before.target != after.target:
        found.append(f"it wrote {before.target} and now writes {after.target}")
    for source, columns in before.schemas.items():
        lost = narrowed(columns, after.schemas.get(source, []))
        found += [f"the schema of source {source} narrows: {one}" for one in lost if source in after.schemas]
    if before.columns and after.columns:
        found += [f"its rows narrow: {one}" for one in narrowed(before.columns, after.columns)]
    return found


def doubts(before: CheckpointNote, after: CheckpointNote) -> list[str]:
    """Changes that only Spark can judge."""
    changed = [one for one in {**before.sql, **after.sql} if before.sql.get(one) != after.sql.get(one)]
    return [
        f"the SQL of step {one} changed, and it keeps state: Spark says at the start whether it fits" for one in changed
    ]


def _listed(sources: dict[str, list[str]]) -> str:
    return ", ".join(topic for topics in sources.values() for topic in topics) or "nothing"
