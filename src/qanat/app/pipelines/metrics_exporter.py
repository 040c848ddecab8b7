"""Metrics exporter: a pipeline's progress for Prometheus, on a port of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from qanat.app.pipelines.progress_display import has_watermark
from qanat.model.errors import AddressInUseError
from qanat.servers.metrics.exposition import CONTENT_TYPE, Family, Kind, Sample
from qanat.spark.pipelines.progress import Tally

_HOST = "127.0.0.1"
_Family = Family[list[Tally]]


def _family(name: str, kind: Kind, meaning: str, read: Callable[[Tally], float | None]) -> _Family:
    def collect(tallies: list[Tally]) -> Iterator[Sample]:
        for tally in tallies:
            if (value := read(tally)) is not None:
                yield Sample({"query": tally.query}, value)

    return Family(f"qanat_pipeline_{name}", kind, meaning, ("query",), collect)


def _watermark(tally: Tally) -> float | None:
    return datetime.fromisoformat(tally.watermark or "").timestamp() if has_watermark(tally) else None


FAMILIES: tuple[_Family, ...] = (
    _family("batches_total", "counter", "Micro-batches done.", lambda one: one.batches),
    _family("batch_seconds_total", "counter", "Time spent in them.", lambda one: one.seconds),
    _family("rows_total", "counter", "Rows read.", lambda one: one.rows),
    _family("written_rows_total", "counter", "Rows written.", lambda one: one.written),
    _family(
        "rows_per_second", "gauge", "Speed of the last micro-batch that had rows.", lambda one: one.rows_per_second
    ),
    _family("lag_records", "gauge", "Unread records when the last micro-batch ended.", lambda one: one.lag),
    _family("watermark_timestamp_seconds", "gauge", "Event time up to which windows are over.", _watermark),
    _family("state_rows", "gauge", "Rows in the query's state.", lambda one: one.state_rows),
    _family("state_bytes", "gauge", "Memory of the query's state.", lambda one: one.state_bytes),
    _family("duplicate_rows_total", "counter", "Rows dropped as duplicates.", lambda one: one.duplicates),
    _family("late_rows_total", "counter", "Rows that the watermark dropped.", lambda one: one.late),
)


def exposition(tallies: list[Tally]) -> str:
    """The text that Prometheus reads."""
    return "".join(text for family in FAMILIES for text in family.lines(tallies))


class Exporter:
    """Serves `tallies` at `GET /metrics` while it is open."""

    def __init__(self, port: int) -> None:
        self.tallies: list[Tally] = []
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_known = self.path.partition("?")[0] == "/metrics"
                text = exposition(exporter.tallies) if is_known else "Metrics are at /metrics.\n"
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
                f"cannot serve metrics on {_HOST}:{port}: {fault.strerror or fault}; choose another --metrics-port"
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
