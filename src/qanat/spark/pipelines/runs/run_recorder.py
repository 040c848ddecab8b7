"""Run recorder: writes the state of a run to `__qanat_pipelines`, and takes requests to stop from there.

Rule 1: one run per name. The state is written in transactions of the id `qanat-pipeline-NAME`: a run that begins
        initializes it, which fences the one before, however late that wakes up. A fenced run stops itself once it
        has read the state of the newer one: the coordinator raises epochs as well, of transactions that take too long.
Rule 2: a run of a name that is alive is refused, unless it shall be taken over. Then it is asked to stop, and fenced
        where it does not.
Rule 3: brokers that cannot be reached stop nothing: the state is written when they are back.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future

from msgspec.structs import replace

from qanat.connection.batch_producer import BatchProducer
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.pipeline_runs import (
    HEARTBEAT_MS,
    Entry,
    Phase,
    PipelineRuns,
    QueryState,
    RunState,
    StopRequest,
    TopicLag,
    past_entries,
    state_entry,
    stop_entry,
)
from qanat.model.topic_names import PIPELINES_TOPIC
from qanat.spark.options.options import Access
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.progress import Tally
from qanat.spark.pipelines.query_watch import Stop
from qanat.spark.pipelines.runs.query_states import query_state
from qanat.spark.pipelines.runs.run_processes import is_gone
from qanat.spark.pipelines.runs.run_topic import RunReader, encoded, ensure_topic, now_ms
from qanat.spark.pipelines.runs.topic_lags import topic_lags
from qanat.spark.pipelines.timestamps import shown
from qanat.spark.reads.offset_lookup import cluster_of

_log = logging.getLogger(__name__)

TAKE_OVER_WITHIN_S = 30.0
"""How long a run that shall be taken over may finish its micro-batch."""
NEWER_SHOWS_WITHIN_S = 15.0
"""How long a run that lost its epoch looks for a newer one: longer than a transaction may be open."""
_REACH_S = 15.0
_TIMEOUT_MS = 10_000
"""Of a transaction: that of a run which is killed in the middle of one blocks others for so long."""
_WRITE_EVERY_MS = 2000
_WAIT_MS = 500
_RETRY_S = 1.0
_LAST_TRIES = 3
_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
DENIED = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)


class RunIsLiveError(PipelineError):
    """Another run of the name is alive."""


def transactional_id(name: str) -> str:
    return f"qanat-pipeline-{name}"


class RunRecorder:
    """Records one run, in a thread. Use it in a `with`: entering claims the name, and raises where it cannot."""

    def __init__(
        self, access: Access, state: RunState, stop: Stop, *, is_take_over: bool = False, is_required: bool = False
    ) -> None:
        """`is_required`: whether a run that may not write the topic is refused."""
        self._access = access
        self._stop = stop
        self._is_take_over = is_take_over
        self._is_required = is_required
        self.refusal: str | None = None
        """Why the run is not recorded."""
        self._state = replace(state, started_ms=now_ms())
        self._lags: dict[str, TopicLag] = {}
        self._lock = threading.Lock()
        self._is_changed = True
        self._over = threading.Event()
        self._claimed: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name=f"state of {state.name}", daemon=True)
        self._java_restarts = 0
        self._written_ms = 0
        self._measured_ms = 0
        self._is_seen = False
        self._is_broken = False
        """Whether the last transaction has an unknown end."""

    @property
    def state(self) -> RunState:
        with self._lock:
            return self._state

    def __enter__(self) -> RunRecorder:
        self._thread.start()
        try:
            self._claimed.result()
        except RefusedError as fault:
            self._thread.join()
            if fault.code not in DENIED or self._is_required:
                raise
            name = self._state.name
            self.refusal = (
                f"this run is neither shown by `qanat pipeline status` nor fenced, as {fault}: allow READ, WRITE and "
                f"CREATE on topic {PIPELINES_TOPIC} and WRITE on transactional id {transactional_id(name)}"
            )
        except BaseException:
            self._over.set()
            self._thread.join()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Write the last state; `end` has said which."""
        self._over.set()
        self._thread.join()

    def show(self, tallies: Sequence[Tally], *, is_stopping: bool) -> None:
        """The progress of every query."""
        queries = self._with_lags([query_state(one) for one in tallies])
        phase: Phase = "stopping" if is_stopping else "running"
        restarts = self._java_restarts + sum(one.restarts for one in tallies)
        self._change(phase=phase, queries=queries, restarts=restarts)

    def restarted(self, error: str) -> None:
        """A fault that the run survives with another Java."""
        self._java_restarts += 1
        self._change(phase="starting", error=error, restarts=self._java_restarts)

    def end(self, phase: Phase, error: str | None = None) -> None:
        """How the run ended; the last error stays where there is no other."""
        self._change(phase=phase, ended_ms=now_ms(), error=error or self._state.error)

    def _change(self, **changes: object) -> None:
        with self._lock:
            changed = replace(self._state, **changes)
            self._is_changed = self._is_changed or changed != self._state
            self._state = changed

    # In the thread

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._record())

    async def _record(self) -> None:
        async with cluster_of(self._access, _REACH_S) as cluster:
            reader = RunReader(cluster, is_committed_only=True)
            try:
                producer = await self._claim(cluster, reader)
            except BaseException as fault:  # noqa: BLE001 - the caller raises it
                self._claimed.set_exception(fault)
                return
            self._claimed.set_result(None)
            while not self._over.is_set() and self._stop.fenced_by is None:
                await self._attempt(self._turn(cluster, reader, producer), cluster, reader, producer)
            for _ in range(_LAST_TRIES):
                if self._stop.fenced_by is not None:
                    break
                if await self._attempt(self._finish(cluster, reader, producer), cluster, reader, producer):
                    break
            # A fenced run has nothing to write: the newer one wrote how it ended.

    async def _attempt(
        self, work: Coroutine[object, object, None], cluster: Cluster, reader: RunReader, producer: BatchProducer
    ) -> bool:
        """Whether the work was done; a fault is not worth the end of the run."""
        try:
            try:
                await work
                return True
            except RefusedError as fault:
                if fault.code not in _FENCED:
                    raise
                await self._keep_name(cluster, reader, producer)
        except QanatError as fault:
            await self._wait_after(fault)
        return False

    async def _keep_name(self, cluster: Cluster, reader: RunReader, producer: BatchProducer) -> None:
        """Tell a newer run from the coordinator, which raises the epoch where a transaction takes too long.

        A producer that was paused for long cannot tell: its renewal may have been carried out, and its answer lost.
        A newer run writes its state as soon as it has the name; where none does in time, the name is still this run's.
        """
        try:
            await producer.renew(_TIMEOUT_MS, cluster.deadline())
            return
        except RefusedError as fault:
            if fault.code not in _FENCED:
                raise
        deadline = Deadline.after(NEWER_SHOWS_WITHIN_S)
        while not deadline.is_over:
            newest = (await reader.read_all(cluster.deadline())).current.get(self._state.name)
            if newest is not None and newest.run_id != self._state.run_id:
                self._fence_by(newest)
                return
            await reader.read_more(cluster.deadline(), _WAIT_MS)
        await producer.initialize(_TIMEOUT_MS, cluster.deadline())

    def _fence_by(self, newest: RunState) -> None:
        self._stop.fence(
            f"this run of pipeline {self._state.name} was fenced: {described(newest)} took over, where this one was"
        )

    async def _wait_after(self, fault: QanatError) -> None:
        if not self._is_broken:
            _log.warning("the state of pipeline %s is not written: %s", self._state.name, fault)
        self._is_broken = True
        await asyncio.sleep(_RETRY_S)

    async def _claim(self, cluster: Cluster, reader: RunReader) -> BatchProducer:
        deadline = cluster.deadline()
        await cluster.persist(lambda: ensure_topic(cluster, deadline), deadline)
        state = self._state
        runs = await reader.read_all(deadline)
        if not self._is_take_over:
            refuse_live(state.name, runs)
        before = live_run(state.name, runs)
        is_live = before is not None
        if before is not None:
            await self._ask_to_stop(cluster, reader, before)
        producer = await BatchProducer.transactional(
            cluster, transactional_id(state.name), _TIMEOUT_MS, cluster.deadline()
        )
        # Read again: whoever was fenced has written for the last time.
        runs = await reader.read_all(cluster.deadline())
        entries: list[Entry] = []
        before = runs.current.get(state.name)
        if before is not None and before.ended_ms is None:
            ended = replace(before, phase="fenced" if is_live else "lost", ended_ms=before.updated_ms)
            entries += past_entries(ended, runs.history(state.name))
        if state.name in runs.stops:
            entries.append(stop_entry(state.name, None))
        await self._write(cluster, producer, entries)
        return producer

    async def _ask_to_stop(self, cluster: Cluster, reader: RunReader, before: RunState) -> None:
        state = self._state
        origin = f"run {state.run_id} on {state.host}, which takes over"
        request = StopRequest(run_id=before.run_id, origin=origin, at_ms=now_ms())
        sender = await BatchProducer.idempotent(cluster, cluster.deadline())
        await sender.send(PIPELINES_TOPIC, {0: encoded([stop_entry(state.name, request)])}, cluster.deadline())
        deadline = Deadline.after(TAKE_OVER_WITHIN_S)
        while not deadline.is_over:
            known = reader.runs.current.get(state.name)
            if known is None or known.run_id != before.run_id or known.ended_ms is not None or is_gone(known):
                return
            await reader.read_more(cluster.deadline(), _WAIT_MS)

    async def _turn(self, cluster: Cluster, reader: RunReader, producer: BatchProducer) -> None:
        age_ms = now_ms() - self._written_ms
        if age_ms >= HEARTBEAT_MS or (self._is_changed and age_ms >= _WRITE_EVERY_MS):
            await self._measure(cluster)
            await self._write(cluster, producer)
        await reader.read_more(cluster.deadline(), _WAIT_MS)
        self._take(reader)

    def _take(self, reader: RunReader) -> None:
        """What the topic says to this run: to stop, or that it is not the newest."""
        state = self._state
        newest = reader.runs.current.get(state.name)
        is_own = newest is not None and newest.run_id == state.run_id
        # Before it has read its own state, the topic ends with that of the run before.
        self._is_seen = self._is_seen or is_own
        if newest is not None and self._is_seen and not is_own:
            self._fence_by(newest)
            return
        request = reader.runs.stops.get(state.name)
        if request is not None and request.run_id == state.run_id:
            wanted = 2 if request.is_now else 1
            while self._stop.times_requested < wanted:
                self._stop.request()

    async def _measure(self, cluster: Cluster) -> None:
        """Measure the lag, by the brokers: a query reports its own only when a micro-batch ends."""
        if now_ms() - self._measured_ms < HEARTBEAT_MS:
            return
        offsets: dict[str, dict[str, int]] = {}
        for query in self.state.queries:
            for topic, positions in query.offsets.items():
                known = offsets.setdefault(topic, {})
                known |= {one: min(at, known.get(one, at)) for one, at in positions.items()}
        try:
            self._lags = await topic_lags(cluster, offsets, now_ms(), cluster.deadline())
        except QanatError as fault:
            _log.info("the lag of pipeline %s is not known now: %s", self._state.name, fault)
        self._measured_ms = now_ms()

    async def _write(self, cluster: Cluster, producer: BatchProducer, others: Sequence[Entry] = ()) -> None:
        deadline = cluster.deadline()
        await self._end_broken(cluster, producer)
        with self._lock:
            self._is_changed = False
            self._state = replace(self._state, updated_ms=now_ms(), queries=self._with_lags(self._state.queries))
            state = self._state
        try:
            await producer.send(PIPELINES_TOPIC, {0: encoded([*others, state_entry(state)])}, deadline)
            await producer.end(deadline, is_committed=True)
        except BaseException:
            self._is_broken = self._is_changed = True
            raise
        self._written_ms = state.updated_ms

    async def _end_broken(self, cluster: Cluster, producer: BatchProducer) -> None:
        if self._is_broken:
            await producer.renew(_TIMEOUT_MS, cluster.deadline())
            self._is_broken = False

    def _with_lags(self, queries: Sequence[QueryState]) -> list[QueryState]:
        """Queries with the lag that was measured last, instead of their own."""
        return [
            replace(one, lag={**one.lag, **{topic: self._lags[topic] for topic in one.offsets if topic in self._lags}})
            for one in queries
        ]

    async def _finish(self, cluster: Cluster, reader: RunReader, producer: BatchProducer) -> None:
        self._measured_ms = 0
        await self._measure(cluster)
        await self._end_broken(cluster, producer)  # Or what is committed could be read only after its timeout.
        runs = await reader.read_all(cluster.deadline())
        state = replace(self.state, updated_ms=now_ms(), queries=self._with_lags(self.state.queries))
        entries = past_entries(state, runs.history(state.name))
        if state.name in runs.stops:
            entries.append(stop_entry(state.name, None))
        await self._write(cluster, producer, entries)


def described(state: RunState) -> str:
    """A run in words: where it is, and since when."""
    return f"run {state.run_id} on {state.host}, process {state.pid}, since {shown(state.started_ms)}"


def live_run(name: str, runs: PipelineRuns) -> RunState | None:
    """The run of a name that is alive."""
    known = runs.current.get(name)
    return known if known is not None and known.is_alive(now_ms()) and not is_gone(known) else None


def refuse_live(name: str, runs: PipelineRuns) -> None:
    """Raise where a run of the name is alive."""
    if (known := live_run(name, runs)) is not None:
        raise RunIsLiveError(
            f"pipeline {name} runs already: {described(known)}; `qanat pipeline stop {name}` ends it, "
            "--take-over replaces it, --as NAME runs another one beside it"
        )
