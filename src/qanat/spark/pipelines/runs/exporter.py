"""Exporter: the progress of queries for Prometheus, on a port of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from qanat.model.errors import AddressInUseError
from qanat.model.pipeline_runs import QueryState, TopicLag
from qanat.spark.pipelines.progress import has_watermark
from qanat.telemetry.exposition import CONTENT_TYPE, Family, Kind, Sample

_HOST = "127.0.0.1"
_Queries = Sequence[QueryState]
_Family = Family[_Queries]


def _family(name: str, kind: Kind, meaning: str, read: Callable[[QueryState], float | None]) -> _Family:
    def collect(queries: _Queries) -> Iterator[Sample]:
        for query in queries:
            if (value := read(query)) is not None:
                yield Sample({"query": query.query}, value)

    return Family(f"qanat_pipeline_{name}", kind, meaning, ("query",), collect)


def _topic_family(name: str, meaning: str, read: Callable[[TopicLag], float | None]) -> _Family:
    def collect(queries: _Queries) -> Iterator[Sample]:
        for query in queries:
            for topic, lag in query.lag.items():
                if (value := read(lag)) is not None:
                    yield Sample({"query": query.query, "topic": topic}, value)

    return Family(f"qanat_pipeline_{name}", "gauge", meaning, ("query", "topic"), collect)


def _watermark(query: QueryState) -> float | None:
    return datetime.fromisoformat(query.watermark or "").timestamp() if has_watermark(query.watermark) else None


def _watermark_delay(query: QueryState) -> float | None:
    at = _watermark(query)
    return None if at is None else max(0.0, time.time() - at)


FAMILIES: tuple[_Family, ...] = (
    _family("batches_total", "counter", "Micro-batches done.", lambda one: one.batches),
    _family("batch_seconds_total", "counter", "Time spent in them.", lambda one: one.seconds),
    _family("batch_seconds", "gauge", "Time spent in the last one.", lambda one: one.batch_seconds),
    _family("rows_total", "counter", "Rows read.", lambda one: one.rows),
    _family("written_rows_total", "counter", "Rows written.", lambda one: one.written),
    _family(
        "rows_per_second", "gauge", "Speed of the last micro-batch that had rows.", lambda one: one.rows_per_second
    ),
    _family("lag_records", "gauge", "Unread records of all topics.", lambda one: one.lag_records),
    _family("lag_seconds", "gauge", "Age of the oldest unread record.", lambda one: one.lag_seconds),
    _topic_family("topic_lag_records", "Unread records of a topic.", lambda one: one.records),
    _topic_family("topic_lag_seconds", "Age of the oldest unread record of a topic.", lambda one: one.seconds),
    _family("watermark_timestamp_seconds", "gauge", "Event time up to which windows are over.", _watermark),
    _family("watermark_delay_seconds", "gauge", "How far that is behind the clock.", _watermark_delay),
    _family("state_rows", "gauge", "Rows in the query's state.", lambda one: one.state_rows),
    _family("state_bytes", "gauge", "Memory of the query's state.", lambda one: one.state_bytes),
    _family("duplicate_rows_total", "counter", "Rows dropped as duplicates.", lambda one: one.duplicates),
    _family("late_rows_total", "counter", "Rows that the watermark dropped.", lambda one: one.late),
)


def exposition(queries: _Queries) -> str:
    """The text that Prometheus reads."""
    return "".join(text for family in FAMILIES for text in family.lines(queries))


class Exporter:
    """Serves `read` at `GET /metrics` while it is open."""

    def __init__(self, port: int, read: Callable[[], _Queries] = list) -> None:
        self.read = read
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_known = self.path.partition("?")[0] == "/metrics"
                text = exposition(exporter.read()) if is_known else "Metrics are at /metrics.\n"
                body = text.encode()
                self.send_response(200 if is_known else 404)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Requests are not logged."""

        try:
            self._server = ThreadingHTTPServer((_HOST, port), Handler)
        except OSError as fault:
            raise AddressInUseError(
                f"cannot serve metrics on {_HOST}:{port}: {fault.strerror or fault}; choose another port"
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="pipeline metrics", daemon=True)

    @property
    def address(self) -> str:
        return f"http://{_HOST}:{self._server.server_address[1]}/metrics"

    def __enter__(self) -> Exporter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
