"""Observer: one listener for every query of a Spark session, of whichever sources, with its progress for Prometheus."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from qanat.model.errors import QanatError
from qanat.model.pipeline_runs import QueryState, TopicLag
from qanat.spark.options.options import Access, access_of
from qanat.spark.pipelines.pipeline import cluster_options
from qanat.spark.pipelines.progress import Tally, ends_of, is_batch
from qanat.spark.pipelines.runs.exporter import Exporter, exposition
from qanat.spark.pipelines.runs.query_states import query_state
from qanat.spark.pipelines.runs.run_topic import now_ms
from qanat.spark.pipelines.runs.seen_ends import SeenEnds
from qanat.spark.pipelines.runs.topic_lags import topic_lags
from qanat.spark.reads.offset_lookup import cluster_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MEASURE_EVERY_MS = 5000


class _Observed:
    """One query: its tally, and the ends of its topics."""

    def __init__(self, name: str) -> None:
        self.tally = Tally(name)
        self.ends = SeenEnds()
        self.last_batch = -1

    def take(self, report: Mapping[str, Any], at_ms: int) -> None:
        if is_batch(report) and report["batchId"] > self.last_batch:
            self.tally = self.tally.plus(report)
            self.last_batch = report["batchId"]
        self.ends.note(ends_of(report.get("sources") or []), self.tally.offsets, at_ms)


class Observer:
    """The queries of a session. `close` it, or use it in a `with`.

    With `bootstrap` the lag comes from the brokers whenever it is read; otherwise it is what Spark last reported, and
    its seconds count from when the observer first saw a record.
    """

    def __init__(
        self,
        spark: SparkSession,
        port: int | None = None,
        bootstrap: str | None = None,
        client: Mapping[str, str] | None = None,
    ) -> None:
        self._spark = spark
        self._access: Access | None = None if bootstrap is None else access_of(cluster_options(bootstrap, client or {}))
        self._lock = threading.Lock()
        self._observed: dict[str, _Observed] = {}
        self._lags: dict[str, dict[str, TopicLag]] = {}
        self._measured_ms = 0
        self._exporter = None if port is None else Exporter(port, self.queries)
        self._listener = _listener(self)
        spark.streams.addListener(self._listener)
        if self._exporter is not None:
            self._exporter.__enter__()

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop to listen and to serve."""
        self._spark.streams.removeListener(self._listener)
        if self._exporter is not None:
            self._exporter.__exit__()
            self._exporter = None

    @property
    def address(self) -> str | None:
        """Where Prometheus reads, if there is a port."""
        return None if self._exporter is None else self._exporter.address

    def text(self) -> str:
        """The metrics as Prometheus reads them, for a server of your own."""
        return exposition(self.queries())

    def queries(self) -> list[QueryState]:
        """The progress and the lag of every query that runs."""
        with self._lock:
            found = {key: query_state(one.tally) for key, one in self._observed.items()}
            now = now_ms()
            seen = {
                key: {
                    topic: TopicLag(lag.records, one.ends.seconds(topic, one.tally.offsets.get(topic, {}), now))
                    for topic, lag in found[key].lag.items()
                }
                for key, one in self._observed.items()
            }
        self._measure(found)
        return [replace(one, lag={**seen[key], **self._lags.get(key, {})}) for key, one in found.items()]

    def _measure(self, found: Mapping[str, QueryState]) -> None:
        access = self._access
        if access is None or now_ms() - self._measured_ms < _MEASURE_EVERY_MS:
            return

        async def measure() -> dict[str, dict[str, TopicLag]]:
            async with cluster_of(access) as cluster:
                return {
                    key: await topic_lags(cluster, one.offsets, now_ms(), cluster.deadline())
                    for key, one in found.items()
                }

        try:
            self._lags = asyncio.run(measure())
        except QanatError:
            self._lags = {}  # The brokers are away: what Spark reported is shown.
        self._measured_ms = now_ms()

    # From the listener

    def started(self, key: str, name: str) -> None:
        with self._lock:
            self._observed[key] = _Observed(name)

    def progressed(self, key: str, report: Mapping[str, Any]) -> None:
        with self._lock:
            known = self._observed.setdefault(key, _Observed(str(report.get("name") or key)))
            known.take(report, now_ms())

    def ended(self, key: str) -> None:
        with self._lock:
            self._observed.pop(key, None)
            self._lags.pop(key, None)


def _listener(observer: Observer) -> Any:
    """A listener of PySpark, which is imported only here."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            observer.started(str(event.runId), event.name or str(event.id))

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            observer.progressed(str(event.progress.runId), json.loads(event.progress.json))

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            """Nothing is new: the lag is measured when it is read."""

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            observer.ended(str(event.runId))

    return Listener()
