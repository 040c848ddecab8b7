"""Runs of pipelines as records of `__qanat_pipelines`: the state of each name, past runs, requests to stop. Pure.

Keys and values are JSON:

    ["run", "orders"]             the state of the newest run of a name
    ["past", "orders", RUN_ID]    a run that is over: its last state
    ["stop", "orders"]            a request to stop a run

The topic is compacted: the last record of a key counts. A run writes its state at least every `HEARTBEAT_MS`; one that
is older than `LOST_AFTER_MS` and not over belongs to a run that ended without a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct, field

HEARTBEAT_MS = 10_000
LOST_AFTER_MS = 60_000
PAST_RUNS_MAX = 20
"""How many past runs of a name the topic holds."""

Phase = Literal["starting", "running", "stopping", "stopped", "finished", "failed", "fenced", "lost"]
"""`stopped` by a request or a signal, `finished` when everything was done, `fenced` by a newer run."""
Value = TypeVar("Value")
_ALIVE = ("starting", "running", "stopping")


class TopicLag(Struct, frozen=True):
    """How far a query is behind the end of a topic."""

    records: int
    seconds: float | None = None
    """The age of its oldest unread record; None where it is unknown."""


class QueryState(Struct, frozen=True):
    """The progress of a query of a run."""

    query: str
    batches: int = 0
    rows: int = 0
    written: int = 0
    rows_per_second: float = 0.0
    seconds: float = 0.0
    """Time spent in micro-batches."""
    batch_seconds: float = 0.0
    """Of the last one."""
    offsets: dict[str, dict[str, int]] = {}
    """By topic and partition: the next record that it reads."""
    lag: dict[str, TopicLag] = {}
    """By topic."""
    watermark: str | None = None
    state_rows: int = 0
    state_bytes: int = 0
    duplicates: int = 0
    late: int = 0

    @property
    def lag_records(self) -> int | None:
        return sum(one.records for one in self.lag.values()) if self.lag else None

    @property
    def lag_seconds(self) -> float | None:
        known = [one.seconds for one in self.lag.values() if one.seconds is not None]
        return max(known) if known else None


class RunState(Struct, frozen=True, kw_only=True):
    """A run: what, where, since when, and how far it is."""

    name: str
    run_id: str
    phase: Phase = "starting"
    pipeline: str = ""
    """The name of a pipeline, or the path of its file."""
    definition: str = ""
    """The text of the pipeline, without secrets."""
    settings: dict[str, str] = {}
    master: str = ""
    checkpoint: str | None = None
    host: str = ""
    pid: int = 0
    process_start: str = ""
    """Of the process, by its kernel: another process that gets the number later has another one."""
    host_identity: str = ""
    log: str | None = None
    started_ms: int = 0
    updated_ms: int = 0
    ended_ms: int | None = None
    restarts: int = 0
    """How often Java or a query started again after a fault of the machine."""
    error: str | None = None
    """The last error; of a run that failed, why."""
    queries: list[QueryState] = []

    def is_alive(self, now_ms: int) -> bool:
        """Whether it has written its state lately, and not that it is over."""
        return self.phase in _ALIVE and now_ms - self.updated_ms <= LOST_AFTER_MS

    def phase_at(self, now_ms: int) -> Phase:
        """The phase as readers should show it."""
        return "lost" if self.phase in _ALIVE and not self.is_alive(now_ms) else self.phase

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.queries)

    @property
    def rows_per_second(self) -> float:
        return sum(one.rows_per_second for one in self.queries)

    @property
    def lag_records(self) -> int | None:
        known = [one.lag_records for one in self.queries if one.lag_records is not None]
        return max(known) if known else None

    @property
    def lag_seconds(self) -> float | None:
        known = [one.lag_seconds for one in self.queries if one.lag_seconds is not None]
        return max(known) if known else None


class StopRequest(Struct, frozen=True, kw_only=True):
    """A request to stop a run: after its micro-batch, or now."""

    run_id: str
    is_now: bool = False
    origin: str = ""
    """Who asked, for people."""
    at_ms: int = 0


class PipelineRuns(Struct):
    """The content of the topic."""

    current: dict[str, RunState] = field(default_factory=dict)
    past: dict[str, dict[str, RunState]] = field(default_factory=dict)
    """By name and run, oldest first."""
    stops: dict[str, StopRequest] = field(default_factory=dict)

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a record; what is not of ours, or of a later version, is skipped."""
        try:
            match json.loads(key or b"null"):
                case ["run", str(name)]:
                    _put(self.current, name, None if value is None else _STATES.decode(value))
                case ["past", str(name), str(run_id)]:
                    _put(self.past.setdefault(name, {}), run_id, None if value is None else _STATES.decode(value))
                case ["stop", str(name)]:
                    _put(self.stops, name, None if value is None else _STOPS.decode(value))
        except (ValueError, msgspec.MsgspecError):
            return

    def history(self, name: str) -> list[RunState]:
        """The past runs of a name, newest first."""
        return sorted(self.past.get(name, {}).values(), key=lambda one: one.started_ms, reverse=True)


def _put(known: dict[str, Value], key: str, value: Value | None) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value


Entry = tuple[bytes, bytes | None]
"""Key and value of a record; no value removes the key."""


def state_entry(state: RunState) -> Entry:
    return _key("run", state.name), _ENCODE(state)


def past_entries(state: RunState, known: Iterable[RunState]) -> list[Entry]:
    """A run that is over, and the removal of those that are too many; `known` are the past runs of its name."""
    entries = [(_key("past", state.name, state.run_id), _ENCODE(state))]
    others = sorted((one for one in known if one.run_id != state.run_id), key=lambda one: one.started_ms, reverse=True)
    return [*entries, *((_key("past", one.name, one.run_id), None) for one in others[PAST_RUNS_MAX - 1 :])]


def stop_entry(name: str, request: StopRequest | None) -> Entry:
    return _key("stop", name), None if request is None else _ENCODE(request)


def _key(*parts: str) -> bytes:
    return json.dumps(parts, separators=(",", ":")).encode()


_ENCODE = msgspec.json.Encoder().encode
_STATES = msgspec.json.Decoder(RunState)
_STOPS = msgspec.json.Decoder(StopRequest)
