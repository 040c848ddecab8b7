"""Exporter: the progress of queries for Prometheus, on a port of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from qanat.model.errors import AddressInUseError
from qanat.model.pipeline_runs import QueryState
from qanat.spark.pipelines.runs.run_topic import now_ms
from qanat.telemetry.exposition import CONTENT_TYPE
from qanat.telemetry.pipeline_families import query_text

_HOST = "127.0.0.1"
_Queries = Sequence[QueryState]


def exposition(queries: _Queries) -> str:
    """The text that Prometheus reads."""
    return query_text(queries, now_ms())


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
