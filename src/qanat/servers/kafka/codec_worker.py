"""Decoding and encoding of long messages, in a worker thread.

Python's threads take turns at the interpreter every few milliseconds, so the event loop goes on meanwhile. A message
belongs to one request, so the threads share nothing. There is one worker: each further one would take the loop's turns.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from qanat.api.api_table import ServedApi
from qanat.api.error_counts import Errors
from qanat.wire.kafka.headers import RequestHeader, frame_response
from qanat.wire.kafka.writing import Chunk

ON_LOOP_UNITS = 4_000
"""The most that decoding a request may cost on the loop (`wire.kafka.reading`): a millisecond, some hundred rows."""


class CodecWorker:
    """The worker, started with the first long message; `close` ends it."""

    def __init__(self) -> None:
        self._worker: ThreadPoolExecutor | None = None

    def close(self) -> None:
        if self._worker is not None:
            self._worker.shutdown()

    async def read(self, served: ServedApi, header: RequestHeader, frame: memoryview) -> Any:
        """Decode the request in a frame."""
        return await self._run(served.api.codec.read_request, frame, header.api_version, header.body_position)

    async def write(self, response: Any, served: ServedApi, header: RequestHeader) -> tuple[list[Chunk], Errors]:
        """Encode an answer; with it, the errors that it carries."""
        written: tuple[list[Chunk], Errors] = await self._run(_write, response, served, header)
        return written

    async def _run(self, function: Any, *arguments: Any) -> Any:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, "kafka-codec")
        return await asyncio.get_running_loop().run_in_executor(self._worker, function, *arguments)


def _write(response: Any, served: ServedApi, header: RequestHeader) -> tuple[list[Chunk], Errors]:
    errors: Errors = {}
    served.count_errors(response, errors)
    body = served.api.codec.write_response(response, header.api_version)
    return frame_response(header.api_key, header.api_version, header.correlation_id, body), errors
