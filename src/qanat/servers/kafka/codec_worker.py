"""Reading and writing of long messages beside the loop, on one worker.

Python's threads take turns at the interpreter every few milliseconds, so the loop stays alive meanwhile; and a message
is nobody's but its request's, so nothing is shared. There is one worker, because each more would take the loop's turns.
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
"""What reading a request may take on the loop (see `wire.kafka.reading`): about a millisecond, some hundred rows."""


class CodecWorker:
    """The worker; there is none before the first long message. `close` at the end."""

    def __init__(self) -> None:
        self._worker: ThreadPoolExecutor | None = None

    def close(self) -> None:
        if self._worker is not None:
            self._worker.shutdown()

    async def read(self, served: ServedApi, header: RequestHeader, frame: memoryview) -> Any:
        """The request in a frame."""
        return await self._run(served.api.codec.read_request, frame, header.api_version, header.body_position)

    async def write(self, response: Any, served: ServedApi, header: RequestHeader) -> tuple[list[Chunk], Errors]:
        """An answer as it is sent, and the errors in it."""
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
