"""Standard input as chunks of whole lines: available lines are passed on at once, and memory is bounded."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass

from qanat.app.client.arguments import WrongArgumentError

_CHUNK_BYTES = 1024 * 1024
LINE_BYTES_MAX = 64 * 1024 * 1024
STDIN = 0


@dataclass(frozen=True, slots=True)
class LineLimit:
    """How long a line may be, and the reason."""

    size_bytes: int = LINE_BYTES_MAX
    reason: str = "no record can be that long"


async def read_lines(limit: LineLimit, descriptor: int = STDIN) -> AsyncIterator[list[bytes]]:
    """Lines without their ends, as many as are available; the last one need not have an end.

    A line that is too long raises with its number as soon as that is certain, after the lines before it were yielded.
    """
    left = b""
    before = 0
    async for chunk in _chunks(descriptor):
        *lines, left = (left + chunk).split(b"\n")
        good = list(itertools.takewhile(lambda line: len(line) <= limit.size_bytes, lines))
        if good:
            yield good
        before += len(good)
        if len(good) < len(lines) or len(left) > limit.size_bytes:
            raise WrongArgumentError(f"line {before + 1} is longer than {limit.size_bytes} bytes, and {limit.reason}")
    if left:
        yield [left]


async def _chunks(descriptor: int) -> AsyncIterator[bytes]:
    """Chunks that a thread reads, one at a time; the thread does not delay the end of the process."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    wanted = threading.Semaphore(1)
    over = threading.Event()

    def read() -> None:
        # The descriptor itself: Python's own buffer would stay locked while this waits, and at exit.
        chunk = b"\n"
        while chunk and wanted.acquire() and not over.is_set():
            try:
                chunk = os.read(descriptor, _CHUNK_BYTES)
            except OSError:
                chunk = b""
            try:
                loop.call_soon_threadsafe(queue.put_nowait, chunk)
            except RuntimeError:
                return  # The loop is closed: the consumer is gone.

    threading.Thread(target=read, name="stdin", daemon=True).start()
    try:
        while chunk := await queue.get():
            wanted.release()
            yield chunk
    finally:
        over.set()
        wanted.release()
